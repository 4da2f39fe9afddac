// void gemv_q4_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Minima are folded in by SDOT, M = 128 * (m . hi) + m . lo.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4-v7 activations of
// two sub-blocks; sums, scale | v16-v19 weight vectors, high nibbles, sub-block scales; minima
// v20 v21 low nibbles; d | v22 v23 scale bytes of four sub-blocks; dmin | v24 v25 A, t | v27 mask
// v28-v31 TBL indices: scales of rows 0-3 and 4-7 of a first sub-block, and of a second
// x5 activations of this record | x6 records left | x7 weights of this record
//
// budget: 607 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q4_k_neon_dotprod
    .hidden gemv_q4_k_neon_dotprod
    .type   gemv_q4_k_neon_dotprod, %function

// Four k of the low and four of the high nibbles, vector pair \w0 \w1, by element \i of the
// activations v\low v\high.
    .macro step w0, w1, low, high, i
    and     v20.16b, v\w0\().16b, v27.16b
    and     v21.16b, v\w1\().16b, v27.16b
    ushr    v\w0\().16b, v\w0\().16b, #4
    ushr    v\w1\().16b, v\w1\().16b, #4
    sdot    v2.4s, v20.16b, v\low\().4b[\i]
    sdot    v3.4s, v21.16b, v\low\().4b[\i]
    sdot    v2.4s, v\w0\().16b, v\high\().4b[\i]
    sdot    v3.4s, v\w1\().16b, v\high\().4b[\i]
    .endm

// A sub-block: A += scale * dot product, or = for \sum = mul. Its scales are the bytes of v\scales
// that the indices v\rows0 and v\rows4 say.
    .macro sub_block sum, ahead, low, high, scales, rows0, rows4
    movi    v2.4s, #0
    movi    v3.4s, #0
    ld1     {v16.16b-v19.16b}, [x7], #64
    prfm    pldl1keep, [x0, #\ahead]
    step    16, 17, \low, \high, 0
    step    18, 19, \low, \high, 1
    ld1     {v16.16b-v19.16b}, [x7], #64
    prfm    pldl1keep, [x0, #\ahead + 64]
    step    16, 17, \low, \high, 2
    step    18, 19, \low, \high, 3
    tbl     v16.16b, {v\scales\().16b}, v\rows0\().16b
    tbl     v17.16b, {v\scales\().16b}, v\rows4\().16b
    \sum    v24.4s, v2.4s, v16.4s
    \sum    v25.4s, v3.4s, v17.4s
    .endm

// Sub-blocks \j and \j + 1, whose scales are v\scales.
    .macro two_sub_blocks j, scales, sum = mla
    ld1     {v4.16b-v7.16b}, [x5], #64
    sub_block \sum, 128 * \j + 1024, 4, 5, \scales, 28, 29
    sub_block mla, 128 * \j + 1152, 6, 7, \scales, 30, 31
    .endm

gemv_q4_k_neon_dotprod:
    cbz     x1, 3f
    movi    v27.16b, #0x0f
    adr     x7, 9f
    ld1     {v28.16b-v31.16b}, [x7]

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x0, #160
    ldp     q22, q23, [x0]
    two_sub_blocks 0, 22, mul
    two_sub_blocks 2, 23
    ldp     q22, q23, [x0, #32]
    two_sub_blocks 4, 22
    two_sub_blocks 6, 23
    prfm    pldl1keep, [x0, #2048]
    prfm    pldl1keep, [x0, #2112]
    prfm    pldl1keep, [x0, #2176]

// sum += activation scale * (d * A - dmin * M)
    ldp     q4, q6, [x5], #80               // activation sums: lo, hi; activation scale
    ldp     q16, q17, [x0, #64]             // minima
    ldp     q18, q19, [x0, #96]
    ldp     q20, q22, [x0, #128]            // d, dmin
    movi    v2.4s, #0
    movi    v3.4s, #0
    sdot    v2.4s, v16.16b, v4.4b[2]        // m . hi
    sdot    v3.4s, v17.16b, v4.4b[2]
    sdot    v2.4s, v18.16b, v4.4b[3]
    sdot    v3.4s, v19.16b, v4.4b[3]
    fcvtl2  v21.4s, v20.8h
    fcvtl   v20.4s, v20.4h
    shl     v2.4s, v2.4s, #7
    shl     v3.4s, v3.4s, #7
    sdot    v2.4s, v16.16b, v4.4b[0]        // m . lo
    sdot    v3.4s, v17.16b, v4.4b[0]
    sdot    v2.4s, v18.16b, v4.4b[1]
    sdot    v3.4s, v19.16b, v4.4b[1]
    fcvtl2  v23.4s, v22.8h
    fcvtl   v22.4s, v22.4h
    scvtf   v24.4s, v24.4s                  // t = A
    scvtf   v25.4s, v25.4s
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v24.4s, v24.4s, v20.4s
    fmul    v25.4s, v25.4s, v21.4s
    fmls    v24.4s, v2.4s, v22.4s           // t -= dmin * M
    fmls    v25.4s, v3.4s, v23.4s
    fmla    v0.4s, v24.4s, v6.s[0]
    fmla    v1.4s, v25.4s, v6.s[0]
    mov     x0, x7
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte    0, -1, -1, -1,  1, -1, -1, -1,  2, -1, -1, -1,  3, -1, -1, -1
    .byte    4, -1, -1, -1,  5, -1, -1, -1,  6, -1, -1, -1,  7, -1, -1, -1
    .byte    8, -1, -1, -1,  9, -1, -1, -1, 10, -1, -1, -1, 11, -1, -1, -1
    .byte   12, -1, -1, -1, 13, -1, -1, -1, 14, -1, -1, -1, 15, -1, -1, -1
    .size   gemv_q4_k_neon_dotprod, . - gemv_q4_k_neon_dotprod
    .popsection
    .purgem two_sub_blocks
    .purgem sub_block
    .purgem step
    .arch_extension nodotprod
