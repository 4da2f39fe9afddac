// void gemv_q6_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q6_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Weights are used as 4 * q, as they lie (AND #0xfc); the fourth of each k is put together from
// the low two bits of three bytes (SLI, SLI, SHL). SCVTF #2 undoes the factor exactly:
// 16 * 128 * 16 * 128 * 128 = 5.4e8 bounds A, so it stays an exact int32.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 activations
// v6 activation scale | v16-v18 bytes 0-2, then the fourth weight in v18 | v19-v21 weights; d
// v26 v27 A, t | v28 scale bytes | v29 v30 sub-block scales | v31 mask
// x5 activations of this record | x6 records left
//
// budget: 948 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q6_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q6_k_neon_dotprod
    .hidden gemv_q6_k_neon_dotprod
    .type   gemv_q6_k_neon_dotprod, %function

// The four k of each lane of four rows, from three vectors at \at, into the sum v\sum.
    .macro rows sum, at
    ldr     q16, [x0, #\at]
    ldr     q17, [x0, #\at + 32]
    ldr     q18, [x0, #\at + 64]
    and     v19.16b, v16.16b, v31.16b
    and     v20.16b, v17.16b, v31.16b
    and     v21.16b, v18.16b, v31.16b
    sli     v18.16b, v17.16b, #2
    sdot    v\sum\().4s, v19.16b, v4.4b[0]
    sdot    v\sum\().4s, v20.16b, v4.4b[1]
    sli     v18.16b, v16.16b, #4
    sdot    v\sum\().4s, v21.16b, v4.4b[2]
    shl     v18.16b, v18.16b, #2
    sdot    v\sum\().4s, v18.16b, v4.4b[3]
    .endm

// Sub-block \j: A += scale * dot product.
    .macro sub_block j
    ldr     q4, [x5, #16 * \j]
    ldr     d28, [x0, #8 * \j]
    movi    v2.4s, #0
    movi    v3.4s, #0
    prfm    pldl1keep, [x0, #104 * \j + 1024]
    prfm    pldl1keep, [x0, #104 * \j + 1080]
    rows    2, 96 * \j + 144
    rows    3, 96 * \j + 160
    sxtl    v28.8h, v28.8b
    sxtl    v29.4s, v28.4h
    sxtl2   v30.4s, v28.8h
    mla     v26.4s, v2.4s, v29.4s
    mla     v27.4s, v3.4s, v30.4s
    .endm

gemv_q6_k_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #0xfc

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  movi    v26.4s, #0
    movi    v27.4s, #0
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    sub_block \j
    .endr

// sum += activation scale * (d * A)
    ldr     q20, [x0, #128]                 // d
    ldr     s6, [x5, #272]                  // activation scale
    fcvtl2  v21.4s, v20.8h
    fcvtl   v20.4s, v20.4h
    scvtf   v26.4s, v26.4s, #2              // t = A
    scvtf   v27.4s, v27.4s, #2
    fmul    v26.4s, v26.4s, v20.4s
    fmul    v27.4s, v27.4s, v21.4s
    fmla    v0.4s, v26.4s, v6.s[0]
    fmla    v1.4s, v27.4s, v6.s[0]
    add     x0, x0, #1680
    add     x5, x5, #336
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q6_k_neon_dotprod, . - gemv_q6_k_neon_dotprod
    .popsection
    .purgem sub_block
    .purgem rows
    .arch_extension nodotprod
