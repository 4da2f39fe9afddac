// void gemm_q4_k_neon_dotprod(...), see gemm.inc
// Eight rows of Q4_K at a time by four vectors of per-256 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// A record is gone through twice, for rows 0-3 and for rows 4-7: so many sums fit the registers. A
// nibble vector is loaded and unpacked once and multiplied with eight k of all four vectors; the
// vectors take turns, so no sum waits for itself.
// One vector of weights and the low activations are always loaded ahead. At the end of sub-block 7
// that look-ahead fetches minima and activation sums, M = 128 * (m . hi) + m . lo; at the end of a
// half the beginning of the next; behind the last record of the group its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 A, t
// v12-v15 dot products, M | v16-v19 activations of low nibbles | v20-v23 of high ones; scales
// v24 v25 weight vectors, minima | v26 low nibbles, d | v27 high nibbles, dmin
// v28 scale bytes, scales | v29 mask | v30 TBL indices, byte to lane
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x7 upper half of a weight vector | x13 x14 steps to the next record
//
// budget: 809 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q4_k_neon_dotprod, "ax", %progbits
    .p2align 6

// Sub-block \j of half \h: A += scale * dot product; \mla is mul for the first. The look-ahead goes
// on at \next, and in the activations at \low and \high.
    .macro sub_block h, j, mla, next, low, high
    // k 0-3, 16-19
    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     x7, [x0, #128 * \j + 16 * \h + 200]
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d25, [x0, #128 * \j + 16 * \h + 192]
    ushr    v27.16b, v24.16b, #4            ; ldr     d21, [x10, #32 * \j + 16]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ldr     d22, [x11, #32 * \j + 16]
    sdot    v15.4s, v26.16b, v19.4b[0]      ; ins     v25.d[1], x7
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d23, [x12, #32 * \j + 16]
    sdot    v13.4s, v27.16b, v21.4b[0]
    and     v26.16b, v25.16b, v29.16b
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]

    // k 4-7, 20-23
    sdot    v12.4s, v26.16b, v16.4b[1]      ; ldr     x7, [x0, #128 * \j + 16 * \h + 232]
    sdot    v13.4s, v26.16b, v17.4b[1]      ; ldr     d24, [x0, #128 * \j + 16 * \h + 224]
    ushr    v27.16b, v25.16b, #4            ; prfm    pldl1keep, [x0, #128 * \j + 64 * \h + 2048]
    sdot    v14.4s, v26.16b, v18.4b[1]
    sdot    v15.4s, v26.16b, v19.4b[1]      ; ins     v24.d[1], x7
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #32 * \j + 8]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #32 * \j + 8]
    and     v26.16b, v24.16b, v29.16b       ; ldr     d18, [x11, #32 * \j + 8]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d19, [x12, #32 * \j + 8]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     d20, [x9, #32 * \j + 24]

    // k 8-11, 24-27
    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     x7, [x0, #128 * \j + 16 * \h + 264]
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d25, [x0, #128 * \j + 16 * \h + 256]
    ushr    v27.16b, v24.16b, #4            ; ldr     d21, [x10, #32 * \j + 24]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ldr     d22, [x11, #32 * \j + 24]
    sdot    v15.4s, v26.16b, v19.4b[0]      ; ins     v25.d[1], x7
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d23, [x12, #32 * \j + 24]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     s28, [x0, #8 * \j + 4 * \h]
    and     v26.16b, v25.16b, v29.16b
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]

    // k 12-15, 28-31
    sdot    v12.4s, v26.16b, v16.4b[1]      ; ldr     x7, [x0, #\next + 8]
    sdot    v13.4s, v26.16b, v17.4b[1]      ; ldr     d24, [x0, #\next]
    ushr    v27.16b, v25.16b, #4
    sdot    v14.4s, v26.16b, v18.4b[1]
    sdot    v15.4s, v26.16b, v19.4b[1]      ; ins     v24.d[1], x7
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #\low]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #\low]
    and     v26.16b, v24.16b, v29.16b       ; ldr     d18, [x11, #\low]
    tbl     v28.16b, {v28.16b}, v30.16b     ; ldr     d19, [x12, #\low]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d20, [x9, #\high]
    sdot    v15.4s, v27.16b, v23.4b[1]
    \mla    v8.4s, v12.4s, v28.4s           ; fmov    d12, xzr
    \mla    v9.4s, v13.4s, v28.4s           ; fmov    d13, xzr
    \mla    v10.4s, v14.4s, v28.4s          ; fmov    d14, xzr
    \mla    v11.4s, v15.4s, v28.4s          ; fmov    d15, xzr
    .endm

// Sums of half \h, \f0 to \f3, += activation scale * (d * A - dmin * M). The next half begins at
// \next, after the steps \step in the weights and \act_step in the activations.
    .macro end_half h, f0, f1, f2, f3, next, step, act_step
    scvtf   v8.4s, v8.4s                    ; ldr     x7, [x0, #16 * \h + 104]   // t = A
    scvtf   v9.4s, v9.4s                    ; ldr     d25, [x0, #16 * \h + 96]
    scvtf   v10.4s, v10.4s                  ; ldr     d21, [x10, #264]
    scvtf   v11.4s, v11.4s                  ; ldr     d22, [x11, #264]
    sdot    v12.4s, v24.16b, v20.4b[0]      ; ldr     d23, [x12, #264]           // m . hi
    sdot    v13.4s, v24.16b, v21.4b[0]      ; ins     v25.d[1], x7
    sdot    v14.4s, v24.16b, v22.4b[0]      ; ldr     d26, [x0, #8 * \h + 128]   // d
    sdot    v15.4s, v24.16b, v23.4b[0]      ; ldr     d27, [x0, #8 * \h + 144]   // dmin
    sdot    v12.4s, v25.16b, v20.4b[1]      ; prfm    pldl1keep, [x0, #64 * \h + 3072]
    sdot    v13.4s, v25.16b, v21.4b[1]
    sdot    v14.4s, v25.16b, v22.4b[1]
    sdot    v15.4s, v25.16b, v23.4b[1]
    // activation scales
    fcvtl   v26.4s, v26.4h                  ; ldr     s20, [x9, #272]
    fcvtl   v27.4s, v27.4h                  ; ldr     s21, [x10, #272]
    shl     v12.4s, v12.4s, #7              ; ldr     s22, [x11, #272]
    shl     v13.4s, v13.4s, #7              ; ldr     s23, [x12, #272]
    shl     v14.4s, v14.4s, #7              ; add     x0, x0, \step
    shl     v15.4s, v15.4s, #7              ; add     x9, x9, \act_step
    sdot    v12.4s, v24.16b, v16.4b[0]      ; add     x10, x10, \act_step        // m . lo
    sdot    v13.4s, v24.16b, v17.4b[0]      ; add     x11, x11, \act_step
    sdot    v14.4s, v24.16b, v18.4b[0]      ; add     x12, x12, \act_step
    sdot    v15.4s, v24.16b, v19.4b[0]
    fmul    v8.4s, v8.4s, v26.4s            ; ldr     x7, [x0, #\next + 8]       // t *= d
    fmul    v9.4s, v9.4s, v26.4s            ; ldr     d24, [x0, #\next]
    fmul    v10.4s, v10.4s, v26.4s
    fmul    v11.4s, v11.4s, v26.4s
    sdot    v12.4s, v25.16b, v16.4b[1]      ; ins     v24.d[1], x7
    sdot    v13.4s, v25.16b, v17.4b[1]      ; ldr     d16, [x9]
    sdot    v14.4s, v25.16b, v18.4b[1]      ; ldr     d17, [x10]
    sdot    v15.4s, v25.16b, v19.4b[1]      ; ldr     d18, [x11]
    scvtf   v12.4s, v12.4s                  ; ldr     d19, [x12]
    scvtf   v13.4s, v13.4s
    scvtf   v14.4s, v14.4s
    scvtf   v15.4s, v15.4s
    fmls    v8.4s, v12.4s, v27.4s            // t -= dmin * M
    fmls    v9.4s, v13.4s, v27.4s           ; fmov    d12, xzr
    fmls    v10.4s, v14.4s, v27.4s          ; fmov    d13, xzr
    fmls    v11.4s, v15.4s, v27.4s          ; fmov    d14, xzr
    and     v26.16b, v24.16b, v29.16b       ; fmov    d15, xzr
    fmla    v\f0\().4s, v8.4s, v20.s[0]
    fmla    v\f1\().4s, v9.4s, v21.s[0]     ; ldr     d20, [x9, #16]
    fmla    v\f2\().4s, v10.4s, v22.s[0]
    fmla    v\f3\().4s, v11.4s, v23.s[0]
    .endm

    gemm    gemm_q4_k_neon_dotprod, 5f, gemv_q4_k_neon_dotprod, 1184

5:  movi    v29.16b, #0x0f
    ldr     q30, 9f
    ldr     q24, [x0, #160]
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     d19, [x12]
    ldr     d20, [x9, #16]
    and     v26.16b, v24.16b, v29.16b
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15
    movi    v\n\().4s, #0
    .endr

6:  mov     w13, #1184                      ; mov     w14, #336
    subs    x6, x6, #1
    csel    x13, x13, xzr, ne               ; csel    x14, x14, xzr, ne
    .irp    h, 0, 1
    sub_block \h, 0, mul, 16 * \h + 288, 32, 48
    .irp    j, 1, 2, 3, 4, 5, 6
    sub_block \h, \j, mla, 128 * \j + 16 * \h + 288, 32 * \j + 32, 32 * \j + 48
    .endr
    sub_block \h, 7, mla, 16 * \h + 64, 256, 264
    .if     \h == 0
    end_half 0, 0, 1, 2, 3, 176, xzr, xzr
    .else
    end_half 1, 4, 5, 6, 7, 160, x13, x14
    .endif
    .endr
    b.ne    6b
    ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .size   gemm_q4_k_neon_dotprod, . - gemm_q4_k_neon_dotprod
    .popsection
    .purgem sub_block
    .purgem end_half
    .purgem gemm
    .arch_extension nodotprod
