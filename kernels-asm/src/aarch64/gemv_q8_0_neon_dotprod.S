// void gemv_q8_0_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q8_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v6 activation scale | v16-v19, v20-v23 weight vectors | v24 v25 scales
// x5 activations of this record, then of the next | x6 records left
//
// budget: 86 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q8_0_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q8_0_neon_dotprod
    .hidden gemv_q8_0_neon_dotprod
    .type   gemv_q8_0_neon_dotprod, %function

// Sixteen k, four vector pairs, by the activations v\x.
    .macro half x
    ld1     {v16.16b-v19.16b}, [x0], #64
    ld1     {v20.16b-v23.16b}, [x0], #64
    sdot    v2.4s, v16.16b, v\x\().4b[0]
    sdot    v3.4s, v17.16b, v\x\().4b[0]
    sdot    v2.4s, v18.16b, v\x\().4b[1]
    sdot    v3.4s, v19.16b, v\x\().4b[1]
    sdot    v2.4s, v20.16b, v\x\().4b[2]
    sdot    v3.4s, v21.16b, v\x\().4b[2]
    sdot    v2.4s, v22.16b, v\x\().4b[3]
    sdot    v3.4s, v23.16b, v\x\().4b[3]
    .endm

gemv_q8_0_neon_dotprod:
    cbz     x1, 3f

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
    prfm    pldl1keep, [x0, #1216]
    prfm    pldl1keep, [x0, #1280]
    half    4
    half    5

    ldr     q24, [x0], #16                  // f16 scales
    ldr     s6, [x5], #16                   // activation scale
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v24.4s, v24.4s, v6.s[0]
    fmul    v25.4s, v25.4s, v6.s[0]
    fmla    v0.4s, v2.4s, v24.4s
    fmla    v1.4s, v3.4s, v25.4s
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q8_0_neon_dotprod, . - gemv_q8_0_neon_dotprod
    .popsection
    .purgem half
    .arch_extension nodotprod
