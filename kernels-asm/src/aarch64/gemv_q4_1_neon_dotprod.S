// void gemv_q4_1_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_1 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// sum = fma(dot, d * da, sum), then sum = fma(m, da * sum of activations, sum).
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v16 v17 weight vectors, high nibbles | v18 v19 low nibbles | v6 activation scale, scale * sum
// v20 v21 scales | v22 v23 minima | v31 mask | x5 activations of this record | x6 records left
//
// budget: 91 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_1_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q4_1_neon_dotprod
    .hidden gemv_q4_1_neon_dotprod
    .type   gemv_q4_1_neon_dotprod, %function

// Four k of the low and four of the high nibbles: vector pair \v.
    .macro step v
    ldr     q16, [x0, #32 * \v]
    ldr     q17, [x0, #32 * \v + 16]
    and     v18.16b, v16.16b, v31.16b
    and     v19.16b, v17.16b, v31.16b
    ushr    v16.16b, v16.16b, #4
    ushr    v17.16b, v17.16b, #4
    sdot    v2.4s, v18.16b, v4.4b[\v]
    sdot    v3.4s, v19.16b, v4.4b[\v]
    sdot    v2.4s, v16.16b, v5.4b[\v]
    sdot    v3.4s, v17.16b, v5.4b[\v]
    .endm

gemv_q4_1_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #0x0f

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  ldr     q4, [x5]
    ldr     q5, [x5, #16]
    movi    v2.4s, #0
    movi    v3.4s, #0
    prfm    pldl1keep, [x0, #1024]
    prfm    pldl1keep, [x0, #1088]
    prfm    pldl1keep, [x0, #1152]
    .irp    v, 0, 1, 2, 3
    step    \v
    .endr

    ldr     q20, [x0, #128]                 // f16 scales
    ldr     q22, [x0, #144]                 // f16 minima
    ldr     d6, [x5, #32]                   // activation scale, scale * sum
    fcvtl2  v21.4s, v20.8h
    fcvtl   v20.4s, v20.4h
    fcvtl2  v23.4s, v22.8h
    fcvtl   v22.4s, v22.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v20.4s, v20.4s, v6.s[0]
    fmul    v21.4s, v21.4s, v6.s[0]
    fmla    v0.4s, v2.4s, v20.4s
    fmla    v1.4s, v3.4s, v21.4s
    fmla    v0.4s, v22.4s, v6.s[1]
    fmla    v1.4s, v23.4s, v6.s[1]
    add     x0, x0, #160
    add     x5, x5, #48
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
