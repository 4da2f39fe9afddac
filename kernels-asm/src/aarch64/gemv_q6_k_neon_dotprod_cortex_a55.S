// void gemv_q6_k_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q6_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Weights are used as 4 * q, as they lie (AND #0xfc); the fourth of each k is put together from
// the low two bits of three bytes (SLI, SLI, SHL). SCVTF #2 undoes the factor exactly:
// 16 * 128 * 16 * 128 * 128 = 5.4e8 bounds A, so it stays an exact int32.
// Vector pairs 0 and 1, the upper halves of pair 2 and one activation register are always loaded
// ahead. At the end of sub-block 15 that look-ahead fetches d and the activation scale; at the end
// of a record the next one's beginning; behind the last record of all its own once more.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations
// v16-v18 bytes 0-2 of rows 0-3 | v19-v21 of rows 4-7 | v22-v25 weights; d, t
// v26 v27 A | v28 scale bytes | v29 v30 sub-block scales | v31 mask
// x5 activations of this record | x6 records left | x7 x8, x11 x12 upper halves of weight vectors
// x9 end of the weights | x10 next record
//
// budget: 416 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q6_k_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q6_k_neon_dotprod_cortex_a55
    .hidden gemv_q6_k_neon_dotprod_cortex_a55
    .type   gemv_q6_k_neon_dotprod_cortex_a55, %function

// Sub-block \j: A += scale * dot product. The look-ahead goes on at \next and \next_act.
    .macro sub_block j, next, next_act
    and     v22.16b, v17.16b, v31.16b       ; ldr     d18, [x0, #96 * \j + 208] // k 4-7
    and     v23.16b, v20.16b, v31.16b       ; ldr     d21, [x0, #96 * \j + 224]
    and     v24.16b, v16.16b, v31.16b       ; ins     v18.d[1], x7              // k 0-3
    and     v25.16b, v19.16b, v31.16b       ; ins     v21.d[1], x8
    sdot    v2.4s, v22.16b, v4.4b[1]        ; ldr     d5, [x5, #16 * \j + 8]
    sdot    v3.4s, v23.16b, v4.4b[1]        ; ldr     d28, [x0, #8 * \j]
    and     v22.16b, v18.16b, v31.16b       ; prfm    pldl1keep, [x0, #104 * \j + 2048] // k 8-11
    and     v23.16b, v21.16b, v31.16b       ; prfm    pldl1keep, [x0, #104 * \j + 2104]
    sdot    v2.4s, v24.16b, v4.4b[0]        ; ldr     x7, [x0, #\next + 40]
    sdot    v3.4s, v25.16b, v4.4b[0]        ; ldr     x8, [x0, #\next + 56]
    sli     v18.16b, v17.16b, #2            ; ldr     d4, [x5, #\next_act]      // k 12-15
    sli     v21.16b, v20.16b, #2            ; ldr     d17, [x0, #\next + 32]
    sdot    v2.4s, v22.16b, v5.4b[0]        ; ldr     d20, [x0, #\next + 48]
    sdot    v3.4s, v23.16b, v5.4b[0]        ; ins     v17.d[1], x7
    sli     v18.16b, v16.16b, #4            ; ins     v20.d[1], x8
    sli     v21.16b, v19.16b, #4            ; ldr     x11, [x0, #\next + 8]
    sxtl    v28.8h, v28.8b                  ; ldr     x12, [x0, #\next + 24]
    shl     v24.16b, v18.16b, #2            ; ldr     d16, [x0, #\next]
    shl     v25.16b, v21.16b, #2            ; ldr     d19, [x0, #\next + 16]
    sdot    v2.4s, v24.16b, v5.4b[1]        ; ins     v16.d[1], x11
    sdot    v3.4s, v25.16b, v5.4b[1]        ; ins     v19.d[1], x12
    sxtl    v29.4s, v28.4h                  ; ldr     x7, [x0, #\next + 72]
    sxtl2   v30.4s, v28.8h                  ; ldr     x8, [x0, #\next + 88]
    mla     v26.4s, v2.4s, v29.4s           ; fmov    d2, xzr
    mla     v27.4s, v3.4s, v30.4s           ; fmov    d3, xzr
    .endm

gemv_q6_k_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    mov     w9, #1680
    mul     x9, x9, x1
    madd    x9, x9, x2, x0
    movi    v31.16b, #0xfc
    mov     x5, x3
    ldp     q16, q19, [x0, #144]
    ldp     q17, q20, [x0, #176]
    ldr     x7, [x0, #216]
    ldr     x8, [x0, #232]
    ldr     d4, [x5]
    movi    v2.4s, #0
    movi    v3.4s, #0
    movi    v26.4s, #0
    movi    v27.4s, #0

1:  mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  .irp    j, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    sub_block \j, 96 * \j + 240, 16 * \j + 16
    .endr
    sub_block 15, 128, 272

// sum += activation scale * (d * A)
    fcvtl   v22.4s, v16.4h                  ; add     x10, x0, #1680        // d
    fcvtl2  v23.4s, v16.8h                  ; cmp     x10, x9
    scvtf   v24.4s, v26.4s, #2              ; csel    x0, x10, x0, ne       // t = A
    scvtf   v25.4s, v27.4s, #2              ; ldr     x7, [x0, #184]
    ldr     x8, [x0, #200]                  ; add     x5, x5, #336
    ldr     d17, [x0, #176]                 ; subs    x6, x6, #1
    fmul    v24.4s, v24.4s, v22.4s          ; ldr     d20, [x0, #192]
    fmul    v25.4s, v25.4s, v23.4s          ; ldr     x11, [x0, #152]
    ldr     x12, [x0, #168]                 ; ins     v17.d[1], x7
    ldr     d16, [x0, #144]                 ; csel    x5, x5, x3, ne
    fmla    v0.4s, v24.4s, v4.s[0]          ; ldr     d19, [x0, #160]
    fmla    v1.4s, v25.4s, v4.s[0]          ; ldr     x7, [x0, #216]
    ins     v20.d[1], x8                    ; ldr     x8, [x0, #232]
    ins     v16.d[1], x11                   ; ldr     d4, [x5]
    ins     v19.d[1], x12                   ; fmov    d26, xzr
    fmov    d27, xzr                        ; b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q6_k_neon_dotprod_cortex_a55, . - gemv_q6_k_neon_dotprod_cortex_a55
    .popsection
    .purgem sub_block
    .arch_extension nodotprod
