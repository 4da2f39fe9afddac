// void gemv_q5_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down. Minima are folded in by SDOT, M = 128 * (m . hi) + m . lo.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4 v5 activations;
// sums, scale | v6 v7 u_0-u_4 | v16-v25 bytes 0-4 of rows 0-3 and 4-7, then u_5 in the first pair,
// u_6 in the third, u_7 in the fifth, sub-block scales in the second; minima, d, dmin
// v26 v27 A, t | v28 scale bytes | v29 v30 TBL indices of rows 0-3 and 4-7 | v31 mask
// x5 activations of this record | x6 records left | x7 weights of this record
//
// budget: 943 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q5_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q5_k_neon_dotprod
    .hidden gemv_q5_k_neon_dotprod
    .type   gemv_q5_k_neon_dotprod, %function

// The eight k of each lane of four rows, bytes v\b0 to v\b4, into the sum v\sum.
    .macro rows sum, b0, b1, b2, b3, b4
    and     v6.16b, v\b0\().16b, v31.16b        // u_0
    and     v7.16b, v\b1\().16b, v31.16b        // u_1
    sdot    v\sum\().4s, v6.16b, v4.4b[0]
    sdot    v\sum\().4s, v7.16b, v4.4b[1]
    and     v6.16b, v\b2\().16b, v31.16b        // u_2
    and     v7.16b, v\b3\().16b, v31.16b        // u_3
    sdot    v\sum\().4s, v6.16b, v4.4b[2]
    sdot    v\sum\().4s, v7.16b, v4.4b[3]
    and     v6.16b, v\b4\().16b, v31.16b        // u_4
    sdot    v\sum\().4s, v6.16b, v5.4b[0]
    sri     v\b0\().16b, v\b1\().16b, #3        // u_5
    sri     v\b2\().16b, v\b3\().16b, #3        // u_6
    shl     v\b1\().16b, v\b1\().16b, #2
    shl     v\b3\().16b, v\b3\().16b, #2
    sri     v\b1\().16b, v\b3\().16b, #1        // u_7
    sri     v\b4\().16b, v\b1\().16b, #3
    ushr    v\b0\().16b, v\b0\().16b, #3
    ushr    v\b2\().16b, v\b2\().16b, #3
    ushr    v\b4\().16b, v\b4\().16b, #3
    sdot    v\sum\().4s, v\b0\().16b, v5.4b[1]
    sdot    v\sum\().4s, v\b2\().16b, v5.4b[2]
    sdot    v\sum\().4s, v\b4\().16b, v5.4b[3]
    .endm

// Sub-block \j: A += scale * dot product, or = for \sum = mul.
    .macro sub_block j, sum = mla
    ldp     q4, q5, [x5], #32
    ldr     d28, [x0, #8 * \j]
    movi    v2.4s, #0
    movi    v3.4s, #0
    ld1     {v16.16b-v19.16b}, [x7], #64
    ld1     {v20.16b-v23.16b}, [x7], #64
    ldp     q24, q25, [x7], #32
    rows    2, 16, 18, 20, 22, 24
    rows    3, 17, 19, 21, 23, 25
    tbl     v18.16b, {v28.16b}, v29.16b
    tbl     v19.16b, {v28.16b}, v30.16b
    \sum    v26.4s, v2.4s, v18.4s
    \sum    v27.4s, v3.4s, v19.4s
    .endm

// The five cache lines of sub-blocks \j and \j + 1.
    .macro prefetch j
    .irp    line, 1024, 1088, 1152, 1216, 1280
    prfm    pldl1keep, [x0, #160 * \j + \line]
    .endr
    .endm

gemv_q5_k_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #31
    adr     x7, 9f
    ldp     q29, q30, [x7]

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x0, #160
    prefetch 0
    sub_block 0, mul
    sub_block 1
    prefetch 2
    sub_block 2
    sub_block 3
    prefetch 4
    sub_block 4
    sub_block 5
    prefetch 6
    sub_block 6
    sub_block 7
    prfm    pldl1keep, [x0, #2304]
    prfm    pldl1keep, [x0, #2368]
    prfm    pldl1keep, [x0, #2432]

// sum += activation scale * (d * A - dmin * M)
    ldp     q4, q5, [x5], #80               // activation sums: lo, hi; activation scale
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
    scvtf   v26.4s, v26.4s                  // t = A
    scvtf   v27.4s, v27.4s
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v26.4s, v26.4s, v20.4s
    fmul    v27.4s, v27.4s, v21.4s
    fmls    v26.4s, v2.4s, v22.4s           // t -= dmin * M
    fmls    v27.4s, v3.4s, v23.4s
    fmla    v0.4s, v26.4s, v5.s[0]
    fmla    v1.4s, v27.4s, v5.s[0]
    mov     x0, x7
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .byte   4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1
    .size   gemv_q5_k_neon_dotprod, . - gemv_q5_k_neon_dotprod
    .popsection
    .purgem prefetch
    .purgem sub_block
    .purgem rows
    .arch_extension nodotprod
