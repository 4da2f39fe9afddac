// void gemv_q4_k_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// SMULL and SMULL2 take two rows by four k each, times those four activations twice. All eight
// products of a lane fit into an i16 (8 * 15 * 127 = 15240), and so does a sum of two lanes, which
// SMLAL multiplies with the scale of the sub-block.
// A pair of vectors and two activation registers are always loaded ahead. At the end of sub-block
// 7 that look-ahead fetches half of the minima, which lie like two vector pairs, the first
// activation sums and the activation scale. M = m . lo + 128 * (m . hi).
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 scales | v4 v5 activations, four k four
// times | v6 v7 activation sums | v16 v17, v18 v19 weight vectors | v20 v21 low nibbles
// v22-v25 i16 sums, four parts of each of two rows | v26-v29 A, two parts of each of two rows
// v30 mask | v31 TBL indices, bytes to pairs of i16
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
// x9 x10 next activations of the low, the high nibbles | x11 from the last of them to the next
//
// budget: 507 cycles a record (cortex-a55)
    .pushsection .text.gemv_q4_k_neon, "ax", %progbits
    .p2align 6
    .global gemv_q4_k_neon
    .hidden gemv_q4_k_neon
    .type   gemv_q4_k_neon, %function

// Four k of the low and four of the high nibbles of v\w0 and v\w1; \mul is SMULL for the first four
// and then SMLAL. The next two vectors, at \next, are loaded into v\n0 and v\n1 beside them, and
// the next activations, which \stride follows.
    .macro step mul, w0, w1, n0, n1, next, stride, beside
    and     v20.16b, v\w0\().16b, v30.16b   ; ldr     x7, [x0, #\next + 8]
    and     v21.16b, v\w1\().16b, v30.16b   ; ldr     x8, [x0, #\next + 24]
    \mul    v22.8h, v20.8b, v4.8b           ; ldr     d\n0, [x0, #\next]
    \mul\()2 v23.8h, v20.16b, v4.16b        ; ldr     d\n1, [x0, #\next + 16]
    \mul    v24.8h, v21.8b, v4.8b           ; ins     v\n0\().d[1], x7
    \mul\()2 v25.8h, v21.16b, v4.16b        ; ins     v\n1\().d[1], x8
    ushr    v\w0\().16b, v\w0\().16b, #4    ; ld1r    {v4.4s}, [x9], \stride
    ushr    v\w1\().16b, v\w1\().16b, #4
    smlal   v22.8h, v\w0\().8b, v5.8b
    smlal2  v23.8h, v\w0\().16b, v5.16b
    smlal   v24.8h, v\w1\().8b, v5.8b       ; \beside
    smlal2  v25.8h, v\w1\().16b, v5.16b     ; ld1r    {v5.4s}, [x10], \stride
    .endm

// Sub-block \j: A += scale * dot product. The look-ahead goes on at \next.
    .macro sub_block j, next
    step    smull, 16, 17, 18, 19, 128 * \j + 192, #4, "prfm pldl1keep, [x0, #128 * \j + 2048]"
    step    smlal, 18, 19, 16, 17, 128 * \j + 224, #4, "prfm pldl1keep, [x0, #128 * \j + 2112]"
    step    smlal, 16, 17, 18, 19, 128 * \j + 256, x11, "ldr s2, [x0, #8 * \j]"
    step    smlal, 18, 19, 16, 17, \next, #4, "ldr s3, [x0, #8 * \j + 4]"
    tbl     v2.16b, {v2.16b}, v31.16b
    addp    v22.8h, v22.8h, v23.8h
    tbl     v3.16b, {v3.16b}, v31.16b
    addp    v24.8h, v24.8h, v25.8h
    smlal   v26.4s, v22.4h, v2.4h
    smlal2  v27.4s, v22.8h, v2.8h
    smlal   v28.4s, v24.4h, v3.4h
    smlal2  v29.4s, v24.8h, v3.8h
    .endm

gemv_q4_k_neon:
    cbz     x1, 3f
    movi    v30.16b, #0x0f
    ldr     q31, 9f
    mov     x11, #20

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  ldr     x7, [x0, #168]                  ; mov     x9, x5
    ldr     x8, [x0, #184]                  ; add     x10, x5, #16
    ldr     d16, [x0, #160]                 ; fmov    d26, xzr
    ldr     d17, [x0, #176]                 ; fmov    d27, xzr
    ins     v16.d[1], x7                    ; ld1r    {v4.4s}, [x9], #4
    ins     v17.d[1], x8                    ; ld1r    {v5.4s}, [x10], #4
    fmov    d28, xzr                        ; prfm    pldl1keep, [x0, #3072]
    fmov    d29, xzr                        ; prfm    pldl1keep, [x0, #3136]

    .irp    j, 0, 1, 2, 3, 4, 5, 6
    sub_block \j, 128 * \j + 288
    .endr
    sub_block 7, 64

// sum += activation scale * (d * A - dmin * M)
    smull   v22.8h, v16.8b, v4.8b           ; ldr     x7, [x0, #104]        // m . lo
    smull2  v23.8h, v16.16b, v4.16b         ; ldr     x8, [x0, #120]
    smull   v24.8h, v17.8b, v4.8b           ; ldr     d18, [x0, #96]
    smull2  v25.8h, v17.16b, v4.16b         ; ldr     d19, [x0, #112]
    addp    v26.4s, v26.4s, v27.4s          ; ld1r    {v4.4s}, [x9], #4     // A
    addp    v28.4s, v28.4s, v29.4s          ; ins     v18.d[1], x7
    ins     v19.d[1], x8                    ; ld1r    {v6.4s}, [x9], #4
    scvtf   v26.4s, v26.4s                  ; ldr     d27, [x0, #128]       // d
    scvtf   v28.4s, v28.4s                  ; ldr     d29, [x0, #136]
    smlal   v22.8h, v18.8b, v4.8b           ; ld1r    {v7.4s}, [x9]
    smlal2  v23.8h, v18.16b, v4.16b
    smlal   v24.8h, v19.8b, v4.8b
    smlal2  v25.8h, v19.16b, v4.16b
    smull   v2.8h, v16.8b, v6.8b                                           // m . hi
    smull2  v3.8h, v16.16b, v6.16b
    smull   v20.8h, v17.8b, v6.8b
    smull2  v21.8h, v17.16b, v6.16b
    smlal   v2.8h, v18.8b, v7.8b
    smlal2  v3.8h, v18.16b, v7.16b
    smlal   v20.8h, v19.8b, v7.8b
    smlal2  v21.8h, v19.16b, v7.16b
    fcvtl   v27.4s, v27.4h                  ; prfm    pldl1keep, [x0, #3200]
    saddlp  v2.4s, v2.8h
    saddlp  v3.4s, v3.8h
    saddlp  v20.4s, v20.8h
    saddlp  v21.4s, v21.8h
    fcvtl   v29.4s, v29.4h
    shl     v2.4s, v2.4s, #7
    shl     v3.4s, v3.4s, #7
    shl     v20.4s, v20.4s, #7
    shl     v21.4s, v21.4s, #7
    sadalp  v2.4s, v22.8h                   ; ldr     d22, [x0, #144]       // dmin
    sadalp  v3.4s, v23.8h                   ; ldr     d23, [x0, #152]
    sadalp  v20.4s, v24.8h
    sadalp  v21.4s, v25.8h
    fmul    v26.4s, v26.4s, v27.4s                                          // t = d * A
    addp    v2.4s, v2.4s, v3.4s                                             // M
    fmul    v28.4s, v28.4s, v29.4s
    addp    v20.4s, v20.4s, v21.4s
    scvtf   v2.4s, v2.4s
    fcvtl   v22.4s, v22.4h
    scvtf   v20.4s, v20.4s
    fcvtl   v23.4s, v23.4h                  ; add     x0, x0, #1184
    fmls    v26.4s, v2.4s, v22.4s           ; add     x5, x5, #336          // t -= dmin * M
    fmls    v28.4s, v20.4s, v23.4s          ; subs    x6, x6, #1
    fmla    v0.4s, v26.4s, v5.4s
    fmla    v1.4s, v28.4s, v5.4s
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .p2align 4
9:  .byte   0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1
    .size   gemv_q4_k_neon, . - gemv_q4_k_neon
    .popsection
    .purgem sub_block
    .purgem step
