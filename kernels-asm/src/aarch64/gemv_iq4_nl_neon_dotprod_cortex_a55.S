// void gemv_iq4_nl_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3,
//                                          out x4)
// Eight rows of IQ4_NL at a time by one vector of per-32 activation records: out[8 * groups]
// floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// TBL turns nibbles into weights. A record's float work is done at the head of the next record,
// beside the loads of that one's first vectors.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4-v7 activations
// v16 v17, v18 v19 weight vectors | v20 v21 low nibbles | v22 v23 products as float
// v24 v25 scales | s26 activation scale | v30 table | v31 mask
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
//
// budget: 57 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_iq4_nl_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_iq4_nl_neon_dotprod_cortex_a55
    .hidden gemv_iq4_nl_neon_dotprod_cortex_a55
    .type   gemv_iq4_nl_neon_dotprod_cortex_a55, %function
gemv_iq4_nl_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    movi    v31.16b, #15
    ldr     q30, 9f
1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0
    movi    v2.4s, #0                       // the record before the first adds nothing
    movi    v3.4s, #0
    movi    v24.4s, #0
    movi    v25.4s, #0
    movi    v26.4s, #0

2:  fcvtl   v24.4s, v24.4h                  ; ldr     x7, [x0, #8]
    fcvtl   v25.4s, v25.4h                  ; ldr     x8, [x0, #24]
    scvtf   v22.4s, v2.4s                   ; ldr     d16, [x0]
    scvtf   v23.4s, v3.4s                   ; ldr     d17, [x0, #16]
    fmul    v24.4s, v24.4s, v26.s[0]        ; ins     v16.d[1], x7
    fmul    v25.4s, v25.4s, v26.s[0]        ; ins     v17.d[1], x8
    fmov    d2, xzr                         ; ldr     d4, [x5]

    and     v20.16b, v16.16b, v31.16b       ; fmov    d3, xzr               // k 0-3, 16-19
    and     v21.16b, v17.16b, v31.16b       ; ldr     d6, [x5, #16]
    tbl     v20.16b, {v30.16b}, v20.16b
    tbl     v21.16b, {v30.16b}, v21.16b
    sdot    v2.4s, v20.16b, v4.4b[0]        ; ldr     x7, [x0, #40]
    sdot    v3.4s, v21.16b, v4.4b[0]        ; ldr     x8, [x0, #56]
    ushr    v16.16b, v16.16b, #4            ; ldr     d18, [x0, #32]
    ushr    v17.16b, v17.16b, #4            ; ldr     d19, [x0, #48]
    tbl     v16.16b, {v30.16b}, v16.16b
    tbl     v17.16b, {v30.16b}, v17.16b
    sdot    v2.4s, v16.16b, v6.4b[0]        ; ins     v18.d[1], x7
    sdot    v3.4s, v17.16b, v6.4b[0]        ; ins     v19.d[1], x8
    fmla    v0.4s, v22.4s, v24.4s           ; ldr     d5, [x5, #8]          // the record before
    fmla    v1.4s, v23.4s, v25.4s           ; ldr     d7, [x5, #24]

    and     v20.16b, v18.16b, v31.16b       ; ldr     x7, [x0, #72]         // k 4-7, 20-23
    and     v21.16b, v19.16b, v31.16b       ; ldr     x8, [x0, #88]
    tbl     v20.16b, {v30.16b}, v20.16b
    tbl     v21.16b, {v30.16b}, v21.16b
    sdot    v2.4s, v20.16b, v4.4b[1]        ; ldr     d16, [x0, #64]
    sdot    v3.4s, v21.16b, v4.4b[1]        ; ldr     d17, [x0, #80]
    ushr    v18.16b, v18.16b, #4            ; ins     v16.d[1], x7
    ushr    v19.16b, v19.16b, #4            ; ins     v17.d[1], x8
    tbl     v18.16b, {v30.16b}, v18.16b
    tbl     v19.16b, {v30.16b}, v19.16b
    sdot    v2.4s, v18.16b, v6.4b[1]        ; prfm    pldl1keep, [x0, #2048]
    sdot    v3.4s, v19.16b, v6.4b[1]        ; prfm    pldl1keep, [x0, #2112]

    and     v20.16b, v16.16b, v31.16b       ; ldr     x7, [x0, #104]        // k 8-11, 24-27
    and     v21.16b, v17.16b, v31.16b       ; ldr     x8, [x0, #120]
    tbl     v20.16b, {v30.16b}, v20.16b
    tbl     v21.16b, {v30.16b}, v21.16b
    sdot    v2.4s, v20.16b, v5.4b[0]        ; ldr     d18, [x0, #96]
    sdot    v3.4s, v21.16b, v5.4b[0]        ; ldr     d19, [x0, #112]
    ushr    v16.16b, v16.16b, #4            ; ins     v18.d[1], x7
    ushr    v17.16b, v17.16b, #4            ; ins     v19.d[1], x8
    tbl     v16.16b, {v30.16b}, v16.16b
    tbl     v17.16b, {v30.16b}, v17.16b
    sdot    v2.4s, v16.16b, v7.4b[0]        ; ldr     d24, [x0, #128]       // f16 scales
    sdot    v3.4s, v17.16b, v7.4b[0]        ; ldr     d25, [x0, #136]

    and     v20.16b, v18.16b, v31.16b       ; ldr     s26, [x5, #32]        // k 12-15, 28-31
    and     v21.16b, v19.16b, v31.16b       ; prfm    pldl1keep, [x0, #2176]
    tbl     v20.16b, {v30.16b}, v20.16b
    tbl     v21.16b, {v30.16b}, v21.16b
    sdot    v2.4s, v20.16b, v5.4b[1]        ; add     x0, x0, #144
    sdot    v3.4s, v21.16b, v5.4b[1]        ; add     x5, x5, #48
    ushr    v18.16b, v18.16b, #4            ; subs    x6, x6, #1
    ushr    v19.16b, v19.16b, #4
    tbl     v18.16b, {v30.16b}, v18.16b
    tbl     v19.16b, {v30.16b}, v19.16b
    sdot    v2.4s, v18.16b, v7.4b[1]
    sdot    v3.4s, v19.16b, v7.4b[1]        ; b.ne    2b

    fcvtl   v24.4s, v24.4h                  // the last record of the group
    fcvtl   v25.4s, v25.4h
    scvtf   v22.4s, v2.4s
    scvtf   v23.4s, v3.4s
    fmul    v24.4s, v24.4s, v26.s[0]
    fmul    v25.4s, v25.4s, v26.s[0]
    fmla    v0.4s, v22.4s, v24.4s
    fmla    v1.4s, v23.4s, v25.4s
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
    .size   gemv_iq4_nl_neon_dotprod_cortex_a55, . - gemv_iq4_nl_neon_dotprod_cortex_a55
    .popsection
    .arch_extension nodotprod
