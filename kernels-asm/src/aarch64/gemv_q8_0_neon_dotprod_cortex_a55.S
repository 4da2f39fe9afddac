// void gemv_q8_0_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q8_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// There is nothing to unpack, so the load pipe is the bottleneck: 39 loads and 5 prefetches beside
// 16 SDOT. A pair of vectors is loaded in one step of four lines, completed by INS in the next and
// used in the third. A record's float work is done at the head of the next record.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4-v7 activations
// v16 v17, v18 v19, v20 v21 weight vectors | v22 v23 dot products as float | v24 v25 scales
// s26 activation scale | x5 activations of this record | x6 records left
// x7 x8, x9 x10 upper halves of weight vectors
//
// budget: 45 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q8_0_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q8_0_neon_dotprod_cortex_a55
    .hidden gemv_q8_0_neon_dotprod_cortex_a55
    .type   gemv_q8_0_neon_dotprod_cortex_a55, %function
gemv_q8_0_neon_dotprod_cortex_a55:
    cbz     x1, 3f

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
    fmul    v24.4s, v24.4s, v26.s[0]        ; ldr     x9, [x0, #40]
    fmul    v25.4s, v25.4s, v26.s[0]        ; ldr     x10, [x0, #56]
    ins     v16.d[1], x7                    ; ldr     d18, [x0, #32]
    ins     v17.d[1], x8                    ; ldr     d19, [x0, #48]
    fmov    d2, xzr                         ; ldr     d4, [x5]
    fmla    v0.4s, v22.4s, v24.4s           ; ldr     d5, [x5, #8]          // the record before
    fmla    v1.4s, v23.4s, v25.4s           ; ldr     d6, [x5, #16]
    fmov    d3, xzr                         ; ldr     d7, [x5, #24]

    sdot    v2.4s, v16.16b, v4.4b[0]        ; ldr     x7, [x0, #72]         // k 0-3
    ins     v18.d[1], x9                    ; ldr     x8, [x0, #88]
    sdot    v3.4s, v17.16b, v4.4b[0]        ; ldr     d20, [x0, #64]
    ins     v19.d[1], x10                   ; ldr     d21, [x0, #80]

    sdot    v2.4s, v18.16b, v4.4b[1]        ; ldr     x9, [x0, #104]        // k 4-7
    ins     v20.d[1], x7                    ; ldr     x10, [x0, #120]
    sdot    v3.4s, v19.16b, v4.4b[1]        ; ldr     d16, [x0, #96]
    ins     v21.d[1], x8                    ; ldr     d17, [x0, #112]

    sdot    v2.4s, v20.16b, v5.4b[0]        ; ldr     x7, [x0, #136]        // k 8-11
    ins     v16.d[1], x9                    ; ldr     x8, [x0, #152]
    sdot    v3.4s, v21.16b, v5.4b[0]        ; ldr     d18, [x0, #128]
    ins     v17.d[1], x10                   ; ldr     d19, [x0, #144]

    sdot    v2.4s, v16.16b, v5.4b[1]        ; ldr     x9, [x0, #168]        // k 12-15
    ins     v18.d[1], x7                    ; ldr     x10, [x0, #184]
    sdot    v3.4s, v17.16b, v5.4b[1]        ; ldr     d20, [x0, #160]
    ins     v19.d[1], x8                    ; ldr     d21, [x0, #176]

    sdot    v2.4s, v18.16b, v6.4b[0]        ; ldr     x7, [x0, #200]        // k 16-19
    ins     v20.d[1], x9                    ; ldr     x8, [x0, #216]
    sdot    v3.4s, v19.16b, v6.4b[0]        ; ldr     d16, [x0, #192]
    ins     v21.d[1], x10                   ; ldr     d17, [x0, #208]

    sdot    v2.4s, v20.16b, v6.4b[1]        ; ldr     x9, [x0, #232]        // k 20-23
    ins     v16.d[1], x7                    ; ldr     x10, [x0, #248]
    sdot    v3.4s, v21.16b, v6.4b[1]        ; ldr     d18, [x0, #224]
    ins     v17.d[1], x8                    ; ldr     d19, [x0, #240]

    sdot    v2.4s, v16.16b, v7.4b[0]        ; ldr     d24, [x0, #256]       // k 24-27; f16 scales
    ins     v18.d[1], x9                    ; ldr     d25, [x0, #264]
    sdot    v3.4s, v17.16b, v7.4b[0]        ; ldr     s26, [x5, #32]
    ins     v19.d[1], x10                   ; prfm    pldl1keep, [x0, #2048]

    sdot    v2.4s, v18.16b, v7.4b[1]        ; prfm    pldl1keep, [x0, #2112] // k 28-31
    subs    x6, x6, #1                      ; prfm    pldl1keep, [x0, #2176]
    sdot    v3.4s, v19.16b, v7.4b[1]        ; prfm    pldl1keep, [x0, #2240]
    add     x5, x5, #48                     ; prfm    pldl1keep, [x0, #2304]
    add     x0, x0, #272                    ; b.ne    2b

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
    .size   gemv_q8_0_neon_dotprod_cortex_a55, . - gemv_q8_0_neon_dotprod_cortex_a55
    .popsection
    .arch_extension nodotprod
