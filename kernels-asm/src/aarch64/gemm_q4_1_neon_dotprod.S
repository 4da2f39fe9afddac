// void gemm_q4_1_neon_dotprod(...), see gemm.inc
// Eight rows of Q4_1 at a time by four vectors of per-32 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// A record is gone through twice, for rows 0-3 and for rows 4-7: so many sums fit the registers. A
// nibble vector is loaded and unpacked once and multiplied with eight k of all four vectors; the
// vectors take turns, so no sum waits for itself.
// sum = fma(dot, d * da, sum), then sum = fma(m, da * sum of activations, sum).
// What is needed first of the next record is loaded at the end of this one; behind the last record
// of the group, its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 activation scales,
// d * activation scale | v12-v15 dot products | v16-v19 activations of low nibbles
// v20-v23 of high ones | v24 v25 weight vectors | v26 low nibbles | v27 high nibbles
// v28 mask | v29 d | v30 m
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x7 x8 upper halves of weight vectors | x13 x14 steps
//
// budget: 116 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q4_1_neon_dotprod, "ax", %progbits
    .p2align 6

    gemm    gemm_q4_1_neon_dotprod, 5f, gemv_q4_1_neon_dotprod, 160

5:  mov     w13, #160
    movi    v28.16b, #0x0f
    mov     w14, #48
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     d19, [x12]
    ldr     x7, [x0, #40]
    ldr     q24, [x0]
    and     v26.16b, v24.16b, v28.16b
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15
    movi    v\n\().4s, #0
    .endr

6:  sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #16]    // k 0-3, 16-19 of rows 0-3
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #16]
    ushr    v27.16b, v24.16b, #4            ; ldr     d25, [x0, #32]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]      ; subs    x6, x6, #1
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #16]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #16]
    and     v26.16b, v25.16b, v28.16b       ; csel    x13, x13, xzr, ne
    sdot    v14.4s, v27.16b, v22.4b[0]      ; csel    x14, x14, xzr, ne
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     x7, [x0, #72]

    sdot    v12.4s, v26.16b, v16.4b[1]      ; prfm    pldl1keep, [x0, #2048] // k 4-7, 20-23
    sdot    v13.4s, v26.16b, v17.4b[1]      ; prfm    pldl1keep, [x0, #2112]
    ushr    v27.16b, v25.16b, #4            ; ldr     d24, [x0, #64]
    sdot    v14.4s, v26.16b, v18.4b[1]      ; ins     v24.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[1]      ; prfm    pldl1keep, [x0, #2176]
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #8]
    and     v26.16b, v24.16b, v28.16b       ; ldr     d18, [x11, #8]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d19, [x12, #8]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     x7, [x0, #104]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #24]    // k 8-11, 24-27
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #24]
    ushr    v27.16b, v24.16b, #4            ; ldr     d25, [x0, #96]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #24]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #24]
    and     v26.16b, v25.16b, v28.16b       ; ldr     d29, [x0, #128]
    sdot    v14.4s, v27.16b, v22.4b[0]      ; ldr     d30, [x0, #144]
    sdot    v15.4s, v27.16b, v23.4b[0]
    fcvtl   v29.4s, v29.4h
    fcvtl   v30.4s, v30.4h

    sdot    v12.4s, v26.16b, v16.4b[1]      // k 12-15, 28-31
    sdot    v13.4s, v26.16b, v17.4b[1]
    ushr    v27.16b, v25.16b, #4
    sdot    v14.4s, v26.16b, v18.4b[1]
    sdot    v15.4s, v26.16b, v19.4b[1]
    sdot    v12.4s, v27.16b, v20.4b[1]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d8, [x9, #32]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d9, [x10, #32]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     d10, [x11, #32]

    fmul    v20.4s, v29.4s, v8.s[0]         ; ldr     d11, [x12, #32]   // d * activation scale
    fmul    v21.4s, v29.4s, v9.s[0]
    fmul    v22.4s, v29.4s, v10.s[0]
    fmul    v23.4s, v29.4s, v11.s[0]
    scvtf   v12.4s, v12.4s                  ; ldr     x7, [x0, #24]
    scvtf   v13.4s, v13.4s
    scvtf   v14.4s, v14.4s                  ; ldr     d16, [x9]
    scvtf   v15.4s, v15.4s                  ; ldr     d24, [x0, #16]
    fmla    v0.4s, v12.4s, v20.4s           ; ins     v24.d[1], x7
    fmla    v1.4s, v13.4s, v21.4s           ; fmov    d12, xzr
    fmla    v2.4s, v14.4s, v22.4s           ; ldr     d17, [x10]
    fmla    v3.4s, v15.4s, v23.4s           ; fmov    d13, xzr
    and     v26.16b, v24.16b, v28.16b       ; ldr     d18, [x11]
    // m * activation scale * sum
    fmla    v0.4s, v30.4s, v8.s[1]          ; fmov    d14, xzr
    fmla    v1.4s, v30.4s, v9.s[1]          ; ldr     d19, [x12]
    fmla    v2.4s, v30.4s, v10.s[1]         ; fmov    d15, xzr
    fmla    v3.4s, v30.4s, v11.s[1]         ; ldr     x7, [x0, #56]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #16]    // k 0-3, 16-19 of rows 4-7
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #16]
    ushr    v27.16b, v24.16b, #4            ; ldr     d25, [x0, #48]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #16]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #16]
    and     v26.16b, v25.16b, v28.16b
    sdot    v14.4s, v27.16b, v22.4b[0]
    sdot    v15.4s, v27.16b, v23.4b[0]      ; ldr     x7, [x0, #88]

    sdot    v12.4s, v26.16b, v16.4b[1]      // k 4-7, 20-23
    sdot    v13.4s, v26.16b, v17.4b[1]
    ushr    v27.16b, v25.16b, #4            ; ldr     d24, [x0, #80]
    sdot    v14.4s, v26.16b, v18.4b[1]      ; ins     v24.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[1]
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     d17, [x10, #8]
    and     v26.16b, v24.16b, v28.16b       ; ldr     d18, [x11, #8]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     d19, [x12, #8]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     x7, [x0, #120]

    sdot    v12.4s, v26.16b, v16.4b[0]      ; ldr     d20, [x9, #24]    // k 8-11, 24-27
    sdot    v13.4s, v26.16b, v17.4b[0]      ; ldr     d21, [x10, #24]
    ushr    v27.16b, v24.16b, #4            ; ldr     d25, [x0, #112]
    sdot    v14.4s, v26.16b, v18.4b[0]      ; ins     v25.d[1], x7
    sdot    v15.4s, v26.16b, v19.4b[0]
    sdot    v12.4s, v27.16b, v20.4b[0]      ; ldr     d22, [x11, #24]
    sdot    v13.4s, v27.16b, v21.4b[0]      ; ldr     d23, [x12, #24]
    and     v26.16b, v25.16b, v28.16b       ; ldr     d29, [x0, #136]
    sdot    v14.4s, v27.16b, v22.4b[0]      ; ldr     d30, [x0, #152]
    sdot    v15.4s, v27.16b, v23.4b[0]
    fcvtl   v29.4s, v29.4h
    fcvtl   v30.4s, v30.4h

    sdot    v12.4s, v26.16b, v16.4b[1]      // k 12-15, 28-31
    sdot    v13.4s, v26.16b, v17.4b[1]
    ushr    v27.16b, v25.16b, #4            ; ldr     d8, [x9, #32]
    sdot    v14.4s, v26.16b, v18.4b[1]      ; ldr     d9, [x10, #32]
    sdot    v15.4s, v26.16b, v19.4b[1]      ; ldr     d10, [x11, #32]
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     d11, [x12, #32]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; add     x0, x0, x13
    sdot    v14.4s, v27.16b, v22.4b[1]      ; add     x9, x9, x14
    sdot    v15.4s, v27.16b, v23.4b[1]      ; add     x10, x10, x14

    fmul    v20.4s, v29.4s, v8.s[0]         ; add     x11, x11, x14     // d * activation scale
    fmul    v21.4s, v29.4s, v9.s[0]         ; add     x12, x12, x14
    fmul    v22.4s, v29.4s, v10.s[0]
    fmul    v23.4s, v29.4s, v11.s[0]
    scvtf   v12.4s, v12.4s                  ; ldr     x7, [x0, #8]
    scvtf   v13.4s, v13.4s                  ; ldr     d16, [x9]
    scvtf   v14.4s, v14.4s                  ; ldr     d17, [x10]
    scvtf   v15.4s, v15.4s                  ; ldr     d24, [x0]
    fmla    v4.4s, v12.4s, v20.4s           ; ins     v24.d[1], x7
    fmla    v5.4s, v13.4s, v21.4s           ; fmov    d12, xzr
    fmla    v6.4s, v14.4s, v22.4s           ; fmov    d13, xzr
    fmla    v7.4s, v15.4s, v23.4s           ; ldr     d18, [x11]
    and     v26.16b, v24.16b, v28.16b       ; fmov    d14, xzr
    // m * activation scale * sum
    fmla    v4.4s, v30.4s, v8.s[1]          ; ldr     d19, [x12]
    fmla    v5.4s, v30.4s, v9.s[1]          ; fmov    d15, xzr
    fmla    v6.4s, v30.4s, v10.s[1]         ; ldr     x7, [x0, #40]
    fmla    v7.4s, v30.4s, v11.s[1]         ; b.ne    6b
    ret
    .size   gemm_q4_1_neon_dotprod, . - gemm_q4_1_neon_dotprod
    .popsection
    .purgem gemm
    .arch_extension nodotprod
