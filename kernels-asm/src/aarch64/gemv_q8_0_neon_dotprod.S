// void gemv_q8_0_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q8_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v16 v17 weight vectors | v6 activation scale | v20 v21 scales
// x5 activations of this record | x6 records left
//
// budget: 83 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q8_0_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q8_0_neon_dotprod
    .hidden gemv_q8_0_neon_dotprod
    .type   gemv_q8_0_neon_dotprod, %function

// Vector pair \v, by element \i of the activations v\x.
    .macro step v, x, i
    ldr     q16, [x0, #32 * (\v)]
    ldr     q17, [x0, #32 * (\v) + 16]
    sdot    v2.4s, v16.16b, v\x\().4b[\i]
    sdot    v3.4s, v17.16b, v\x\().4b[\i]
    .endm

gemv_q8_0_neon_dotprod:
    cbz     x1, 3f

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
    prfm    pldl1keep, [x0, #1216]
    prfm    pldl1keep, [x0, #1280]
    .irp    i, 0, 1, 2, 3
    step    \i, 4, \i
    .endr
    .irp    i, 0, 1, 2, 3
    step    4 + \i, 5, \i
    .endr

    ldr     q20, [x0, #256]                 // f16 scales
    ldr     s6, [x5, #32]                   // activation scale
    fcvtl2  v21.4s, v20.8h
    fcvtl   v20.4s, v20.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v20.4s, v20.4s, v6.s[0]
    fmul    v21.4s, v21.4s, v6.s[0]
    fmla    v0.4s, v2.4s, v20.4s
    fmla    v1.4s, v3.4s, v21.4s
    add     x0, x0, #272
    add     x5, x5, #48
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q8_0_neon_dotprod, . - gemv_q8_0_neon_dotprod
    .popsection
    .purgem step
    .arch_extension nodotprod
