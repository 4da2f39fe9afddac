// void gemv_q4_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Minima are folded in by SDOT, M = 128 * (m . hi) + m . lo.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4 v5 activations
// v6 activation scale | v16 v17 weight vectors, high nibbles, sub-block scales | v18 v19 low
// nibbles | v20-v23 d, dmin | v26 v27 A, t | v28 scale bytes | v29 v30 TBL indices of rows 0-3
// and 4-7 | v31 mask | x5 activations of this record | x6 records left
//
// budget: 639 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q4_k_neon_dotprod
    .hidden gemv_q4_k_neon_dotprod
    .type   gemv_q4_k_neon_dotprod, %function

// Four k of the low and four of the high nibbles: vector pair \v of sub-block \j.
    .macro step j, v
    ldr     q16, [x0, #128 * \j + 32 * \v + 160]
    ldr     q17, [x0, #128 * \j + 32 * \v + 176]
    and     v18.16b, v16.16b, v31.16b
    and     v19.16b, v17.16b, v31.16b
    ushr    v16.16b, v16.16b, #4
    ushr    v17.16b, v17.16b, #4
    sdot    v2.4s, v18.16b, v4.4b[\v]
    sdot    v3.4s, v19.16b, v4.4b[\v]
    sdot    v2.4s, v16.16b, v5.4b[\v]
    sdot    v3.4s, v17.16b, v5.4b[\v]
    .endm

// Sub-block \j: A += scale * dot product.
    .macro sub_block j
    ldr     q4, [x5, #32 * \j]
    ldr     q5, [x5, #32 * \j + 16]
    movi    v2.4s, #0
    movi    v3.4s, #0
    prfm    pldl1keep, [x0, #128 * \j + 1024]
    prfm    pldl1keep, [x0, #128 * \j + 1088]
    step    \j, 0
    step    \j, 1
    step    \j, 2
    step    \j, 3
    ldr     d28, [x0, #8 * \j]
    tbl     v16.16b, {v28.16b}, v29.16b
    tbl     v17.16b, {v28.16b}, v30.16b
    mla     v26.4s, v2.4s, v16.4s
    mla     v27.4s, v3.4s, v17.4s
    .endm

gemv_q4_k_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #0x0f
    adr     x7, 9f
    ldp     q29, q30, [x7]

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  movi    v26.4s, #0
    movi    v27.4s, #0
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7
    sub_block \j
    .endr
    prfm    pldl1keep, [x0, #2048]
    prfm    pldl1keep, [x0, #2112]
    prfm    pldl1keep, [x0, #2176]

// sum += activation scale * (d * A - dmin * M)
    ldr     q4, [x5, #256]                  // activation sums: lo, hi
    ldr     q16, [x0, #64]                  // minima
    ldr     q17, [x0, #80]
    ldr     q18, [x0, #96]
    ldr     q19, [x0, #112]
    ldr     q20, [x0, #128]                 // d
    ldr     q22, [x0, #144]                 // dmin
    ldr     s6, [x5, #272]                  // activation scale
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
    fmla    v0.4s, v26.4s, v6.s[0]
    fmla    v1.4s, v27.4s, v6.s[0]
    add     x0, x0, #1184
    add     x5, x5, #336
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .byte   4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1
    .size   gemv_q4_k_neon_dotprod, . - gemv_q4_k_neon_dotprod
    .popsection
    .purgem sub_block
    .purgem step
    .arch_extension nodotprod
