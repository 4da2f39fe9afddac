// void gemv_tq2_0_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of TQ2_0 and TQ1_0 at a time by one vector of
// per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Weights are used as u = q + 1; the dot products start from minus the sum of the activations.
// Written for cores that reorder; not yet scheduled for the Cortex-A55.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, t | v4 activations
// v5 their sums, d*x | v16-v21 digits | v24 v25 d | v31 mask
// x5 activations of this record | x6 records left | x7 the sums
//
// budget: 479 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_tq2_0_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_tq2_0_neon_dotprod
    .hidden gemv_tq2_0_neon_dotprod
    .type   gemv_tq2_0_neon_dotprod, %function

// 16 k of eight rows.
    .macro sub_block j
    ldp     q16, q17, [x0, #16 + 32 * \j]
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
    .endm

gemv_tq2_0_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #3

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x5, #280
    ldr     q5, [x7]                        // eight sums of 32
    saddlv  s5, v5.8h
    dup     v2.4s, v5.s[0]
    neg     v2.4s, v2.4s
    mov     v3.16b, v2.16b
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    sub_block \j
    .if     \j % 2 == 0
    prfm    pldl1keep, [x0, #32 * \j + 2048]
    .endif
    .endr

// sum += activation scale * (d * A)
    ldr     q24, [x0]
    ldr     s5, [x5, #272]
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmul    v2.4s, v2.4s, v24.4s
    fmul    v3.4s, v3.4s, v25.4s
    fmla    v0.4s, v2.4s, v5.s[0]
    fmla    v1.4s, v3.4s, v5.s[0]
    add     x0, x0, #528
    add     x5, x5, #336
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_tq2_0_neon_dotprod, . - gemv_tq2_0_neon_dotprod
    .popsection
    .purgem sub_block
    .arch_extension nodotprod
