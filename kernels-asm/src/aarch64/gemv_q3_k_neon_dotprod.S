// void gemv_q3_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q3_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Weights are used as u = q + 4; four times the sum of scale times activations is taken off at the
// end of a record.
// Written for cores that reorder; not yet scheduled for the Cortex-A55.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v7 activations
// v5 v6 their sums | v16-v21 bytes 0-2 of rows 0-3 and 4-7 | v22 v23 sums times scales
// v24 v25 weights; d | v26 v27 A | v28 scales; v29 the same | v30 v31 masks
// x5 activations of this record | x6 records left | x7 the sums
//
// budget: 782 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q3_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q3_k_neon_dotprod
    .hidden gemv_q3_k_neon_dotprod
    .type   gemv_q3_k_neon_dotprod, %function

// Sub-blocks 2 * \j and 2 * \j + 1, whose activations add up to elements \i and \i + 1 of \sums.
    .macro sub_blocks j, sums, i
    ldp     q16, q17, [x0, #144 + 96 * \j]
    ldp     q18, q19, [x0, #176 + 96 * \j]
    ldp     q20, q21, [x0, #208 + 96 * \j]
    ldp     q4, q7, [x5, #32 * \j]
    prfm    pldl1keep, [x0, #112 * \j + 2048]
    prfm    pldl1keep, [x0, #112 * \j + 2104]
    movi    v2.4s, #0
    movi    v3.4s, #0
    low     16, 17, v4.4b[0], v4.4b[1]      // u_0, u_1
    low     18, 19, v4.4b[2], v4.4b[3]      // u_2, u_3
    scale   2 * \j, \sums, \i
    movi    v2.4s, #0
    movi    v3.4s, #0
    low     20, 21, v7.4b[0], v7.4b[1]      // u_4, u_5
    high    16, 17, 4, v7.4b[2]             // u_6
    high    18, 19, 5, v7.4b[3]             // u_7
    scale   2 * \j + 1, \sums, (\i + 1)
    .endm

// Bits 0-2, then 3-5, of v\a and v\b.
    .macro low a, b, x0, x1
    and     v24.16b, v\a\().16b, v31.16b
    and     v25.16b, v\b\().16b, v31.16b
    sdot    v2.4s, v24.16b, \x0
    sdot    v3.4s, v25.16b, \x0
    ushr    v24.16b, v\a\().16b, #3
    ushr    v25.16b, v\b\().16b, #3
    and     v24.16b, v24.16b, v31.16b
    and     v25.16b, v25.16b, v31.16b
    sdot    v2.4s, v24.16b, \x1
    sdot    v3.4s, v25.16b, \x1
    .endm

// Bits 6 and 7 of v\a and v\b, and a third that byte 2 has \shift places higher.
    .macro high a, b, shift, x
    ushr    v24.16b, v20.16b, #\shift
    ushr    v25.16b, v21.16b, #\shift
    and     v24.16b, v24.16b, v30.16b
    and     v25.16b, v25.16b, v30.16b
    usra    v24.16b, v\a\().16b, #6
    usra    v25.16b, v\b\().16b, #6
    sdot    v2.4s, v24.16b, \x
    sdot    v3.4s, v25.16b, \x
    .endm

// A += scale * dot product, and the same with the activations' sum.
    .macro scale j, sums, i
    ldr     d28, [x0, #8 * (\j)]
    sxtl    v28.8h, v28.8b
    sxtl    v29.4s, v28.4h
    mla     v26.4s, v2.4s, v29.4s
    sxtl2   v29.4s, v28.8h
    mla     v27.4s, v3.4s, v29.4s
    smlal   v22.4s, v28.4h, \sums\().h[\i]
    smlal2  v23.4s, v28.8h, \sums\().h[\i]
    .endm

gemv_q3_k_neon_dotprod:
    cbz     x1, 3f
    movi    v30.16b, #4
    movi    v31.16b, #7

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x5, #296
    ldp     q5, q6, [x7]                    // sixteen sums of 16
    .irp    n, 22, 23, 26, 27
    movi    v\n\().4s, #0
    .endr
    .irp    j, 0, 1, 2, 3
    sub_blocks \j, v5, (2 * \j)
    .endr
    .irp    j, 4, 5, 6, 7
    sub_blocks \j, v6, (2 * \j - 8)
    .endr

// sum += activation scale * (d * A)
    ldr     q24, [x0, #128]
    ldr     s4, [x5, #272]
    shl     v22.4s, v22.4s, #2
    shl     v23.4s, v23.4s, #2
    sub     v26.4s, v26.4s, v22.4s
    sub     v27.4s, v27.4s, v23.4s
    fcvtl2  v25.4s, v24.8h
    fcvtl   v24.4s, v24.4h
    scvtf   v26.4s, v26.4s
    scvtf   v27.4s, v27.4s
    fmul    v26.4s, v26.4s, v24.4s
    fmul    v27.4s, v27.4s, v25.4s
    fmla    v0.4s, v26.4s, v4.s[0]
    fmla    v1.4s, v27.4s, v4.s[0]
    add     x0, x0, #912
    add     x5, x5, #336
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q3_k_neon_dotprod, . - gemv_q3_k_neon_dotprod
    .popsection
    .purgem sub_blocks
    .purgem low
    .purgem high
    .purgem scale
    .arch_extension nodotprod
