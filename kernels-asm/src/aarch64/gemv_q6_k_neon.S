// void gemv_q6_k_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q6_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// SSHR #2 makes three weights of three bytes; the fourth is put together from their low two bits
// (SLI, SLI, SHL) and treated likewise.
// SMULL and SMULL2 take two rows by four k each, times those four activations twice. The four
// products of a lane fit into an i16 (4 * 32 * 127 = 16256), and so does a sum of two lanes, which
// SMLAL multiplies with the scale of the sub-block.
// Two vector pairs, the upper halves of the third and two activation registers are always loaded
// ahead; at the end of sub-block 15, what is not used.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 scales | v4 v5 activations, four k four
// times | v6 scale bytes | v16-v18 bytes 0-2 of rows 0-3 | v19-v21 of rows 4-7 | v22 v23 weights
// v24-v27 i16 sums, four parts of each of two rows | v28-v31 A, two parts of each of two rows
// x5 activations of this record | x6 records left | x7 x8, x11 x12 upper halves of weight vectors
// x9 next four activations
//
// budget: 669 cycles a record (cortex-a55)
    .pushsection .text.gemv_q6_k_neon, "ax", %progbits
    .p2align 6
    .global gemv_q6_k_neon
    .hidden gemv_q6_k_neon
    .type   gemv_q6_k_neon, %function

// Four k of the weights v22 and v23 times v\x, which is loaded anew for four k eight further on;
// \mul is SMULL for the first four k and then SMLAL. \r0, \r1 and \r2 issue beside.
    .macro products mul, x, r0, r1, r2
    \mul    v24.8h, v22.8b, v\x\().8b       ; \r0
    \mul\()2 v25.8h, v22.16b, v\x\().16b    ; \r1
    \mul    v26.8h, v23.8b, v\x\().8b       ; \r2
    \mul\()2 v27.8h, v23.16b, v\x\().16b    ; ld1r    {v\x\().4s}, [x9], #4
    .endm

// Sub-block \j: A += scale * dot product. The look-ahead goes on at \next.
    .macro sub_block j, next
    sshr    v22.16b, v16.16b, #2            ; ldr     d18, [x0, #96 * \j + 208] // k 0-3
    sshr    v23.16b, v19.16b, #2            ; ldr     d21, [x0, #96 * \j + 224]
    products smull, 4, "ins v18.d[1], x7", "ins v21.d[1], x8", "ldr d6, [x0, #8 * \j]"
    sshr    v22.16b, v17.16b, #2            ; prfm    pldl1keep, [x0, #104 * \j + 2048] // k 4-7
    sshr    v23.16b, v20.16b, #2            ; prfm    pldl1keep, [x0, #104 * \j + 2104]
    products smlal, 5, "ldr x7, [x0, #\next + 8]", "ldr x8, [x0, #\next + 24]"
    sshr    v22.16b, v18.16b, #2                                                // k 8-11
    sshr    v23.16b, v21.16b, #2
    sli     v18.16b, v17.16b, #2            ; ldr     x11, [x0, #\next + 40]
    sli     v21.16b, v20.16b, #2            ; ldr     x12, [x0, #\next + 56]
    products smlal, 4, "ldr d17, [x0, #\next + 32]", "ldr d20, [x0, #\next + 48]"
    sli     v18.16b, v16.16b, #4            ; ins     v17.d[1], x11             // k 12-15
    sli     v21.16b, v19.16b, #4            ; ins     v20.d[1], x12
    shl     v18.16b, v18.16b, #2            ; ldr     d16, [x0, #\next]
    shl     v21.16b, v21.16b, #2            ; ldr     d19, [x0, #\next + 16]
    sshr    v22.16b, v18.16b, #2            ; ins     v16.d[1], x7
    sshr    v23.16b, v21.16b, #2            ; ins     v19.d[1], x8
    products smlal, 5, "ldr x7, [x0, #\next + 72]", "ldr x8, [x0, #\next + 88]"
    sxtl    v6.8h, v6.8b
    addp    v24.8h, v24.8h, v25.8h
    zip1    v2.8h, v6.8h, v6.8h
    addp    v26.8h, v26.8h, v27.8h
    zip2    v3.8h, v6.8h, v6.8h
    smlal   v28.4s, v24.4h, v2.4h
    smlal2  v29.4s, v24.8h, v2.8h
    smlal   v30.4s, v26.4h, v3.4h
    smlal2  v31.4s, v26.8h, v3.8h
    .endm

gemv_q6_k_neon:
    cbz     x1, 3f

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  ldr     x7, [x0, #152]                  ; mov     x9, x5
    ldr     x8, [x0, #168]                  ; fmov    d28, xzr
    ldr     d16, [x0, #144]                 ; fmov    d29, xzr
    ldr     d19, [x0, #160]                 ; ins     v16.d[1], x7
    ldr     x11, [x0, #184]                 ; ins     v19.d[1], x8
    ldr     x12, [x0, #200]                 ; fmov    d30, xzr
    ldr     d17, [x0, #176]                 ; fmov    d31, xzr
    ldr     d20, [x0, #192]                 ; ins     v17.d[1], x11
    ld1r    {v4.4s}, [x9], #4               ; ins     v20.d[1], x12
    ldr     x7, [x0, #216]
    ldr     x8, [x0, #232]
    ld1r    {v5.4s}, [x9], #4

    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    sub_block \j, 96 * \j + 240
    .endr
    sub_block 15, 144

// sum += activation scale * (d * A)
    addp    v28.4s, v28.4s, v29.4s          ; ldr     d22, [x0, #128]           // A; d
    addp    v30.4s, v30.4s, v31.4s          ; ldr     d23, [x0, #136]
    ldr     s4, [x5, #272]                  ; add     x0, x0, #1680
    scvtf   v28.4s, v28.4s                  ; add     x5, x5, #336
    scvtf   v30.4s, v30.4s                  ; subs    x6, x6, #1
    fcvtl   v22.4s, v22.4h
    fcvtl   v23.4s, v23.4h
    fmul    v28.4s, v28.4s, v22.4s                                              // t = d * A
    fmul    v30.4s, v30.4s, v23.4s
    fmla    v0.4s, v28.4s, v4.s[0]
    fmla    v1.4s, v30.4s, v4.s[0]          ; b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q6_k_neon, . - gemv_q6_k_neon
    .popsection
    .purgem sub_block
    .purgem products
