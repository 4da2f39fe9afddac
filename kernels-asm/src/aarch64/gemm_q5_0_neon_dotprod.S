// void gemm_q5_0_neon_dotprod(...), see gemm.inc
// Eight rows of Q5_0 at a time by four vectors of per-32 activation records.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records.
//
// A record is gone through twice, for rows 0-3 and for rows 4-7: so many sums fit the registers.
// Weights are loaded and unpacked once and multiplied with the activations of all four vectors; the
// vectors take turns, so no sum waits for itself.
// Five bytes hold eight weights u = q + 16: the low five bits of byte v are u_v, and the high
// three make up u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a
// byte, USHR #3 brings them down. The dot products start from -16 * sum of the activations.
// What is needed first of the next record is loaded at the end of this one; behind the last record
// of the group, its own once more.
//
// Registers: v0-v3 v4-v7 float sums of rows 0-3 and 4-7 by vectors 0-3 | v8-v11 activation scales,
// d * activation scale | v12-v15 dot products | v16-v19 activations 0-15 | v20-v23 16-31
// v24 byte 2, u_6 | v25 byte 1 | v26 byte 4, u_7 | v27 byte 0, u_5; byte 3 | v28 v31 weights
// v29 mask | v30 d | x1-x4 twice -16 * sum of the activations
// x0 weights of this record | x6 records left | x9-x12 activations of this record
// x7 x8 upper halves of weight vectors | x13 x14 steps
//
// budget: 118 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemm_q5_0_neon_dotprod, "ax", %progbits
    .p2align 6

    gemm    gemm_q5_0_neon_dotprod, 5f, gemv_q5_0_neon_dotprod, 176

5:  mov     w13, #176
    movi    v29.16b, #31
    mov     w14, #48
    ldr     d16, [x9]
    ldr     d17, [x10]
    ldr     d18, [x11]
    ldr     x7, [x0, #8]
    ldr     d19, [x12]
    ldr     d27, [x0]
    ldr     x8, [x0, #40]
    ins     v27.d[1], x7
    ldr     x7, [x0, #136]
    ldr     d25, [x0, #32]
    ins     v25.d[1], x8
    ldr     d26, [x0, #128]
    ins     v26.d[1], x7
    ldr     w1, [x9, #40]
    neg     w1, w1, lsl #4
    bfi     x1, x1, #32, #32
    ldr     w2, [x10, #40]
    neg     w2, w2, lsl #4
    bfi     x2, x2, #32, #32
    ldr     w3, [x11, #40]
    neg     w3, w3, lsl #4
    bfi     x3, x3, #32, #32
    ldr     w4, [x12, #40]
    neg     w4, w4, lsl #4
    bfi     x4, x4, #32, #32
    fmov    d12, x1
    fmov    d13, x2
    .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
    movi    v\n\().4s, #0
    .endr

6:  and     v28.16b, v27.16b, v29.16b       ; fmov    d14, x3           // u_0 of rows 0-3
    and     v31.16b, v25.16b, v29.16b       ; ins     v12.d[1], x1      // u_1
    sri     v27.16b, v25.16b, #3            ; fmov    d15, x4
    shl     v25.16b, v25.16b, #2            ; ins     v13.d[1], x2
    ushr    v27.16b, v27.16b, #3            ; ins     v14.d[1], x3      // u_5
    sdot    v12.4s, v28.16b, v16.4b[0]      ; ins     v15.d[1], x4
    sdot    v13.4s, v28.16b, v17.4b[0]      ; ldr     x7, [x0, #72]
    sdot    v14.4s, v28.16b, v18.4b[0]      ; subs    x6, x6, #1
    sdot    v15.4s, v28.16b, v19.4b[0]      ; csel    x13, x13, xzr, ne
    and     v28.16b, v26.16b, v29.16b       ; ldr     d24, [x0, #64]    // u_4
    sdot    v12.4s, v31.16b, v16.4b[1]      ; ins     v24.d[1], x7
    sdot    v13.4s, v31.16b, v17.4b[1]      ; ldr     d20, [x9, #16]
    sdot    v14.4s, v31.16b, v18.4b[1]      ; ldr     d21, [x10, #16]
    sdot    v15.4s, v31.16b, v19.4b[1]      ; ldr     d22, [x11, #16]
    and     v31.16b, v24.16b, v29.16b       ; ldr     d23, [x12, #16]   // u_2
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     x7, [x0, #104]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; csel    x14, x14, xzr, ne
    sdot    v14.4s, v27.16b, v22.4b[1]      ; prfm    pldl1keep, [x0, #2048]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     d27, [x0, #96]
    sdot    v12.4s, v28.16b, v20.4b[0]      ; ins     v27.d[1], x7
    sdot    v13.4s, v28.16b, v21.4b[0]      ; prfm    pldl1keep, [x0, #2112]
    sdot    v14.4s, v28.16b, v22.4b[0]      ; prfm    pldl1keep, [x0, #2176]
    sdot    v15.4s, v28.16b, v23.4b[0]

    and     v28.16b, v27.16b, v29.16b       ; ldr     d16, [x9, #8]     // u_3
    sri     v24.16b, v27.16b, #3            ; ldr     d17, [x10, #8]
    shl     v27.16b, v27.16b, #2            ; ldr     d18, [x11, #8]
    sdot    v12.4s, v31.16b, v16.4b[0]      ; ldr     d19, [x12, #8]
    sdot    v13.4s, v31.16b, v17.4b[0]
    sdot    v14.4s, v31.16b, v18.4b[0]
    sdot    v15.4s, v31.16b, v19.4b[0]
    sri     v25.16b, v27.16b, #1
    ushr    v24.16b, v24.16b, #3            ; ldr     d30, [x0, #160]   // u_6
    sdot    v12.4s, v28.16b, v16.4b[1]      ; ldr     d20, [x9, #24]
    sdot    v13.4s, v28.16b, v17.4b[1]      ; ldr     d21, [x10, #24]
    sdot    v14.4s, v28.16b, v18.4b[1]      ; ldr     d22, [x11, #24]
    sdot    v15.4s, v28.16b, v19.4b[1]      ; ldr     d23, [x12, #24]
    sri     v26.16b, v25.16b, #3            ; ldr     s8, [x9, #32]
    fcvtl   v30.4s, v30.4h                  ; ldr     s9, [x10, #32]
    ushr    v26.16b, v26.16b, #3            ; ldr     s10, [x11, #32]   // u_7
    sdot    v12.4s, v24.16b, v20.4b[0]      ; ldr     s11, [x12, #32]
    sdot    v13.4s, v24.16b, v21.4b[0]      ; ldr     d16, [x9]
    sdot    v14.4s, v24.16b, v22.4b[0]      ; ldr     d17, [x10]
    sdot    v15.4s, v24.16b, v23.4b[0]      ; ldr     d18, [x11]
    sdot    v12.4s, v26.16b, v20.4b[1]      ; ldr     d19, [x12]
    sdot    v13.4s, v26.16b, v21.4b[1]      ; ldr     d20, [x9, #16]
    sdot    v14.4s, v26.16b, v22.4b[1]      ; ldr     d21, [x10, #16]
    sdot    v15.4s, v26.16b, v23.4b[1]      ; ldr     d22, [x11, #16]

    fmul    v8.4s, v30.4s, v8.s[0]          ; ldr     x7, [x0, #24]     // d * activation scale
    fmul    v9.4s, v30.4s, v9.s[0]          ; ldr     d23, [x12, #16]
    fmul    v10.4s, v30.4s, v10.s[0]        ; ldr     d27, [x0, #16]
    fmul    v11.4s, v30.4s, v11.s[0]        ; ldr     x8, [x0, #56]
    scvtf   v12.4s, v12.4s                  ; ins     v27.d[1], x7
    scvtf   v13.4s, v13.4s                  ; ldr     x7, [x0, #152]
    scvtf   v14.4s, v14.4s                  ; ldr     d25, [x0, #48]
    scvtf   v15.4s, v15.4s                  ; ins     v25.d[1], x8
    fmla    v0.4s, v12.4s, v8.4s            ; ldr     d26, [x0, #144]
    fmla    v1.4s, v13.4s, v9.4s            ; ins     v26.d[1], x7
    fmla    v2.4s, v14.4s, v10.4s           ; fmov    d12, x1
    fmla    v3.4s, v15.4s, v11.4s           ; fmov    d13, x2

    and     v28.16b, v27.16b, v29.16b       ; fmov    d14, x3           // u_0 of rows 4-7
    and     v31.16b, v25.16b, v29.16b       ; ins     v12.d[1], x1      // u_1
    sri     v27.16b, v25.16b, #3            ; fmov    d15, x4
    shl     v25.16b, v25.16b, #2            ; ins     v13.d[1], x2
    ushr    v27.16b, v27.16b, #3            ; ins     v14.d[1], x3      // u_5
    sdot    v12.4s, v28.16b, v16.4b[0]      ; ins     v15.d[1], x4
    sdot    v13.4s, v28.16b, v17.4b[0]      ; ldr     x7, [x0, #88]
    sdot    v14.4s, v28.16b, v18.4b[0]      ; ldr     d30, [x0, #168]
    sdot    v15.4s, v28.16b, v19.4b[0]      ; ldr     s8, [x9, #32]
    and     v28.16b, v26.16b, v29.16b       ; ldr     d24, [x0, #80]    // u_4
    sdot    v12.4s, v31.16b, v16.4b[1]      ; ins     v24.d[1], x7
    sdot    v13.4s, v31.16b, v17.4b[1]      ; ldr     d16, [x9, #8]
    sdot    v14.4s, v31.16b, v18.4b[1]      ; ldr     d17, [x10, #8]
    sdot    v15.4s, v31.16b, v19.4b[1]      ; ldr     d18, [x11, #8]
    and     v31.16b, v24.16b, v29.16b       ; ldr     d19, [x12, #8]    // u_2
    sdot    v12.4s, v27.16b, v20.4b[1]      ; ldr     x7, [x0, #120]
    sdot    v13.4s, v27.16b, v21.4b[1]      ; ldr     s9, [x10, #32]
    sdot    v14.4s, v27.16b, v22.4b[1]      ; ldr     s10, [x11, #32]
    sdot    v15.4s, v27.16b, v23.4b[1]      ; ldr     d27, [x0, #112]
    sdot    v12.4s, v28.16b, v20.4b[0]      ; ins     v27.d[1], x7
    sdot    v13.4s, v28.16b, v21.4b[0]      ; ldr     d20, [x9, #24]
    sdot    v14.4s, v28.16b, v22.4b[0]      ; ldr     d21, [x10, #24]
    sdot    v15.4s, v28.16b, v23.4b[0]      ; ldr     d22, [x11, #24]

    and     v28.16b, v27.16b, v29.16b       ; ldr     d23, [x12, #24]   // u_3
    sri     v24.16b, v27.16b, #3            ; ldr     s11, [x12, #32]
    shl     v27.16b, v27.16b, #2            ; add     x0, x0, x13
    sdot    v12.4s, v31.16b, v16.4b[0]      ; add     x9, x9, x14
    sdot    v13.4s, v31.16b, v17.4b[0]      ; add     x10, x10, x14
    sdot    v14.4s, v31.16b, v18.4b[0]      ; add     x11, x11, x14
    sdot    v15.4s, v31.16b, v19.4b[0]      ; add     x12, x12, x14
    sri     v25.16b, v27.16b, #1            ; ldr     w1, [x9, #40]
    ushr    v24.16b, v24.16b, #3            ; ldr     w2, [x10, #40]    // u_6
    sdot    v12.4s, v28.16b, v16.4b[1]      ; ldr     w3, [x11, #40]
    sdot    v13.4s, v28.16b, v17.4b[1]      ; ldr     w4, [x12, #40]
    sdot    v14.4s, v28.16b, v18.4b[1]      ; neg     w1, w1, lsl #4
    sdot    v15.4s, v28.16b, v19.4b[1]      ; neg     w2, w2, lsl #4
    sri     v26.16b, v25.16b, #3            ; neg     w3, w3, lsl #4
    fcvtl   v30.4s, v30.4h                  ; neg     w4, w4, lsl #4
    ushr    v26.16b, v26.16b, #3            ; bfi     x1, x1, #32, #32  // u_7
    sdot    v12.4s, v24.16b, v20.4b[0]      ; bfi     x2, x2, #32, #32
    sdot    v13.4s, v24.16b, v21.4b[0]      ; bfi     x3, x3, #32, #32
    sdot    v14.4s, v24.16b, v22.4b[0]      ; bfi     x4, x4, #32, #32
    sdot    v15.4s, v24.16b, v23.4b[0]
    sdot    v12.4s, v26.16b, v20.4b[1]      ; ldr     d16, [x9]
    sdot    v13.4s, v26.16b, v21.4b[1]      ; ldr     d17, [x10]
    sdot    v14.4s, v26.16b, v22.4b[1]      ; ldr     d18, [x11]
    sdot    v15.4s, v26.16b, v23.4b[1]      ; ldr     x7, [x0, #8]

    fmul    v8.4s, v30.4s, v8.s[0]          ; ldr     d19, [x12]        // d * activation scale
    fmul    v9.4s, v30.4s, v9.s[0]          ; ldr     d27, [x0]
    fmul    v10.4s, v30.4s, v10.s[0]        ; ldr     x8, [x0, #40]
    fmul    v11.4s, v30.4s, v11.s[0]        ; ins     v27.d[1], x7
    scvtf   v12.4s, v12.4s                  ; ldr     x7, [x0, #136]
    scvtf   v13.4s, v13.4s                  ; ldr     d25, [x0, #32]
    scvtf   v14.4s, v14.4s                  ; ins     v25.d[1], x8
    scvtf   v15.4s, v15.4s                  ; ldr     d26, [x0, #128]
    fmla    v4.4s, v12.4s, v8.4s            ; ins     v26.d[1], x7
    fmla    v5.4s, v13.4s, v9.4s            ; fmov    d12, x1
    fmla    v6.4s, v14.4s, v10.4s           ; fmov    d13, x2
    fmla    v7.4s, v15.4s, v11.4s           ; b.ne    6b
    ret
    .size   gemm_q5_0_neon_dotprod, . - gemm_q5_0_neon_dotprod
    .popsection
    .purgem gemm
    .arch_extension nodotprod
