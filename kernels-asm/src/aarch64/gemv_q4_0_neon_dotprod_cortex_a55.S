// void gemv_q4_0_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Nibbles are used as 16 * q (SHL, AND), which SCVTF #4 undoes exactly. A record's float work is
// done at the head of the next record, beside the loads of that one's first vectors.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 16 * dot product | v4-v7 activations
// v16 v17, v18 v19 weight vectors | v20 v21 low nibbles | v22 v23 products as float
// v24 v25 scales | s26 activation scale | v31 mask
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
//
// budget: 41 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q4_0_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q4_0_neon_dotprod_cortex_a55
    .hidden gemv_q4_0_neon_dotprod_cortex_a55
    .type   gemv_q4_0_neon_dotprod_cortex_a55, %function
gemv_q4_0_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    movi    v31.16b, #0xf0
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
    scvtf   v22.4s, v2.4s, #4               ; ldr     d16, [x0]
    scvtf   v23.4s, v3.4s, #4               ; ldr     d17, [x0, #16]
    fmul    v24.4s, v24.4s, v26.s[0]        ; ins     v16.d[1], x7
    fmul    v25.4s, v25.4s, v26.s[0]        ; ins     v17.d[1], x8
    fmov    d2, xzr                         ; ldr     d4, [x5]

    shl     v20.16b, v16.16b, #4            ; fmov    d3, xzr               // k 0-3, 16-19
    shl     v21.16b, v17.16b, #4            ; ldr     d6, [x5, #16]
    sdot    v2.4s, v20.16b, v4.4b[0]        ; ldr     x7, [x0, #40]
    sdot    v3.4s, v21.16b, v4.4b[0]        ; ldr     x8, [x0, #56]
    and     v16.16b, v16.16b, v31.16b       ; ldr     d18, [x0, #32]
    and     v17.16b, v17.16b, v31.16b       ; ldr     d19, [x0, #48]
    sdot    v2.4s, v16.16b, v6.4b[0]        ; ins     v18.d[1], x7
    sdot    v3.4s, v17.16b, v6.4b[0]        ; ins     v19.d[1], x8
    fmla    v0.4s, v22.4s, v24.4s           ; ldr     d5, [x5, #8]          // the record before
    fmla    v1.4s, v23.4s, v25.4s           ; ldr     d7, [x5, #24]

    shl     v20.16b, v18.16b, #4            ; ldr     x7, [x0, #72]         // k 4-7, 20-23
    shl     v21.16b, v19.16b, #4            ; ldr     x8, [x0, #88]
    sdot    v2.4s, v20.16b, v4.4b[1]        ; ldr     d16, [x0, #64]
    sdot    v3.4s, v21.16b, v4.4b[1]        ; ldr     d17, [x0, #80]
    and     v18.16b, v18.16b, v31.16b       ; ins     v16.d[1], x7
    and     v19.16b, v19.16b, v31.16b       ; ins     v17.d[1], x8
    sdot    v2.4s, v18.16b, v6.4b[1]        ; prfm    pldl1keep, [x0, #2048]
    sdot    v3.4s, v19.16b, v6.4b[1]        ; prfm    pldl1keep, [x0, #2112]

    shl     v20.16b, v16.16b, #4            ; ldr     x7, [x0, #104]        // k 8-11, 24-27
    shl     v21.16b, v17.16b, #4            ; ldr     x8, [x0, #120]
    sdot    v2.4s, v20.16b, v5.4b[0]        ; ldr     d18, [x0, #96]
    sdot    v3.4s, v21.16b, v5.4b[0]        ; ldr     d19, [x0, #112]
    and     v16.16b, v16.16b, v31.16b       ; ins     v18.d[1], x7
    and     v17.16b, v17.16b, v31.16b       ; ins     v19.d[1], x8
    sdot    v2.4s, v16.16b, v7.4b[0]        ; ldr     d24, [x0, #128]       // f16 scales
    sdot    v3.4s, v17.16b, v7.4b[0]        ; ldr     d25, [x0, #136]

    shl     v20.16b, v18.16b, #4            ; ldr     s26, [x5, #32]        // k 12-15, 28-31
    shl     v21.16b, v19.16b, #4            ; prfm    pldl1keep, [x0, #2176]
    sdot    v2.4s, v20.16b, v5.4b[1]        ; add     x0, x0, #144
    sdot    v3.4s, v21.16b, v5.4b[1]        ; add     x5, x5, #48
    and     v18.16b, v18.16b, v31.16b       ; subs    x6, x6, #1
    and     v19.16b, v19.16b, v31.16b
    sdot    v2.4s, v18.16b, v7.4b[1]
    sdot    v3.4s, v19.16b, v7.4b[1]        ; b.ne    2b

    fcvtl   v24.4s, v24.4h                  // the last record of the group
    fcvtl   v25.4s, v25.4h
    scvtf   v22.4s, v2.4s, #4
    scvtf   v23.4s, v3.4s, #4
    fmul    v24.4s, v24.4s, v26.s[0]
    fmul    v25.4s, v25.4s, v26.s[0]
    fmla    v0.4s, v22.4s, v24.4s
    fmla    v1.4s, v23.4s, v25.4s
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q4_0_neon_dotprod_cortex_a55, . - gemv_q4_0_neon_dotprod_cortex_a55
    .popsection
    .arch_extension nodotprod
