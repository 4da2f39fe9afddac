// void gemm_q4_0_neon_dotprod(...), see gemm.inc
// Eight rows of Q4_0 at a time by four vectors of per-32 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// A record is gone through twice, for rows 0-3 and for rows 4-7: so many sums fit the registers. A
// nibble vector is loaded and unpacked once and multiplied with eight k of all four vectors; the
// vectors take turns, so no sum waits for itself.
// Nibbles are used as 16 * q (SHL, AND), which SCVTF #4 undoes exactly.
// What is needed first of the next record is loaded at the end of this one; behind the last record
// of the group, its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 activation scales,
// d * activation scale | v12-v15 dot products | v16-v19 activations of low nibbles
// v20-v23 of high ones | v24 v25 weight vectors | v26 low nibbles | v27 high nibbles
// v28 mask | v29 d
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x7 x8 upper halves of weight vectors | x13 x14 steps
//
// budget: 106 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q4_0_neon_dotprod, "ax", %progbits
    .p2align 6

    gemm    gemm_q4_0_neon_dotprod, 5f, gemv_q4_0_neon_dotprod, 144

5:  mov     w13, #144
    movi    v28.16b, #0xf0
    mov     w14, #48
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     d19, [x12]
    ldr     d20, [x9, #16]
    ldr     x7, [x0, #40]
    ldr     q24, [x0]
    shl     v26.16b, v24.16b, #4
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15
    movi    v\n\().4s, #0
    .endr

6:  sdot    v12.4s, v26.16b, v16.4b[0]      ; fmov    d15, xzr          // k 0-3, 16-19 of rows 0-3
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #16]
    and     v27.16b, v24.16b, v28.16b       ; ldr     d25, [x0, #32]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]      ; subs    x6, x6, #1
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #16]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #16]
    shl     v26.16b, v25.16b, #4            ; csel    x13, x13, xzr, ne
    sdot    v14.4s, v27.16b, v22.4b[0]      ; csel    x14, x14, xzr, ne
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     x7, [x0, #72]

    sdot    v12.4s, v26.16b, v16.4b[1]      ; prfm    pldl1keep, [x0, #2048] // k 4-7, 20-23
    sdot    v13.4s, v26.16b, v17.4b[1]      ; prfm    pldl1keep, [x0, #2112]
    and     v27.16b, v25.16b, v28.16b       ; ldr     d24, [x0, #64]
    sdot    v14.4s, v26.16b, v18.4b[1]      ; ins     v24.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[1]      ; prfm    pldl1keep, [x0, #2176]
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #8]
    shl     v26.16b, v24.16b, #4            ; ldr     d18, [x11, #8]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d19, [x12, #8]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     x7, [x0, #104]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #24]    // k 8-11, 24-27
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #24]
    and     v27.16b, v24.16b, v28.16b       ; ldr     d25, [x0, #96]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #24]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #24]
    shl     v26.16b, v25.16b, #4            ; ldr     d29, [x0, #128]
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]
    fcvtl   v29.4s, v29.4h

    sdot    v12.4s, v26.16b, v16.4b[1]      // k 12-15, 28-31
    sdot    v13.4s, v26.16b, v17.4b[1]
    and     v27.16b, v25.16b, v28.16b
    sdot    v14.4s, v26.16b, v18.4b[1]
    sdot    v15.4s, v26.16b, v19.4b[1]
    sdot    v12.4s, v27.16b, v20.4b[1]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     s8, [x9, #32]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     s9, [x10, #32]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     s10, [x11, #32]

    fmul    v8.4s, v29.4s, v8.s[0]          ; ldr     s11, [x12, #32]   // d * activation scale
    fmul    v9.4s, v29.4s, v9.s[0]          ; ldr     d16, [x9]
    fmul    v10.4s, v29.4s, v10.s[0]        ; ldr     d17, [x10]
    fmul    v11.4s, v29.4s, v11.s[0]        ; ldr     x7, [x0, #24]
    scvtf   v12.4s, v12.4s, #4              ; ldr     d18, [x11]
    scvtf   v13.4s, v13.4s, #4              ; ldr     d19, [x12]
    scvtf   v14.4s, v14.4s, #4              ; ldr     d24, [x0, #16]
    scvtf   v15.4s, v15.4s, #4              ; ins     v24.d[1], x7
    fmla    v0.4s, v12.4s, v8.4s            ; fmov    d12, xzr
    fmla    v1.4s, v13.4s, v9.4s            ; fmov    d13, xzr
    fmla    v2.4s, v14.4s, v10.4s           ; fmov    d14, xzr
    shl     v26.16b, v24.16b, #4            ; ldr     d20, [x9, #16]
    fmla    v3.4s, v15.4s, v11.4s           ; ldr     x7, [x0, #56]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; fmov    d15, xzr          // k 0-3, 16-19 of rows 4-7
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #16]
    and     v27.16b, v24.16b, v28.16b       ; ldr     d25, [x0, #48]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #16]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #16]
    shl     v26.16b, v25.16b, #4
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     x7, [x0, #88]

    sdot    v12.4s, v26.16b, v16.4b[1]      // k 4-7, 20-23
    sdot    v13.4s, v26.16b, v17.4b[1]
    and     v27.16b, v25.16b, v28.16b       ; ldr     d24, [x0, #80]
    sdot    v14.4s, v26.16b, v18.4b[1]      ; ins     v24.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[1]
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #8]
    shl     v26.16b, v24.16b, #4            ; ldr     d18, [x11, #8]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d19, [x12, #8]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     x7, [x0, #120]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #24]    // k 8-11, 24-27
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #24]
    and     v27.16b, v24.16b, v28.16b       ; ldr     d25, [x0, #112]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #24]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #24]
    shl     v26.16b, v25.16b, #4            ; ldr     d29, [x0, #136]
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     s8, [x9, #32]
    fcvtl   v29.4s, v29.4h                  ; ldr     s9, [x10, #32]

    sdot    v12.4s, v26.16b, v16.4b[1]      ; ldr     s10, [x11, #32]   // k 12-15, 28-31
    sdot    v13.4s, v26.16b, v17.4b[1]      ; ldr     s11, [x12, #32]
    and     v27.16b, v25.16b, v28.16b       ; add     x0, x0, x13
    sdot    v14.4s, v26.16b, v18.4b[1]      ; add     x9, x9, x14
    sdot    v15.4s, v26.16b, v19.4b[1]      ; add     x10, x10, x14
    sdot    v12.4s, v27.16b, v20.4b[1]      ; add     x11, x11, x14
    sdot    v13.4s, v27.16b, v21.4b[1]      ; add     x12, x12, x14
    sdot    v14.4s, v27.16b, v22.4b[1]
    sdot    v15.4s, v27.16b, v23.4b[1]

    fmul    v8.4s, v29.4s, v8.s[0]          ; ldr     d16, [x9]         // d * activation scale
    fmul    v9.4s, v29.4s, v9.s[0]          ; ldr     d17, [x10]
    fmul    v10.4s, v29.4s, v10.s[0]        ; ldr     d18, [x11]
    fmul    v11.4s, v29.4s, v11.s[0]        ; ldr     x7, [x0, #8]
    scvtf   v12.4s, v12.4s, #4              ; ldr     d19, [x12]
    scvtf   v13.4s, v13.4s, #4              ; ldr     d20, [x9, #16]
    scvtf   v14.4s, v14.4s, #4              ; ldr     d24, [x0]
    scvtf   v15.4s, v15.4s, #4              ; ins     v24.d[1], x7
    fmla    v4.4s, v12.4s, v8.4s            ; fmov    d12, xzr
    fmla    v5.4s, v13.4s, v9.4s            ; fmov    d13, xzr
    fmla    v6.4s, v14.4s, v10.4s           ; fmov    d14, xzr
    shl     v26.16b, v24.16b, #4            ; ldr     x7, [x0, #40]
    fmla    v7.4s, v15.4s, v11.4s           ; b.ne    6b
    ret
    .size   gemm_q4_0_neon_dotprod, . - gemm_q4_0_neon_dotprod
    .popsection
    .purgem gemm
    .arch_extension nodotprod
