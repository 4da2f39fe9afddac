// void gemv_q5_1_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_1 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down.
// sum = fma(dot, d * da, sum), then sum = fma(m, da * sum of activations, sum).
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v6 activation scale, scale * sum | v16-v25 bytes 0-4 of rows 0-3 and 4-7, then u_5 in the first
// pair, u_6 in the third, u_7 in the fifth; minima in the last two | v26 v27 u_0-u_4
// v28 v29 scales | v31 mask | x5 activations of this record, then of the next | x6 records left
//
// budget: 128 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q5_1_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q5_1_neon_dotprod
    .hidden gemv_q5_1_neon_dotprod
    .type   gemv_q5_1_neon_dotprod, %function

// The eight k of each lane of four rows, bytes v\b0 to v\b4, into the sum v\sum.
    .macro rows sum, b0, b1, b2, b3, b4
    and     v26.16b, v\b0\().16b, v31.16b       // u_0
    and     v27.16b, v\b1\().16b, v31.16b       // u_1
    sdot    v\sum\().4s, v26.16b, v4.4b[0]
    sdot    v\sum\().4s, v27.16b, v4.4b[1]
    and     v26.16b, v\b2\().16b, v31.16b       // u_2
    and     v27.16b, v\b3\().16b, v31.16b       // u_3
    sdot    v\sum\().4s, v26.16b, v4.4b[2]
    sdot    v\sum\().4s, v27.16b, v4.4b[3]
    and     v26.16b, v\b4\().16b, v31.16b       // u_4
    sdot    v\sum\().4s, v26.16b, v5.4b[0]
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

gemv_q5_1_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #31

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  ldp     q4, q5, [x5], #32
    movi    v2.4s, #0
    movi    v3.4s, #0
    prfm    pldl1keep, [x0, #1024]
    prfm    pldl1keep, [x0, #1088]
    prfm    pldl1keep, [x0, #1152]
    ld1     {v16.16b-v19.16b}, [x0], #64
    ld1     {v20.16b-v23.16b}, [x0], #64
    ldp     q24, q25, [x0], #32
    rows    2, 16, 18, 20, 22, 24
    rows    3, 17, 19, 21, 23, 25

    ldp     q28, q24, [x0], #32             // f16 scales, minima
    ldr     d6, [x5], #16                   // activation scale, scale * sum
    fcvtl2  v29.4s, v28.8h
    fcvtl   v28.4s, v28.4h
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v28.4s, v28.4s, v6.s[0]
    fmul    v29.4s, v29.4s, v6.s[0]
    fmla    v0.4s, v2.4s, v28.4s
    fmla    v1.4s, v3.4s, v29.4s
    fmla    v0.4s, v24.4s, v6.s[1]
    fmla    v1.4s, v25.4s, v6.s[1]
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q5_1_neon_dotprod, . - gemv_q5_1_neon_dotprod
    .popsection
    .purgem rows
    .arch_extension nodotprod
