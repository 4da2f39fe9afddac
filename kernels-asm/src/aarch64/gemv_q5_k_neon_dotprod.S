// void gemv_q5_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down. Minima are folded in by SDOT, M = 128 * (m . hi) + m . lo.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4 v5 activations
// v6 activation scale | v16-v20 bytes 0-4, then u_5 in v16, u_6 in v18, u_7 in v20; sub-block
// scales, minima, d | v21-v25 u_0-u_4; d, dmin | v26 v27 A, t | v28 scale bytes
// v29 v30 TBL indices of rows 0-3 and 4-7 | v31 mask
// x5 activations of this record | x6 records left
//
// budget: 935 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q5_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q5_k_neon_dotprod
    .hidden gemv_q5_k_neon_dotprod
    .type   gemv_q5_k_neon_dotprod, %function

// The eight k of each lane of four rows, from five vectors at \at, into the sum v\sum.
    .macro rows sum, at
    ldr     q16, [x0, #\at]
    ldr     q17, [x0, #\at + 32]
    ldr     q18, [x0, #\at + 64]
    ldr     q19, [x0, #\at + 96]
    ldr     q20, [x0, #\at + 128]
    and     v21.16b, v16.16b, v31.16b       // u_0
    and     v22.16b, v17.16b, v31.16b       // u_1
    and     v23.16b, v18.16b, v31.16b       // u_2
    and     v24.16b, v19.16b, v31.16b       // u_3
    sdot    v\sum\().4s, v21.16b, v4.4b[0]
    sdot    v\sum\().4s, v22.16b, v4.4b[1]
    sri     v16.16b, v17.16b, #3            // u_5
    sri     v18.16b, v19.16b, #3            // u_6
    shl     v17.16b, v17.16b, #2
    shl     v19.16b, v19.16b, #2
    sdot    v\sum\().4s, v23.16b, v4.4b[2]
    sdot    v\sum\().4s, v24.16b, v4.4b[3]
    and     v25.16b, v20.16b, v31.16b       // u_4
    sri     v17.16b, v19.16b, #1            // u_7
    sri     v20.16b, v17.16b, #3
    ushr    v16.16b, v16.16b, #3
    ushr    v18.16b, v18.16b, #3
    ushr    v20.16b, v20.16b, #3
    sdot    v\sum\().4s, v25.16b, v5.4b[0]
    sdot    v\sum\().4s, v16.16b, v5.4b[1]
    sdot    v\sum\().4s, v18.16b, v5.4b[2]
    sdot    v\sum\().4s, v20.16b, v5.4b[3]
    .endm

// Sub-block \j: A += scale * dot product.
    .macro sub_block j
    ldr     q4, [x5, #32 * \j]
    ldr     q5, [x5, #32 * \j + 16]
    movi    v2.4s, #0
    movi    v3.4s, #0
    prfm    pldl1keep, [x0, #160 * \j + 1024]
    prfm    pldl1keep, [x0, #160 * \j + 1088]
    prfm    pldl1keep, [x0, #160 * \j + 1152]
    rows    2, 160 * \j + 160
    rows    3, 160 * \j + 176
    ldr     d28, [x0, #8 * \j]
    tbl     v16.16b, {v28.16b}, v29.16b
    tbl     v17.16b, {v28.16b}, v30.16b
    mla     v26.4s, v2.4s, v16.4s
    mla     v27.4s, v3.4s, v17.4s
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

2:  movi    v26.4s, #0
    movi    v27.4s, #0
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7
    sub_block \j
    .endr
    prfm    pldl1keep, [x0, #2304]
    prfm    pldl1keep, [x0, #2368]
    prfm    pldl1keep, [x0, #2432]

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
    add     x0, x0, #1440
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
    .size   gemv_q5_k_neon_dotprod, . - gemv_q5_k_neon_dotprod
    .popsection
    .purgem sub_block
    .purgem rows
    .arch_extension nodotprod
