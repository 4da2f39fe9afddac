// void gemm_q8_0_neon_dotprod(...), see gemm.inc
// Eight rows of Q8_0 at a time by four vectors of per-32 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// There is nothing to unpack, so a vector of rows 0-3 and one of rows 4-7 take turns, and share the
// activations: slots beside the vector operations are what is scarce.
// What is needed first of the next record is loaded at the end of this one; behind the last record
// of the group, its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 activation scales,
// d * activation scale | v12-v15 v20-v23 dot products | v16-v19 activations, d * activation scale
// v24 v25 weight vectors of rows 0-3 | v26 v27 of rows 4-7 | v28 v29 d
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x7 x8 upper halves of weight vectors | x13 x14 steps
//
// budget: 93 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q8_0_neon_dotprod, "ax", %progbits
    .p2align 6

    gemm    gemm_q8_0_neon_dotprod, 5f, gemv_q8_0_neon_dotprod, 272

5:  mov     w13, #272
    mov     w14, #48
    ldr     x7, [x0, #8]
    ldr     d24, [x0]
    ldr     x8, [x0, #24]
    ins     v24.d[1], x7
    ldr     x7, [x0, #40]
    ldr     d26, [x0, #16]
    ins     v26.d[1], x8
    ldr     d25, [x0, #32]
    ins     v25.d[1], x7
    ldr     x7, [x0, #56]
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     d19, [x12]
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23
    movi    v\n\().4s, #0
    .endr

6:  sdot    v12.4s, v24.16b, v16.4b[0]      ; fmov    d15, xzr          // k 0-3
    sdot    v13.4s, v24.16b, v17.4b[0]      ; fmov    d20, xzr
    sdot    v14.4s, v24.16b, v18.4b[0]      ; fmov    d21, xzr
    sdot    v15.4s, v24.16b, v19.4b[0]      ; fmov    d22, xzr
    sdot    v20.4s, v26.16b, v16.4b[0]      ; fmov    d23, xzr
    sdot    v21.4s, v26.16b, v17.4b[0]      ; ldr     d27, [x0, #48]
    sdot    v22.4s, v26.16b, v18.4b[0]      ; ldr     x8, [x0, #72]
    sdot    v23.4s, v26.16b, v19.4b[0]      ; ins     v27.d[1], x7

    sdot    v12.4s, v25.16b, v16.4b[1]      ; ldr     x7, [x0, #88]     // k 4-7
    sdot    v13.4s, v25.16b, v17.4b[1]      ; ldr     d24, [x0, #64]
    sdot    v14.4s, v25.16b, v18.4b[1]      ; ins     v24.d[1], x8
    sdot    v15.4s, v25.16b, v19.4b[1]      ; ldr     d26, [x0, #80]
    sdot    v20.4s, v27.16b, v16.4b[1]      ; ins     v26.d[1], x7
    sdot    v21.4s, v27.16b, v17.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v22.4s, v27.16b, v18.4b[1]      ; ldr     d17, [x10, #8]
    sdot    v23.4s, v27.16b, v19.4b[1]      ; ldr     d18, [x11, #8]

    sdot    v12.4s, v24.16b, v16.4b[0]      ; ldr     d19, [x12, #8]    // k 8-11
    sdot    v13.4s, v24.16b, v17.4b[0]      ; ldr     x8, [x0, #104]
    sdot    v14.4s, v24.16b, v18.4b[0]      ; subs    x6, x6, #1
    sdot    v15.4s, v24.16b, v19.4b[0]      ; ldr     d25, [x0, #96]
    sdot    v20.4s, v26.16b, v16.4b[0]      ; ldr     x7, [x0, #120]
    sdot    v21.4s, v26.16b, v17.4b[0]      ; ins     v25.d[1], x8
    sdot    v22.4s, v26.16b, v18.4b[0]      ; ldr     d27, [x0, #112]
    sdot    v23.4s, v26.16b, v19.4b[0]      ; ldr     x8, [x0, #136]
    prfm    pldl1keep, [x0, #2048]          ; ins     v27.d[1], x7

    sdot    v12.4s, v25.16b, v16.4b[1]      ; ldr     x7, [x0, #152]    // k 12-15
    sdot    v13.4s, v25.16b, v17.4b[1]      ; ldr     d24, [x0, #128]
    sdot    v14.4s, v25.16b, v18.4b[1]      ; ins     v24.d[1], x8
    sdot    v15.4s, v25.16b, v19.4b[1]      ; ldr     d26, [x0, #144]
    sdot    v20.4s, v27.16b, v16.4b[1]      ; ins     v26.d[1], x7
    sdot    v21.4s, v27.16b, v17.4b[1]      ; ldr     d16, [x9, #16]
    sdot    v22.4s, v27.16b, v18.4b[1]      ; ldr     d17, [x10, #16]
    sdot    v23.4s, v27.16b, v19.4b[1]      ; ldr     d18, [x11, #16]

    sdot    v12.4s, v24.16b, v16.4b[0]      ; ldr     d19, [x12, #16]   // k 16-19
    sdot    v13.4s, v24.16b, v17.4b[0]      ; ldr     x8, [x0, #168]
    sdot    v14.4s, v24.16b, v18.4b[0]      ; csel    x13, x13, xzr, ne
    sdot    v15.4s, v24.16b, v19.4b[0]      ; ldr     d25, [x0, #160]
    sdot    v20.4s, v26.16b, v16.4b[0]      ; ldr     x7, [x0, #184]
    sdot    v21.4s, v26.16b, v17.4b[0]      ; ins     v25.d[1], x8
    sdot    v22.4s, v26.16b, v18.4b[0]      ; ldr     d27, [x0, #176]
    prfm    pldl1keep, [x0, #2112]          ; ldr     x8, [x0, #200]
    sdot    v23.4s, v26.16b, v19.4b[0]      ; ins     v27.d[1], x7

    sdot    v12.4s, v25.16b, v16.4b[1]      ; ldr     x7, [x0, #216]    // k 20-23
    sdot    v13.4s, v25.16b, v17.4b[1]      ; ldr     d24, [x0, #192]
    sdot    v14.4s, v25.16b, v18.4b[1]      ; ins     v24.d[1], x8
    sdot    v15.4s, v25.16b, v19.4b[1]      ; ldr     d26, [x0, #208]
    sdot    v20.4s, v27.16b, v16.4b[1]      ; ins     v26.d[1], x7
    sdot    v21.4s, v27.16b, v17.4b[1]      ; ldr     d16, [x9, #24]
    sdot    v22.4s, v27.16b, v18.4b[1]      ; ldr     d17, [x10, #24]
    sdot    v23.4s, v27.16b, v19.4b[1]      ; ldr     d18, [x11, #24]

    sdot    v12.4s, v24.16b, v16.4b[0]      ; ldr     d19, [x12, #24]   // k 24-27
    sdot    v13.4s, v24.16b, v17.4b[0]      ; ldr     x7, [x0, #232]
    sdot    v14.4s, v24.16b, v18.4b[0]      ; ldr     d28, [x0, #256]
    sdot    v15.4s, v24.16b, v19.4b[0]      ; ldr     d29, [x0, #264]
    sdot    v20.4s, v26.16b, v16.4b[0]      ; ldr     d25, [x0, #224]
    sdot    v21.4s, v26.16b, v17.4b[0]      ; ins     v25.d[1], x7
    sdot    v22.4s, v26.16b, v18.4b[0]      ; ldr     x7, [x0, #248]
    sdot    v23.4s, v26.16b, v19.4b[0]      ; csel    x14, x14, xzr, ne

    fcvtl   v28.4s, v28.4h                  ; prfm    pldl1keep, [x0, #2176]
    fcvtl   v29.4s, v29.4h                  ; ldr     d27, [x0, #240]

    sdot    v12.4s, v25.16b, v16.4b[1]      ; ins     v27.d[1], x7      // k 28-31
    sdot    v13.4s, v25.16b, v17.4b[1]      ; prfm    pldl1keep, [x0, #2240]
    sdot    v14.4s, v25.16b, v18.4b[1]      ; ldr     s8, [x9, #32]
    sdot    v15.4s, v25.16b, v19.4b[1]      ; ldr     s9, [x10, #32]
    sdot    v20.4s, v27.16b, v16.4b[1]      ; ldr     s10, [x11, #32]
    sdot    v21.4s, v27.16b, v17.4b[1]      ; ldr     s11, [x12, #32]
    sdot    v22.4s, v27.16b, v18.4b[1]      ; add     x0, x0, x13
    sdot    v23.4s, v27.16b, v19.4b[1]      ; add     x9, x9, x14

    scvtf   v12.4s, v12.4s                  ; add     x10, x10, x14
    scvtf   v13.4s, v13.4s                  ; add     x11, x11, x14
    scvtf   v14.4s, v14.4s                  ; add     x12, x12, x14
    scvtf   v15.4s, v15.4s
    fmul    v16.4s, v28.4s, v8.s[0]         // d * activation scale
    fmul    v17.4s, v28.4s, v9.s[0]         ; ldr     x7, [x0, #8]
    fmul    v18.4s, v28.4s, v10.s[0]
    fmul    v19.4s, v28.4s, v11.s[0]        ; ldr     d24, [x0]
    scvtf   v20.4s, v20.4s                  ; ldr     x8, [x0, #24]
    scvtf   v21.4s, v21.4s                  ; ins     v24.d[1], x7
    scvtf   v22.4s, v22.4s                  ; ldr     x7, [x0, #40]
    scvtf   v23.4s, v23.4s                  ; ldr     d26, [x0, #16]
    fmla    v0.4s, v12.4s, v16.4s           ; ins     v26.d[1], x8
    fmla    v1.4s, v13.4s, v17.4s           ; ldr     d25, [x0, #32]
    fmla    v2.4s, v14.4s, v18.4s           ; ins     v25.d[1], x7
    fmla    v3.4s, v15.4s, v19.4s           ; ldr     x7, [x0, #56]
    fmul    v8.4s, v29.4s, v8.s[0]          ; ldr     d16, [x9]
    fmul    v9.4s, v29.4s, v9.s[0]          ; fmov    d12, xzr
    fmul    v10.4s, v29.4s, v10.s[0]        ; ldr     d17, [x10]
    fmul    v11.4s, v29.4s, v11.s[0]        ; fmov    d13, xzr
    fmla    v4.4s, v20.4s, v8.4s            ; ldr     d18, [x11]
    fmla    v5.4s, v21.4s, v9.4s            ; fmov    d14, xzr
    fmla    v6.4s, v22.4s, v10.4s           ; ldr     d19, [x12]
    fmla    v7.4s, v23.4s, v11.4s           ; b.ne    6b
    ret
    .size   gemm_q8_0_neon_dotprod, . - gemm_q8_0_neon_dotprod
    .popsection
    .purgem gemm
    .arch_extension nodotprod
