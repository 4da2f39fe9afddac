// void gemv_q4_1_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_1 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// sum = fma(dot, d * da, sum), then sum = fma(m, da * sum of activations, sum).
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v6 activation scale, scale * sum | v16-v19, v20-v23 weight vectors, high nibbles
// v24 v25 low nibbles | v26 v27 scales | v28 v29 minima | v31 mask
// x5 activations of this record, then of the next | x6 records left
//
// budget: 86 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_1_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q4_1_neon_dotprod
    .hidden gemv_q4_1_neon_dotprod
    .type   gemv_q4_1_neon_dotprod, %function

// Four k of the low and four of the high nibbles, vector pair \w0 \w1, by element \i.
    .macro step w0, w1, i
    and     v24.16b, v\w0\().16b, v31.16b
    and     v25.16b, v\w1\().16b, v31.16b
    ushr    v\w0\().16b, v\w0\().16b, #4
    ushr    v\w1\().16b, v\w1\().16b, #4
    sdot    v2.4s, v24.16b, v4.4b[\i]
    sdot    v3.4s, v25.16b, v4.4b[\i]
    sdot    v2.4s, v\w0\().16b, v5.4b[\i]
    sdot    v3.4s, v\w1\().16b, v5.4b[\i]
    .endm

gemv_q4_1_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #0x0f

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
    step    16, 17, 0
    step    18, 19, 1
    step    20, 21, 2
    step    22, 23, 3

    ldp     q26, q28, [x0], #32             // f16 scales, minima
    ldr     d6, [x5], #16                   // activation scale, scale * sum
    fcvtl2  v27.4s, v26.8h
    fcvtl   v26.4s, v26.4h
    fcvtl2  v29.4s, v28.8h
    fcvtl   v28.4s, v28.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v26.4s, v26.4s, v6.s[0]
    fmul    v27.4s, v27.4s, v6.s[0]
    fmla    v0.4s, v2.4s, v26.4s
    fmla    v1.4s, v3.4s, v27.4s
    fmla    v0.4s, v28.4s, v6.s[1]
    fmla    v1.4s, v29.4s, v6.s[1]
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q4_1_neon_dotprod, . - gemv_q4_1_neon_dotprod
    .popsection
    .purgem step
    .arch_extension nodotprod
