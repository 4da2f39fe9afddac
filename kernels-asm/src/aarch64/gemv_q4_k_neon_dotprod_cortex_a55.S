// void gemv_q4_k_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Two vector pairs and three activation registers are always loaded ahead. At the end of sub-block
// 7 that look-ahead fetches the minima, which lie like two vector pairs, and the activation sums:
// minima are folded in by SDOT, M = 128 * (m . hi) + m . lo. At the end of a record it fetches the
// next one's beginning; behind the last record of all, which has no next, its own once more.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products, M | v4-v7 activations
// v16 v17, v18 v19, v20 v21, v22 v23 weight vectors | v24 v25 low nibbles, sub-block scales, t
// v26 v27 A | v28 scale bytes | v29 mask | v30 v31 TBL indices of rows 0-3 and 4-7
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
// x9 end of the weights | x10 next record
//
// budget: 317 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_k_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q4_k_neon_dotprod_cortex_a55
    .hidden gemv_q4_k_neon_dotprod_cortex_a55
    .type   gemv_q4_k_neon_dotprod_cortex_a55, %function

// Sub-block \j: A += scale * dot product. The look-ahead goes on at \next and \next_act.
    .macro sub_block j, next, next_act
    and     v24.16b, v16.16b, v29.16b       ; ldr     x7, [x0, #128 * \j + 232] // k 0-3, 16-19
    and     v25.16b, v17.16b, v29.16b       ; ldr     x8, [x0, #128 * \j + 248]
    sdot    v2.4s, v24.16b, v4.4b[0]        ; ldr     d20, [x0, #128 * \j + 224]
    sdot    v3.4s, v25.16b, v4.4b[0]        ; ldr     d21, [x0, #128 * \j + 240]
    ushr    v16.16b, v16.16b, #4            ; ins     v20.d[1], x7
    ushr    v17.16b, v17.16b, #4            ; ins     v21.d[1], x8
    sdot    v2.4s, v16.16b, v6.4b[0]        ; ldr     d7, [x5, #32 * \j + 24]
    sdot    v3.4s, v17.16b, v6.4b[0]        ; prfm    pldl1keep, [x0, #128 * \j + 2048]

    and     v24.16b, v18.16b, v29.16b       ; ldr     x7, [x0, #128 * \j + 264] // k 4-7, 20-23
    and     v25.16b, v19.16b, v29.16b       ; ldr     x8, [x0, #128 * \j + 280]
    sdot    v2.4s, v24.16b, v4.4b[1]        ; ldr     d22, [x0, #128 * \j + 256]
    sdot    v3.4s, v25.16b, v4.4b[1]        ; ldr     d23, [x0, #128 * \j + 272]
    ushr    v18.16b, v18.16b, #4            ; ins     v22.d[1], x7
    ushr    v19.16b, v19.16b, #4            ; ins     v23.d[1], x8
    sdot    v2.4s, v18.16b, v6.4b[1]        ; ldr     d28, [x0, #8 * \j]
    sdot    v3.4s, v19.16b, v6.4b[1]        ; prfm    pldl1keep, [x0, #128 * \j + 2112]

    and     v24.16b, v20.16b, v29.16b       ; ldr     x7, [x0, #\next + 8]      // k 8-11, 24-27
    and     v25.16b, v21.16b, v29.16b       ; ldr     x8, [x0, #\next + 24]
    sdot    v2.4s, v24.16b, v5.4b[0]        ; ldr     d16, [x0, #\next]
    sdot    v3.4s, v25.16b, v5.4b[0]        ; ldr     d17, [x0, #\next + 16]
    ushr    v20.16b, v20.16b, #4            ; ins     v16.d[1], x7
    ushr    v21.16b, v21.16b, #4            ; ins     v17.d[1], x8
    sdot    v2.4s, v20.16b, v7.4b[0]        ; ldr     d4, [x5, #\next_act]
    sdot    v3.4s, v21.16b, v7.4b[0]        ; ldr     d6, [x5, #\next_act + 16]

    and     v24.16b, v22.16b, v29.16b       ; ldr     x7, [x0, #\next + 40]     // k 12-15, 28-31
    and     v25.16b, v23.16b, v29.16b       ; ldr     x8, [x0, #\next + 56]
    sdot    v2.4s, v24.16b, v5.4b[1]        ; ldr     d18, [x0, #\next + 32]
    sdot    v3.4s, v25.16b, v5.4b[1]        ; ldr     d19, [x0, #\next + 48]
    ushr    v22.16b, v22.16b, #4            ; ins     v18.d[1], x7
    ushr    v23.16b, v23.16b, #4            ; ins     v19.d[1], x8
    sdot    v2.4s, v22.16b, v7.4b[1]        ; ldr     d5, [x5, #\next_act + 8]
    sdot    v3.4s, v23.16b, v7.4b[1]

    tbl     v24.16b, {v28.16b}, v30.16b
    tbl     v25.16b, {v28.16b}, v31.16b
    mla     v26.4s, v2.4s, v24.4s           ; fmov    d2, xzr
    mla     v27.4s, v3.4s, v25.4s           ; fmov    d3, xzr
    .endm

gemv_q4_k_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    mov     w9, #1184
    mul     x9, x9, x1
    madd    x9, x9, x2, x0
    movi    v29.16b, #0x0f
    adr     x7, 9f
    ldp     q30, q31, [x7]
    mov     x5, x3
    ldp     q16, q17, [x0, #160]
    ldp     q18, q19, [x0, #192]
    ldp     d4, d5, [x5]
    ldr     d6, [x5, #16]
    movi    v2.4s, #0
    movi    v3.4s, #0
    movi    v26.4s, #0
    movi    v27.4s, #0

1:  mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  .irp    j, 0, 1, 2, 3, 4, 5, 6
    sub_block \j, 128 * \j + 288, 32 * \j + 32
    .endr
    sub_block 7, 64, 256

// sum += activation scale * (d * A - dmin * M)
    add     x10, x0, #1184                  ; prfm    pldl1keep, [x0, #3072]
    sdot    v2.4s, v16.16b, v5.4b[0]        ; ldr     d20, [x0, #128]       // m . hi; d
    sdot    v3.4s, v17.16b, v5.4b[0]        ; ldr     d21, [x0, #136]
    scvtf   v24.4s, v26.4s                  ; ldr     d22, [x0, #144]       // t = A; dmin
    scvtf   v25.4s, v27.4s                  ; ldr     d23, [x0, #152]
    sdot    v2.4s, v18.16b, v5.4b[1]        ; ldr     s7, [x5, #272]        // activation scale
    sdot    v3.4s, v19.16b, v5.4b[1]        ; prfm    pldl1keep, [x0, #3136]
    fcvtl   v20.4s, v20.4h                  ; cmp     x10, x9
    fcvtl   v21.4s, v21.4h                  ; csel    x0, x10, x0, ne
    shl     v2.4s, v2.4s, #7                ; add     x5, x5, #336
    shl     v3.4s, v3.4s, #7                ; subs    x6, x6, #1
    sdot    v2.4s, v16.16b, v4.4b[0]        ; csel    x5, x5, x3, ne        // m . lo
    sdot    v3.4s, v17.16b, v4.4b[0]        ; ldr     x7, [x0, #168]
    fmul    v24.4s, v24.4s, v20.4s          ; ldr     x8, [x0, #184]
    fmul    v25.4s, v25.4s, v21.4s          ; ldr     d16, [x0, #160]
    sdot    v2.4s, v18.16b, v4.4b[1]        ; ldr     d17, [x0, #176]
    sdot    v3.4s, v19.16b, v4.4b[1]        ; ins     v16.d[1], x7
    fcvtl   v22.4s, v22.4h                  ; ins     v17.d[1], x8
    fcvtl   v23.4s, v23.4h                  ; ldr     x7, [x0, #200]
    scvtf   v2.4s, v2.4s                    ; ldr     x8, [x0, #216]
    scvtf   v3.4s, v3.4s                    ; ldr     d18, [x0, #192]
    fmov    d26, xzr                        ; ldr     d19, [x0, #208]
    fmov    d27, xzr                        ; ldr     d4, [x5]
    fmls    v24.4s, v2.4s, v22.4s           ; ins     v18.d[1], x7          // t -= dmin * M
    fmls    v25.4s, v3.4s, v23.4s           ; ins     v19.d[1], x8
    fmov    d2, xzr                         ; ldr     d5, [x5, #8]
    fmov    d3, xzr                         ; ldr     d6, [x5, #16]
    fmla    v0.4s, v24.4s, v7.s[0]          ; prfm    pldl1keep, [x0, #2016]
    fmla    v1.4s, v25.4s, v7.s[0]          ; b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1
    .byte   4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1
    .size   gemv_q4_k_neon_dotprod_cortex_a55, . - gemv_q4_k_neon_dotprod_cortex_a55
    .popsection
    .purgem sub_block
    .arch_extension nodotprod
