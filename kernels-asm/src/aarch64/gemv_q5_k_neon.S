// void gemv_q5_k_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down.
// SMULL and SMULL2 take two rows by four k each, times those four activations twice. All eight
// products of a lane fit into an i16 (8 * 31 * 127 = 31496).
// Two vector pairs and two activation registers are always loaded ahead. At the end of sub-block 7
// that look-ahead fetches the minima, which lie like two vector pairs, and the first activation
// sums. M = m . lo + 128 * (m . hi).
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 A | v4 v5 activations, four k four times
// v6 TBL indices, byte to lane | v7 mask | v16-v20 bytes 0-4 of rows 0-3, then u_5 in v16, u_6 in
// v18, u_7 in v20 | v21-v25 of rows 4-7 | v26 v27 weights, scales
// v28-v31 i16 sums, four parts of each of two rows
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
// x9 next four activations
//
// budget: 626 cycles a record (cortex-a55)
    .pushsection .text.gemv_q5_k_neon, "ax", %progbits
    .p2align 6
    .global gemv_q5_k_neon
    .hidden gemv_q5_k_neon
    .type   gemv_q5_k_neon, %function

// Four k of the weights v\u0 and v\u1 times v\x, which is loaded anew for four k eight further on;
// \mul is SMULL for the first four k and then SMLAL. \r0, \r1 and \r2 issue beside.
    .macro products mul, u0, u1, x, r0, r1, r2
    \mul    v28.8h, v\u0\().8b, v\x\().8b   ; \r0
    \mul\()2 v29.8h, v\u0\().16b, v\x\().16b ; \r1
    \mul    v30.8h, v\u1\().8b, v\x\().8b   ; \r2
    \mul\()2 v31.8h, v\u1\().16b, v\x\().16b ; ld1r {v\x\().4s}, [x9], #4
    .endm

// Sub-block \j, whose weights are at \at: A += scale * dot product. The look-ahead goes on at
// \next.
    .macro sub_block j, at, next
    and     v26.16b, v16.16b, v7.16b        ; ldr     x7, [x0, #\at + 72]           // u_0
    and     v27.16b, v21.16b, v7.16b        ; ldr     x8, [x0, #\at + 88]
    products smull, 26, 27, 4, "ldr d18, [x0, #\at + 64]", "ldr d23, [x0, #\at + 80]"
    and     v26.16b, v17.16b, v7.16b        ; ins     v18.d[1], x7                  // u_1
    and     v27.16b, v22.16b, v7.16b        ; ins     v23.d[1], x8
    products smlal, 26, 27, 5, "ldr x7, [x0, #\at + 104]", "ldr x8, [x0, #\at + 120]"
    and     v26.16b, v18.16b, v7.16b        ; ldr     d19, [x0, #\at + 96]          // u_2
    and     v27.16b, v23.16b, v7.16b        ; ldr     d24, [x0, #\at + 112]
    products smlal, 26, 27, 4, "ins v19.d[1], x7", "ins v24.d[1], x8"
    sri     v16.16b, v17.16b, #3            ; ldr     x7, [x0, #\at + 136]
    sri     v21.16b, v22.16b, #3            ; ldr     x8, [x0, #\at + 152]
    and     v26.16b, v19.16b, v7.16b        ; ldr     d20, [x0, #\at + 128]         // u_3
    and     v27.16b, v24.16b, v7.16b        ; ldr     d25, [x0, #\at + 144]
    products smlal, 26, 27, 5, "ins v20.d[1], x7", "ins v25.d[1], x8"
    and     v26.16b, v20.16b, v7.16b        ; prfm    pldl1keep, [x0, #\at + 1888]  // u_4
    and     v27.16b, v25.16b, v7.16b        ; prfm    pldl1keep, [x0, #\at + 1952]
    products smlal, 26, 27, 4, "prfm pldl1keep, [x0, #\at + 2016]"
    ushr    v16.16b, v16.16b, #3            ; ldr     s26, [x0, #8 * \j]            // u_5
    ushr    v21.16b, v21.16b, #3            ; ldr     s27, [x0, #8 * \j + 4]
    sri     v18.16b, v19.16b, #3            ; ldr     x7, [x0, #\next + 8]
    sri     v23.16b, v24.16b, #3            ; ldr     x8, [x0, #\next + 24]
    products smlal, 16, 21, 5
    ushr    v18.16b, v18.16b, #3            ; ldr     d16, [x0, #\next]             // u_6
    ushr    v23.16b, v23.16b, #3            ; ldr     d21, [x0, #\next + 16]
    shl     v17.16b, v17.16b, #2
    shl     v22.16b, v22.16b, #2
    products smlal, 18, 23, 4, "ins v16.d[1], x7", "ins v21.d[1], x8"
    shl     v19.16b, v19.16b, #2                                                    // u_7
    shl     v24.16b, v24.16b, #2
    sri     v17.16b, v19.16b, #1
    sri     v22.16b, v24.16b, #1            ; ldr     x7, [x0, #\next + 40]
    sri     v20.16b, v17.16b, #3            ; ldr     x8, [x0, #\next + 56]
    sri     v25.16b, v22.16b, #3
    ushr    v20.16b, v20.16b, #3            ; ldr     d17, [x0, #\next + 32]
    ushr    v25.16b, v25.16b, #3            ; ldr     d22, [x0, #\next + 48]
    products smlal, 20, 25, 5, "ins v17.d[1], x7", "ins v22.d[1], x8"
    tbl     v26.16b, {v26.16b}, v6.16b
    saddlp  v28.4s, v28.8h
    saddlp  v29.4s, v29.8h
    saddlp  v30.4s, v30.8h
    saddlp  v31.4s, v31.8h
    tbl     v27.16b, {v27.16b}, v6.16b
    addp    v28.4s, v28.4s, v29.4s
    addp    v30.4s, v30.4s, v31.4s
    mla     v2.4s, v28.4s, v26.4s
    mla     v3.4s, v30.4s, v27.4s
    .endm

gemv_q5_k_neon:
    cbz     x1, 3f
    ldr     q6, 9f
    movi    v7.16b, #31

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  ldr     x7, [x0, #168]                  ; mov     x9, x5
    ldr     x8, [x0, #184]                  ; fmov    d2, xzr
    ldr     d16, [x0, #160]                 ; fmov    d3, xzr
    ldr     d21, [x0, #176]                 ; ins     v16.d[1], x7
    ld1r    {v4.4s}, [x9], #4               ; ins     v21.d[1], x8
    ldr     x7, [x0, #200]
    ldr     x8, [x0, #216]
    ldr     d17, [x0, #192]
    ldr     d22, [x0, #208]                 ; ins     v17.d[1], x7
    ld1r    {v5.4s}, [x9], #4               ; ins     v22.d[1], x8

    .irp    j, 0, 1, 2, 3, 4, 5, 6
    sub_block \j, 160 * \j + 160, 160 * \j + 320
    .endr
    sub_block 7, 1280, 64

// sum += activation scale * (d * A - dmin * M)
    smull   v28.8h, v16.8b, v4.8b           ; prfm    pldl1keep, [x0, #3328]    // m . lo
    smull2  v29.8h, v16.16b, v4.16b         ; ld1r    {v26.4s}, [x9], #4
    smull   v30.8h, v21.8b, v4.8b           ; prfm    pldl1keep, [x0, #3392]
    smull2  v31.8h, v21.16b, v4.16b         ; ld1r    {v27.4s}, [x9], #4
    smlal   v28.8h, v17.8b, v5.8b           ; prfm    pldl1keep, [x0, #3456]
    smlal2  v29.8h, v17.16b, v5.16b         ; ld1r    {v4.4s}, [x9]             // scale
    smlal   v30.8h, v22.8b, v5.8b
    smlal2  v31.8h, v22.16b, v5.16b
    smull   v18.8h, v16.8b, v26.8b                                              // m . hi
    smull2  v19.8h, v16.16b, v26.16b
    smull   v23.8h, v21.8b, v26.8b
    smull2  v24.8h, v21.16b, v26.16b
    smlal   v18.8h, v17.8b, v27.8b          ; ldr     d20, [x0, #128]           // d
    smlal2  v19.8h, v17.16b, v27.16b        ; ldr     d25, [x0, #136]
    smlal   v23.8h, v22.8b, v27.8b          ; ldr     d26, [x0, #144]           // dmin
    smlal2  v24.8h, v22.16b, v27.16b        ; ldr     d27, [x0, #152]
    saddlp  v18.4s, v18.8h
    saddlp  v19.4s, v19.8h
    saddlp  v23.4s, v23.8h
    saddlp  v24.4s, v24.8h
    shl     v18.4s, v18.4s, #7
    shl     v19.4s, v19.4s, #7
    shl     v23.4s, v23.4s, #7
    shl     v24.4s, v24.4s, #7
    sadalp  v18.4s, v28.8h
    sadalp  v19.4s, v29.8h
    sadalp  v23.4s, v30.8h
    sadalp  v24.4s, v31.8h
    scvtf   v2.4s, v2.4s
    addp    v18.4s, v18.4s, v19.4s                                              // M
    scvtf   v3.4s, v3.4s
    addp    v23.4s, v23.4s, v24.4s
    fcvtl   v20.4s, v20.4h
    scvtf   v18.4s, v18.4s
    fcvtl   v25.4s, v25.4h
    scvtf   v23.4s, v23.4s
    fmul    v2.4s, v2.4s, v20.4s                                                // t = d * A
    fcvtl   v26.4s, v26.4h
    fmul    v3.4s, v3.4s, v25.4s
    fcvtl   v27.4s, v27.4h
    add     x0, x0, #1440
    fmls    v2.4s, v18.4s, v26.4s           ; add     x5, x5, #336              // t -= dmin * M
    fmls    v3.4s, v23.4s, v27.4s           ; subs    x6, x6, #1
    fmla    v0.4s, v2.4s, v4.4s
    fmla    v1.4s, v3.4s, v4.4s             ; b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .size   gemv_q5_k_neon, . - gemv_q5_k_neon
    .popsection
    .purgem sub_block
    .purgem products
