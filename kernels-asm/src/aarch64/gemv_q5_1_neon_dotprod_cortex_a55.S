// void gemv_q5_1_neon_dotprod_cortex_a55(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q5_1 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Five bytes hold eight weights u: the low five bits of byte v are u_v, and the high three make up
// u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI joins the parts at the top of a byte, USHR #3
// brings them down. A record's float work is done at the head of the next record; byte 3 leaves
// its registers to the minima.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4-v7 activations
// v16-v20 bytes 0-4 of rows 0-3, then u_5 in v16, u_6 in v18, u_7 in v20 | v21-v25 of rows 4-7
// v26 v27 weights; dot products as float | v28 v29 scales | d30 activation scale, scale * sum
// v31 mask | x5 activations of this record | x6 records left
// x7 x8, x9 x10 upper halves of weight vectors
//
// budget: 58 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q5_1_neon_dotprod_cortex_a55, "ax", %progbits
    .p2align 6
    .global gemv_q5_1_neon_dotprod_cortex_a55
    .hidden gemv_q5_1_neon_dotprod_cortex_a55
    .type   gemv_q5_1_neon_dotprod_cortex_a55, %function
gemv_q5_1_neon_dotprod_cortex_a55:
    cbz     x1, 3f
    movi    v31.16b, #31

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0
    movi    v2.4s, #0                       // the record before the first adds nothing
    movi    v3.4s, #0
    movi    v19.4s, #0
    movi    v24.4s, #0
    movi    v28.4s, #0
    movi    v29.4s, #0
    movi    v30.4s, #0

2:  fcvtl   v28.4s, v28.4h                  ; ldr     x7, [x0, #8]
    fcvtl   v29.4s, v29.4h                  ; ldr     x8, [x0, #24]
    scvtf   v26.4s, v2.4s                   ; ldr     d16, [x0]
    scvtf   v27.4s, v3.4s                   ; ldr     d21, [x0, #16]
    fcvtl   v19.4s, v19.4h                  ; fmov    d2, xzr
    fcvtl   v24.4s, v24.4h                  ; fmov    d3, xzr
    fmul    v28.4s, v28.4s, v30.s[0]
    fmul    v29.4s, v29.4s, v30.s[0]        ; ldr     x9, [x0, #40]
    ins     v16.d[1], x7                    ; ldr     x10, [x0, #56]
    ldr     d17, [x0, #32]
    fmla    v0.4s, v26.4s, v28.4s           ; ins     v21.d[1], x8          // the record before
    fmla    v1.4s, v27.4s, v29.4s           ; ldr     d22, [x0, #48]
    and     v26.16b, v16.16b, v31.16b       ; ldr     d4, [x5]              // u_0
    and     v27.16b, v21.16b, v31.16b       ; ins     v17.d[1], x9
    fmla    v0.4s, v19.4s, v30.s[1]         ; ins     v22.d[1], x10
    fmla    v1.4s, v24.4s, v30.s[1]         ; ldr     x7, [x0, #72]

    sdot    v2.4s, v26.16b, v4.4b[0]        ; ldr     x8, [x0, #88]
    sdot    v3.4s, v27.16b, v4.4b[0]        ; ldr     d18, [x0, #64]
    and     v26.16b, v17.16b, v31.16b       ; ldr     d23, [x0, #80]        // u_1
    and     v27.16b, v22.16b, v31.16b       ; ldr     d6, [x5, #16]
    sri     v16.16b, v17.16b, #3            ; ins     v18.d[1], x7
    sri     v21.16b, v22.16b, #3            ; ins     v23.d[1], x8
    sdot    v2.4s, v26.16b, v4.4b[1]        ; ldr     x9, [x0, #104]
    sdot    v3.4s, v27.16b, v4.4b[1]        ; ldr     x10, [x0, #120]
    ushr    v16.16b, v16.16b, #3            ; ldr     d19, [x0, #96]        // u_5
    ushr    v21.16b, v21.16b, #3            ; ldr     d24, [x0, #112]
    shl     v17.16b, v17.16b, #2            ; ldr     d5, [x5, #8]
    shl     v22.16b, v22.16b, #2            ; ins     v19.d[1], x9
    sdot    v2.4s, v16.16b, v6.4b[1]        ; ins     v24.d[1], x10
    sdot    v3.4s, v21.16b, v6.4b[1]        ; ldr     x7, [x0, #136]
    and     v26.16b, v18.16b, v31.16b       ; ldr     x8, [x0, #152]        // u_2
    and     v27.16b, v23.16b, v31.16b       ; ldr     d20, [x0, #128]
    sdot    v2.4s, v26.16b, v5.4b[0]        ; ldr     d25, [x0, #144]
    sdot    v3.4s, v27.16b, v5.4b[0]        ; ldr     d7, [x5, #24]
    sri     v18.16b, v19.16b, #3            ; ins     v20.d[1], x7
    sri     v23.16b, v24.16b, #3            ; ins     v25.d[1], x8
    and     v26.16b, v19.16b, v31.16b       ; ldr     d28, [x0, #160]       // u_3; f16 scales
    and     v27.16b, v24.16b, v31.16b       ; ldr     d29, [x0, #168]
    sdot    v2.4s, v26.16b, v5.4b[1]        ; ldr     d30, [x5, #32]
    sdot    v3.4s, v27.16b, v5.4b[1]        ; prfm    pldl1keep, [x0, #2048]
    ushr    v18.16b, v18.16b, #3            ; prfm    pldl1keep, [x0, #2112] // u_6
    ushr    v23.16b, v23.16b, #3            ; prfm    pldl1keep, [x0, #2176]
    sdot    v2.4s, v18.16b, v7.4b[0]
    sdot    v3.4s, v23.16b, v7.4b[0]
    shl     v19.16b, v19.16b, #2
    shl     v24.16b, v24.16b, #2
    and     v26.16b, v20.16b, v31.16b       // u_4
    and     v27.16b, v25.16b, v31.16b
    sri     v17.16b, v19.16b, #1
    sri     v22.16b, v24.16b, #1
    sdot    v2.4s, v26.16b, v6.4b[0]        ; ldr     d19, [x0, #176]       // f16 minima
    sdot    v3.4s, v27.16b, v6.4b[0]        ; ldr     d24, [x0, #184]
    sri     v20.16b, v17.16b, #3            // u_7
    sri     v25.16b, v22.16b, #3            ; add     x0, x0, #192
    ushr    v20.16b, v20.16b, #3            ; add     x5, x5, #48
    ushr    v25.16b, v25.16b, #3            ; subs    x6, x6, #1
    sdot    v2.4s, v20.16b, v7.4b[1]
    sdot    v3.4s, v25.16b, v7.4b[1]        ; b.ne    2b

    fcvtl   v28.4s, v28.4h                  // the last record of the group
    fcvtl   v29.4s, v29.4h
    scvtf   v26.4s, v2.4s
    scvtf   v27.4s, v3.4s
    fmul    v28.4s, v28.4s, v30.s[0]
    fmul    v29.4s, v29.4s, v30.s[0]
    fmla    v0.4s, v26.4s, v28.4s
    fmla    v1.4s, v27.4s, v29.4s
    fcvtl   v19.4s, v19.4h
    fcvtl   v24.4s, v24.4h
    fmla    v0.4s, v19.4s, v30.s[1]
    fmla    v1.4s, v24.4s, v30.s[1]
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q5_1_neon_dotprod_cortex_a55, . - gemv_q5_1_neon_dotprod_cortex_a55
    .popsection
    .arch_extension nodotprod
