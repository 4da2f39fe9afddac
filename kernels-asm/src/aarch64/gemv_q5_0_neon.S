// void gemv_q5_0_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u = q + 16: the low five bits of byte v are u_v, and the high
// three make up u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a
// byte, USHR #3 brings them down.
// SMULL and SMULL2 take two rows by four k each, times those four activations twice. All eight
// products of a lane fit into an i16 (8 * 31 * 127 = 31496). The offset of 16 is taken off again
// with the sum of the activations. A record's float work is done at the head of the next record.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | d2 d3 scales | v4 v5 activations, four k four
// times | s6 activation scale | v7 mask | v16-v20 bytes 0-4 of rows 0-3, then u_5 in v16, u_6 in
// v18, u_7 in v20 | v21-v25 of rows 4-7 | v26 v27 weights; in the head dot products
// v28-v31 i16 sums, four parts of each of two rows
// x5 activations of this record | x6 records left | x7 x8, x11 x12 upper halves of weight vectors
// x9 next four activations | w10 16 * sum of the activations
//
// budget: 80 cycles a record (cortex-a55)
    .pushsection .text.gemv_q5_0_neon, "ax", %progbits
    .p2align 6
    .global gemv_q5_0_neon
    .hidden gemv_q5_0_neon
    .type   gemv_q5_0_neon, %function

// Four k of the weights v\u0 and v\u1 times v\x, which is loaded anew for four k eight further on;
// \mul is SMULL for the first four k and then SMLAL. \r0, \r1 and \r2 issue beside.
    .macro products mul, u0, u1, x, r0, r1, r2
    \mul    v28.8h, v\u0\().8b, v\x\().8b   ; \r0
    \mul\()2 v29.8h, v\u0\().16b, v\x\().16b ; \r1
    \mul    v30.8h, v\u1\().8b, v\x\().8b   ; \r2
    \mul\()2 v31.8h, v\u1\().16b, v\x\().16b ; ld1r {v\x\().4s}, [x9], #4
    .endm

gemv_q5_0_neon:
    cbz     x1, 3f
    movi    v7.16b, #31

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0
    mov     w10, #0                         // the record before the first adds nothing
    movi    v6.4s, #0
    .irp    n, 2, 3, 28, 29, 30, 31
    movi    v\n\().4s, #0
    .endr

2:  dup     v20.4s, w10                     ; ldr     x7, [x0, #8]
    saddlp  v28.4s, v28.8h                  ; ldr     x8, [x0, #24]
    saddlp  v29.4s, v29.8h                  ; ldr     d16, [x0]
    saddlp  v30.4s, v30.8h                  ; ldr     d21, [x0, #16]
    saddlp  v31.4s, v31.8h                  ; ins     v16.d[1], x7
    addp    v26.4s, v28.4s, v29.4s          ; ins     v21.d[1], x8
    fcvtl   v2.4s, v2.4h                    ; ldr     x11, [x0, #40]
    addp    v27.4s, v30.4s, v31.4s          ; ldr     x12, [x0, #56]
    sub     v26.4s, v26.4s, v20.4s          ; ldr     d17, [x0, #32]
    fcvtl   v3.4s, v3.4h                    ; ldr     d22, [x0, #48]
    sub     v27.4s, v27.4s, v20.4s          ; ins     v17.d[1], x11
    scvtf   v26.4s, v26.4s                  ; ins     v22.d[1], x12
    fmul    v2.4s, v2.4s, v6.s[0]           ; mov     x9, x5
    scvtf   v27.4s, v27.4s                  ; ld1r    {v4.4s}, [x9], #4
    fmul    v3.4s, v3.4s, v6.s[0]           ; ldr     w10, [x5, #40]
    subs    x6, x6, #1                      ; ld1r    {v5.4s}, [x9], #4
    fmla    v0.4s, v26.4s, v2.4s            ; ldr     s6, [x5, #32]
    add     x5, x5, #48                     ; lsl     w10, w10, #4
    fmla    v1.4s, v27.4s, v3.4s            ; ldr     d2, [x0, #160]

    and     v26.16b, v16.16b, v7.16b        ; ldr     x7, [x0, #72]         // u_0
    and     v27.16b, v21.16b, v7.16b        ; ldr     x8, [x0, #88]
    products smull, 26, 27, 4, "ldr d18, [x0, #64]", "ldr d23, [x0, #80]", "ldr d3, [x0, #168]"
    and     v26.16b, v17.16b, v7.16b        ; ins     v18.d[1], x7          // u_1
    and     v27.16b, v22.16b, v7.16b        ; ins     v23.d[1], x8
    products smlal, 26, 27, 5, "ldr x7, [x0, #104]", "ldr x8, [x0, #120]", "ldr d19, [x0, #96]"
    and     v26.16b, v18.16b, v7.16b        ; ldr     d24, [x0, #112]       // u_2
    and     v27.16b, v23.16b, v7.16b        ; ins     v19.d[1], x7
    products smlal, 26, 27, 4, "ins v24.d[1], x8", "ldr x7, [x0, #136]", "ldr x8, [x0, #152]"
    and     v26.16b, v19.16b, v7.16b        ; ldr     d20, [x0, #128]       // u_3
    and     v27.16b, v24.16b, v7.16b        ; ldr     d25, [x0, #144]
    products smlal, 26, 27, 5, "ins v20.d[1], x7", "ins v25.d[1], x8"
    and     v26.16b, v20.16b, v7.16b        ; prfm    pldl1keep, [x0, #2048] // u_4
    and     v27.16b, v25.16b, v7.16b        ; prfm    pldl1keep, [x0, #2112]
    products smlal, 26, 27, 4, "prfm pldl1keep, [x0, #2176]"
    sri     v16.16b, v17.16b, #3                                            // u_5
    sri     v21.16b, v22.16b, #3
    ushr    v16.16b, v16.16b, #3
    ushr    v21.16b, v21.16b, #3
    products smlal, 16, 21, 5
    sri     v18.16b, v19.16b, #3                                            // u_6
    sri     v23.16b, v24.16b, #3
    ushr    v18.16b, v18.16b, #3
    ushr    v23.16b, v23.16b, #3
    products smlal, 18, 23, 4
    shl     v17.16b, v17.16b, #2                                            // u_7
    shl     v22.16b, v22.16b, #2
    shl     v19.16b, v19.16b, #2
    shl     v24.16b, v24.16b, #2
    sri     v17.16b, v19.16b, #1
    sri     v22.16b, v24.16b, #1
    sri     v20.16b, v17.16b, #3
    sri     v25.16b, v22.16b, #3
    ushr    v20.16b, v20.16b, #3
    ushr    v25.16b, v25.16b, #3            ; add     x0, x0, #176
    products smlal, 20, 25, 5
    b.ne    2b

    dup     v20.4s, w10                     // the last record of the group
    saddlp  v28.4s, v28.8h
    saddlp  v29.4s, v29.8h
    saddlp  v30.4s, v30.8h
    saddlp  v31.4s, v31.8h
    addp    v26.4s, v28.4s, v29.4s
    addp    v27.4s, v30.4s, v31.4s
    sub     v26.4s, v26.4s, v20.4s
    sub     v27.4s, v27.4s, v20.4s
    scvtf   v26.4s, v26.4s
    scvtf   v27.4s, v27.4s
    fcvtl   v2.4s, v2.4h
    fcvtl   v3.4s, v3.4h
    fmul    v2.4s, v2.4s, v6.s[0]
    fmul    v3.4s, v3.4s, v6.s[0]
    fmla    v0.4s, v26.4s, v2.4s
    fmla    v1.4s, v27.4s, v3.4s
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q5_0_neon, . - gemv_q5_0_neon
    .popsection
    .purgem products
