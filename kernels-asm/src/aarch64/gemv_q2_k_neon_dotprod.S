// void gemv_q2_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q2_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// A is the sum of scale times dot product, M that of minimum times sum of 16 activations.
// Written for cores that reorder; not yet scheduled for the Cortex-A55.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 activations
// v5 v6 their sums | v7 their scale | v16-v21 digits | v22 v23 M | v24 v25 d, dmin | v26 v27 A, t
// v28 minima | v29 scales | v30 v31 masks
// x5 activations of this record | x6 records left | x7 the sums
//
// budget: 662 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q2_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q2_k_neon_dotprod
    .hidden gemv_q2_k_neon_dotprod
    .type   gemv_q2_k_neon_dotprod, %function

// Sub-block \j, whose activations add up to element \i of \sums.
    .macro sub_block j, sums, i
    movi    v2.4s, #0
    movi    v3.4s, #0
    ldr     d28, [x0, #8 * \j]
    ldp     q16, q17, [x0, #160 + 32 * \j]
    ldr     q4, [x5, #16 * \j]
    and     v18.16b, v16.16b, v31.16b
    and     v19.16b, v17.16b, v31.16b
    ushr    v20.16b, v16.16b, #2
    ushr    v21.16b, v17.16b, #2
    sdot    v2.4s, v18.16b, v4.4b[0]
    sdot    v3.4s, v19.16b, v4.4b[0]
    and     v20.16b, v20.16b, v31.16b
    and     v21.16b, v21.16b, v31.16b
    ushr    v18.16b, v16.16b, #4
    ushr    v19.16b, v17.16b, #4
    sdot    v2.4s, v20.16b, v4.4b[1]
    sdot    v3.4s, v21.16b, v4.4b[1]
    and     v18.16b, v18.16b, v31.16b
    and     v19.16b, v19.16b, v31.16b
    ushr    v16.16b, v16.16b, #6
    ushr    v17.16b, v17.16b, #6
    sdot    v2.4s, v18.16b, v4.4b[2]
    sdot    v3.4s, v19.16b, v4.4b[2]
    sdot    v2.4s, v16.16b, v4.4b[3]
    sdot    v3.4s, v17.16b, v4.4b[3]
    and     v29.8b, v28.8b, v30.8b
    ushr    v28.8b, v28.8b, #4
    uxtl    v29.8h, v29.8b
    uxtl    v28.8h, v28.8b
    uxtl    v20.4s, v29.4h
    uxtl2   v21.4s, v29.8h
    smlal   v22.4s, v28.4h, \sums\().h[\i]
    smlal2  v23.4s, v28.8h, \sums\().h[\i]
    mla     v26.4s, v2.4s, v20.4s
    mla     v27.4s, v3.4s, v21.4s
    prfm    pldl1keep, [x0, #40 * \j + 2048]
    .endm

gemv_q2_k_neon_dotprod:
    cbz     x1, 3f
    movi    v30.8b, #15
    movi    v31.16b, #3

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x5, #296
    ldp     q5, q6, [x7]                    // sixteen sums of 16
    .irp    n, 22, 23, 26, 27
    movi    v\n\().4s, #0
    .endr
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7
    sub_block \j, v5, \j
    .endr
    .irp    j, 8, 9, 10, 11, 12, 13, 14, 15
    sub_block \j, v6, (\j - 8)
    .endr

// t = d * A; t -= dmin * M; sum += activation scale * t
    ldr     q24, [x0, #128]
    ldr     s7, [x5, #272]
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    scvtf   v26.4s, v26.4s
    scvtf   v27.4s, v27.4s
    fmul    v26.4s, v26.4s, v24.4s
    fmul    v27.4s, v27.4s, v25.4s
    ldr     q24, [x0, #144]
    scvtf   v22.4s, v22.4s
    scvtf   v23.4s, v23.4s
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    fmls    v26.4s, v22.4s, v24.4s
    fmls    v27.4s, v23.4s, v25.4s
    fmla    v0.4s, v26.4s, v7.s[0]
    fmla    v1.4s, v27.4s, v7.s[0]
    add     x0, x0, #672
    add     x5, x5, #336
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q2_k_neon_dotprod, . - gemv_q2_k_neon_dotprod
    .popsection
    .purgem sub_block
    .arch_extension nodotprod
