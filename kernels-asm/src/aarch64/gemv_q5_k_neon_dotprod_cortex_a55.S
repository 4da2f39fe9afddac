// void gemv_q5_k_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down.
// Two vector pairs and three activation registers are always loaded ahead. At the end of sub-block
// 7 that look-ahead fetches the minima, which lie like two vector pairs, and the activation sums:
// minima are folded in by SDOT, M = 128 * (m . hi) + m . lo. At the end of a record it fetches the
// next one's beginning; behind the last record of all, which has no next, its own once more.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4-v7 activations
// v16-v20 bytes 0-4 of rows 0-3, then u_5 in v16, u_6 in v18, u_7 in v20 | v21-v25 of rows 4-7
// v26 v27 weights, sub-block scales, t | v28 v29 A | v30 mask | v31 TBL indices, byte to lane
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
// x9 end of the weights | x10 next record
//
// budget: 413 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q5_k_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q5_k_neon_dotprod_cortex_a55
    .hidden gemv_q5_k_neon_dotprod_cortex_a55
    .type   gemv_q5_k_neon_dotprod_cortex_a55, %function

// Sub-block \j: A += scale * dot product. The look-ahead goes on at \next and \next_act.
    .macro sub_block j, next, next_act
    and     v26.16b, v16.16b, v30.16b       ; ldr     x7, [x0, #160 * \j + 232] // u_0
    and     v27.16b, v21.16b, v30.16b       ; ldr     x8, [x0, #160 * \j + 248]
    sri     v16.16b, v17.16b, #3            ; ldr     d18, [x0, #160 * \j + 224]
    sri     v21.16b, v22.16b, #3            ; ldr     d23, [x0, #160 * \j + 240]
    sdot    v2.4s, v26.16b, v4.4b[0]        ; ins     v18.d[1], x7
    sdot    v3.4s, v27.16b, v4.4b[0]        ; ins     v23.d[1], x8
    and     v26.16b, v17.16b, v30.16b       ; ldr     x7, [x0, #160 * \j + 264] // u_1
    and     v27.16b, v22.16b, v30.16b       ; ldr     x8, [x0, #160 * \j + 280]
    shl     v17.16b, v17.16b, #2            ; ldr     d19, [x0, #160 * \j + 256]
    shl     v22.16b, v22.16b, #2            ; ldr     d24, [x0, #160 * \j + 272]
    sdot    v2.4s, v26.16b, v4.4b[1]        ; ins     v19.d[1], x7
    sdot    v3.4s, v27.16b, v4.4b[1]        ; ins     v24.d[1], x8
    ushr    v16.16b, v16.16b, #3            ; ldr     x7, [x0, #160 * \j + 296] // u_5
    ushr    v21.16b, v21.16b, #3            ; ldr     x8, [x0, #160 * \j + 312]
    and     v26.16b, v18.16b, v30.16b       ; ldr     d20, [x0, #160 * \j + 288] // u_2
    and     v27.16b, v23.16b, v30.16b       ; ldr     d25, [x0, #160 * \j + 304]
    sdot    v2.4s, v26.16b, v5.4b[0]        ; ins     v20.d[1], x7
    sdot    v3.4s, v27.16b, v5.4b[0]        ; ins     v25.d[1], x8
    sri     v18.16b, v19.16b, #3            ; ldr     d7, [x5, #32 * \j + 24]
    sri     v23.16b, v24.16b, #3            ; prfm    pldl1keep, [x0, #160 * \j + 2048]
    sdot    v2.4s, v16.16b, v6.4b[1]        ; ldr     d4, [x5, #\next_act]
    sdot    v3.4s, v21.16b, v6.4b[1]
    and     v26.16b, v19.16b, v30.16b       ; ldr     x7, [x0, #\next + 8]      // u_3
    and     v27.16b, v24.16b, v30.16b       ; ldr     x8, [x0, #\next + 24]
    sdot    v2.4s, v26.16b, v5.4b[1]        ; ldr     d16, [x0, #\next]
    sdot    v3.4s, v27.16b, v5.4b[1]        ; ldr     d21, [x0, #\next + 16]
    shl     v19.16b, v19.16b, #2            ; ins     v16.d[1], x7
    shl     v24.16b, v24.16b, #2            ; ins     v21.d[1], x8
    ushr    v18.16b, v18.16b, #3            ; ldr     d5, [x5, #\next_act + 8]  // u_6
    ushr    v23.16b, v23.16b, #3            ; prfm    pldl1keep, [x0, #160 * \j + 2112]
    and     v26.16b, v20.16b, v30.16b                                           // u_4
    and     v27.16b, v25.16b, v30.16b
    sdot    v2.4s, v26.16b, v6.4b[0]
    sdot    v3.4s, v27.16b, v6.4b[0]        ; prfm    pldl1keep, [x0, #160 * \j + 2176]
    sri     v17.16b, v19.16b, #1            ; ldr     s26, [x0, #8 * \j]
    sri     v22.16b, v24.16b, #1            ; ldr     s27, [x0, #8 * \j + 4]
    sdot    v2.4s, v18.16b, v7.4b[0]        ; ldr     d6, [x5, #\next_act + 16]
    sdot    v3.4s, v23.16b, v7.4b[0]
    sri     v20.16b, v17.16b, #3                                                // u_7
    sri     v25.16b, v22.16b, #3
    ushr    v20.16b, v20.16b, #3            ; ldr     x7, [x0, #\next + 40]
    ushr    v25.16b, v25.16b, #3            ; ldr     x8, [x0, #\next + 56]
    sdot    v2.4s, v20.16b, v7.4b[1]        ; ldr     d17, [x0, #\next + 32]
    sdot    v3.4s, v25.16b, v7.4b[1]        ; ldr     d22, [x0, #\next + 48]
    tbl     v26.16b, {v26.16b}, v31.16b     ; ins     v17.d[1], x7
    tbl     v27.16b, {v27.16b}, v31.16b     ; ins     v22.d[1], x8
    mla     v28.4s, v2.4s, v26.4s           ; fmov    d2, xzr
    mla     v29.4s, v3.4s, v27.4s           ; fmov    d3, xzr
    .endm

gemv_q5_k_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    mov     w9, #1440
    mul     x9, x9, x1
    madd    x9, x9, x2, x0
    movi    v30.16b, #31
    ldr     q31, 9f
    mov     x5, x3
    ldp     q16, q21, [x0, #160]
    ldp     q17, q22, [x0, #192]
    ldp     d4, d5, [x5]
    ldr     d6, [x5, #16]
    movi    v2.4s, #0
    movi    v3.4s, #0
    movi    v28.4s, #0
    movi    v29.4s, #0

1:  mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  .irp    j, 0, 1, 2, 3, 4, 5, 6
    sub_block \j, 160 * \j + 320, 32 * \j + 32
    .endr
    sub_block 7, 64, 256

// sum += activation scale * (d * A - dmin * M)
    add     x10, x0, #1440                  ; prfm    pldl1keep, [x0, #3328]
    sdot    v2.4s, v16.16b, v5.4b[0]        ; ldr     d18, [x0, #128]       // m . hi; d
    sdot    v3.4s, v21.16b, v5.4b[0]        ; ldr     d23, [x0, #136]
    scvtf   v26.4s, v28.4s                  ; ldr     d19, [x0, #144]       // t = A; dmin
    scvtf   v27.4s, v29.4s                  ; ldr     d24, [x0, #152]
    sdot    v2.4s, v17.16b, v5.4b[1]        ; ldr     s7, [x5, #272]        // activation scale
    sdot    v3.4s, v22.16b, v5.4b[1]        ; prfm    pldl1keep, [x0, #3392]
    fcvtl   v18.4s, v18.4h                  ; cmp     x10, x9
    fcvtl   v23.4s, v23.4h                  ; csel    x0, x10, x0, ne
    shl     v2.4s, v2.4s, #7                ; add     x5, x5, #336
    shl     v3.4s, v3.4s, #7                ; subs    x6, x6, #1
    sdot    v2.4s, v16.16b, v4.4b[0]        ; csel    x5, x5, x3, ne        // m . lo
    sdot    v3.4s, v21.16b, v4.4b[0]        ; ldr     x7, [x0, #168]
    fmul    v26.4s, v26.4s, v18.4s          ; ldr     x8, [x0, #184]
    fmul    v27.4s, v27.4s, v23.4s          ; ldr     d16, [x0, #160]
    sdot    v2.4s, v17.16b, v4.4b[1]        ; ldr     d21, [x0, #176]
    sdot    v3.4s, v22.16b, v4.4b[1]        ; ins     v16.d[1], x7
    fcvtl   v19.4s, v19.4h                  ; ins     v21.d[1], x8
    fcvtl   v24.4s, v24.4h                  ; ldr     x7, [x0, #200]
    scvtf   v2.4s, v2.4s                    ; ldr     x8, [x0, #216]
    scvtf   v3.4s, v3.4s                    ; ldr     d17, [x0, #192]
    fmov    d28, xzr                        ; ldr     d22, [x0, #208]
    fmov    d29, xzr                        ; ldr     d4, [x5]
    fmls    v26.4s, v2.4s, v19.4s           ; ins     v17.d[1], x7          // t -= dmin * M
    fmls    v27.4s, v3.4s, v24.4s           ; ins     v22.d[1], x8
    fmov    d2, xzr                         ; ldr     d5, [x5, #8]
    fmov    d3, xzr                         ; ldr     d6, [x5, #16]
    fmla    v0.4s, v26.4s, v7.s[0]          ; prfm    pldl1keep, [x0, #2016]
    fmla    v1.4s, v27.4s, v7.s[0]          ; b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .size   gemv_q5_k_neon_dotprod_cortex_a55, . - gemv_q5_k_neon_dotprod_cortex_a55
    .popsection
    .purgem sub_block
    .arch_extension nodotprod
