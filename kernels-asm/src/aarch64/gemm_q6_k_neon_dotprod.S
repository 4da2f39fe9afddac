// void gemm_q6_k_neon_dotprod(...), see gemm.inc
// Eight rows of Q6_K at a time by four vectors of per-256 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// A record is gone through twice, for rows 0-3 and for rows 4-7: so many sums fit the registers.
// Weights are loaded and unpacked once and multiplied with the activations of all four vectors; the
// vectors take turns, so no sum waits for itself.
// Weights are used as 4 * q, as they lie (AND #0xfc); the fourth of each k is put together from
// the low two bits of three bytes (SLI, SLI, SHL). SCVTF #2 undoes the factor exactly:
// 16 * 128 * 16 * 128 * 128 = 5.4e8 bounds A, so it stays an exact int32.
// Bytes 0 and 1 and the first activations are always loaded ahead; behind the last record of the
// group its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 A, t
// v12-v15 dot products | v16-v19 activations 0-7 of a sub-block | v20-v23 8-15, scales
// v24-v26 bytes 0-2, fourth weights | v27 weights | v28 mask | v29 scales | v30 scale bytes | v31 d
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x13 x1-x4 the next record's | x7 x14 upper halves of weight vectors | w8 scale bytes
//
// budget: 912 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q6_k_neon_dotprod, "ax", %progbits
    .p2align 6

// Sub-blocks 2 * \j and 2 * \j + 1 of half \h: A += scale * dot product; \mla is mul for the first.
// The look-ahead goes on at \next from \w, and in the activations at \act from \a0 to \a3.
    .macro two_sub_blocks h, j, mla, next, act, w=x0, a0=x9, a1=x10, a2=x11, a3=x12
    // k 0-3
    and     v27.16b, v24.16b, v28.16b       ; prfm    pldl1keep, [x0, #192 * \j + 96 * \h + 2048]
    sdot    v12.4s, v27.16b, v16.4b[0]      ; prfm    pldl1keep, [x0, #192 * \j + 96 * \h + 2096]
    sdot    v13.4s, v27.16b, v17.4b[0]      ; ldr     x7, [x0, #192 * \j + 16 * \h + 216]
    sdot    v14.4s, v27.16b, v18.4b[0]
    sdot    v15.4s, v27.16b, v19.4b[0]
    and     v27.16b, v25.16b, v28.16b       ; ldr     d26, [x0, #192 * \j + 16 * \h + 208]
    sdot    v12.4s, v27.16b, v16.4b[1]      ; ins     v26.d[1], x7
    sdot    v13.4s, v27.16b, v17.4b[1]
    sdot    v14.4s, v27.16b, v18.4b[1]      ; ldr     w8, [x0, #16 * \j + 4 * \h + 8]
    sdot    v15.4s, v27.16b, v19.4b[1]      ; ldr     d20, [x9, #32 * \j + 8]
    and     v27.16b, v26.16b, v28.16b       ; ldr     s30, [x0, #16 * \j + 4 * \h]
    sli     v26.16b, v25.16b, #2            ; ldr     d21, [x10, #32 * \j + 8]
    sdot    v12.4s, v27.16b, v20.4b[0]
    sli     v26.16b, v24.16b, #4            ; ldr     d22, [x11, #32 * \j + 8]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #32 * \j + 8]
    shl     v26.16b, v26.16b, #2            ; ins     v30.s[1], w8
    sdot    v14.4s, v27.16b, v22.4b[0]      ; ldr     d16, [x9, #32 * \j + 16]
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     d17, [x10, #32 * \j + 16]
    sxtl    v30.8h, v30.8b                  ; ldr     x7, [x0, #192 * \j + 16 * \h + 248]
    sdot    v12.4s, v26.16b, v20.4b[1]      ; ldr     d18, [x11, #32 * \j + 16]
    sdot    v13.4s, v26.16b, v21.4b[1]      ; ldr     d19, [x12, #32 * \j + 16]
    sxtl    v29.4s, v30.4h                  ; ldr     d24, [x0, #192 * \j + 16 * \h + 240]
    sdot    v14.4s, v26.16b, v22.4b[1]      ; ins     v24.d[1], x7
    sdot    v15.4s, v26.16b, v23.4b[1]      ; ldr     x7, [x0, #192 * \j + 16 * \h + 280]
    \mla    v8.4s, v12.4s, v29.4s           ; fmov    d12, xzr
    \mla    v9.4s, v13.4s, v29.4s           ; fmov    d13, xzr
    \mla    v10.4s, v14.4s, v29.4s          ; fmov    d14, xzr
    \mla    v11.4s, v15.4s, v29.4s          ; fmov    d15, xzr

    // k 16-19
    and     v27.16b, v24.16b, v28.16b       ; ldr     d25, [x0, #192 * \j + 16 * \h + 272]
    sdot    v12.4s, v27.16b, v16.4b[0]      ; ins     v25.d[1], x7
    sdot    v13.4s, v27.16b, v17.4b[0]      ; ldr     x7, [x0, #192 * \j + 16 * \h + 312]
    sdot    v14.4s, v27.16b, v18.4b[0]
    sdot    v15.4s, v27.16b, v19.4b[0]
    and     v27.16b, v25.16b, v28.16b       ; ldr     d26, [x0, #192 * \j + 16 * \h + 304]
    sdot    v12.4s, v27.16b, v16.4b[1]      ; ins     v26.d[1], x7
    sdot    v13.4s, v27.16b, v17.4b[1]
    sdot    v14.4s, v27.16b, v18.4b[1]      ; ldr     d20, [x9, #32 * \j + 24]
    sdot    v15.4s, v27.16b, v19.4b[1]      ; ldr     d21, [x10, #32 * \j + 24]
    and     v27.16b, v26.16b, v28.16b       ; ldr     d31, [x0, #8 * \h + 128]
    sli     v26.16b, v25.16b, #2            ; ldr     d17, [\a1, #\act]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #32 * \j + 24]
    sli     v26.16b, v24.16b, #4            ; ldr     d19, [\a3, #\act]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #32 * \j + 24]
    shl     v26.16b, v26.16b, #2            ; ldr     d16, [\a0, #\act]
    sdot    v14.4s, v27.16b, v22.4b[0]      ; ldr     x14, [\w, #\next + 40]
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     d18, [\a2, #\act]
    sdot    v12.4s, v26.16b, v20.4b[1]      ; ldr     x7, [\w, #\next + 8]
    sdot    v13.4s, v26.16b, v21.4b[1]      ; ldr     d25, [\w, #\next + 32]
    sxtl2   v29.4s, v30.8h                  ; ins     v25.d[1], x14
    sdot    v14.4s, v26.16b, v22.4b[1]      ; ldr     d24, [\w, #\next]
    sdot    v15.4s, v26.16b, v23.4b[1]      ; ins     v24.d[1], x7
    mla     v8.4s, v12.4s, v29.4s           ; fmov    d12, xzr
    mla     v9.4s, v13.4s, v29.4s           ; fmov    d13, xzr
    mla     v10.4s, v14.4s, v29.4s          ; fmov    d14, xzr
    mla     v11.4s, v15.4s, v29.4s          ; fmov    d15, xzr
    .endm

// Sums of half \h, \f0 to \f3, += activation scale * (d * A).
    .macro end_half h, f0, f1, f2, f3, w=x0, a0=x9, a1=x10, a2=x11, a3=x12
    fcvtl   v31.4s, v31.4h                  ; ldr     s20, [x9, #272]   // d; activation scales
    scvtf   v8.4s, v8.4s, #2                ; ldr     s21, [x10, #272]  // t = A
    scvtf   v9.4s, v9.4s, #2                ; ldr     s22, [x11, #272]
    scvtf   v10.4s, v10.4s, #2              ; ldr     s23, [x12, #272]
    scvtf   v11.4s, v11.4s, #2              ; mov     x0, \w
    fmul    v8.4s, v8.4s, v31.4s            ; mov     x9, \a0
    fmul    v9.4s, v9.4s, v31.4s            ; mov     x10, \a1
    fmul    v10.4s, v10.4s, v31.4s          ; mov     x11, \a2
    fmul    v11.4s, v11.4s, v31.4s          ; mov     x12, \a3
    fmla    v\f0\().4s, v8.4s, v20.s[0]     ; prfm    pldl1keep, [x0, #3584]
    fmla    v\f1\().4s, v9.4s, v21.s[0]     ; prfm    pldl1keep, [x0, #3648]
    fmla    v\f2\().4s, v10.4s, v22.s[0]
    fmla    v\f3\().4s, v11.4s, v23.s[0]
    .endm

    gemm    gemm_q6_k_neon_dotprod, 5f, gemv_q6_k_neon_dotprod, 1680

5:  movi    v28.16b, #0xfc
    ldr     q24, [x0, #144]
    ldr     q25, [x0, #176]
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     d19, [x12]
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15
    movi    v\n\().4s, #0
    .endr

6:  mov     w13, #1680                      ; mov     w14, #336
    subs    x6, x6, #1
    csel    x13, x13, xzr, ne               ; csel    x14, x14, xzr, ne
    add     x13, x0, x13                    ; add     x1, x9, x14
    add     x2, x10, x14                    ; add     x3, x11, x14
    add     x4, x12, x14
    .irp    h, 0, 1
    two_sub_blocks \h, 0, mul, 16 * \h + 336, 32
    .irp    j, 1, 2, 3, 4, 5, 6
    two_sub_blocks \h, \j, mla, 192 * \j + 16 * \h + 336, 32 * \j + 32
    .endr
    .if     \h == 0
    two_sub_blocks 0, 7, mla, 160, 0
    end_half 0, 0, 1, 2, 3
    .else
    two_sub_blocks 1, 7, mla, 144, 0, x13, x1, x2, x3, x4
    end_half 1, 4, 5, 6, 7, x13, x1, x2, x3, x4
    .endif
    .endr
    b.ne    6b
    ret
    .size   gemm_q6_k_neon_dotprod, . - gemm_q6_k_neon_dotprod
    .popsection
    .purgem two_sub_blocks
    .purgem end_half
    .purgem gemm
    .arch_extension nodotprod
