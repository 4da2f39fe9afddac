// void gemv_q8_0_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q8_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// SMULL takes 64-bit vectors: two rows by four k, times those four activations twice. Two products
// fit into an i16 (2 * 128 * 127 = 32512, activations being -127 ..= 127), then SADALP adds
// neighbours into i32. A record's float work is done at the head of the next record.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | d2 d3 scales | v4 v5 activations, four k twice
// s6 activation scale | v16-v19 weights of four k, two rows each | v28-v31 of the next four
// v20-v23 dot products, two parts of each of two rows; v20 v22 as float | v24-v27 i16 sums
// x5 activations of this record | x6 records left | x7 next four activations
//
// budget: 61 cycles a record (cortex-a55)
    .pushsection .text.gemv_q8_0_neon, "ax", %progbits
    .p2align 6
    .global gemv_q8_0_neon
    .hidden gemv_q8_0_neon
    .type   gemv_q8_0_neon, %function

// Eight k, whose weights are at \at; \add is SADDLP for the first eight and then SADALP. The first
// half of the weights is loaded before, and that of the next eight k, at \next, beside these.
    .macro eight_k add, at, next
    smull   v24.8h, v16.8b, v4.8b           ; ldr     d28, [x0, #\at + 32]
    smull   v25.8h, v17.8b, v4.8b           ; ldr     d29, [x0, #\at + 40]
    smull   v26.8h, v18.8b, v4.8b           ; ldr     d30, [x0, #\at + 48]
    smull   v27.8h, v19.8b, v4.8b           ; ldr     d31, [x0, #\at + 56]
    smlal   v24.8h, v28.8b, v5.8b           ; ldr     d16, [x0, #\next]
    smlal   v25.8h, v29.8b, v5.8b           ; ldr     d17, [x0, #\next + 8]
    smlal   v26.8h, v30.8b, v5.8b           ; ldr     d18, [x0, #\next + 16]
    smlal   v27.8h, v31.8b, v5.8b           ; ldr     d19, [x0, #\next + 24]
    \add    v20.4s, v24.8h                  ; ld1r    {v4.2s}, [x7], #4
    \add    v21.4s, v25.8h                  ; prfm    pldl1keep, [x0, #\at + 2048]
    \add    v22.4s, v26.8h                  ; ld1r    {v5.2s}, [x7], #4
    \add    v23.4s, v27.8h
    .endm

gemv_q8_0_neon:
    cbz     x1, 3f

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0
    movi    v2.4s, #0                       // the record before the first adds nothing
    movi    v3.4s, #0
    movi    v6.4s, #0
    movi    v20.4s, #0
    movi    v21.4s, #0
    movi    v22.4s, #0
    movi    v23.4s, #0

2:  fcvtl   v2.4s, v2.4h                    ; mov     x7, x5
    addp    v20.4s, v20.4s, v21.4s          ; ld1r    {v4.2s}, [x7], #4
    fcvtl   v3.4s, v3.4h                    ; ldr     d16, [x0]
    addp    v22.4s, v22.4s, v23.4s          ; ld1r    {v5.2s}, [x7], #4
    fmul    v2.4s, v2.4s, v6.s[0]           ; ldr     d17, [x0, #8]
    scvtf   v20.4s, v20.4s                  ; ldr     d18, [x0, #16]
    fmul    v3.4s, v3.4s, v6.s[0]           ; ldr     d19, [x0, #24]
    scvtf   v22.4s, v22.4s                  ; prfm    pldl1keep, [x0, #2304]
    subs    x6, x6, #1
    fmla    v0.4s, v20.4s, v2.4s            ; ldr     s6, [x5, #32]
    add     x5, x5, #48                     ; ldr     d2, [x0, #256]
    fmla    v1.4s, v22.4s, v3.4s            ; ldr     d3, [x0, #264]

    eight_k saddlp, 0, 64
    eight_k sadalp, 64, 128
    eight_k sadalp, 128, 192
    eight_k sadalp, 192, 0                  // nothing follows: loads what is not used
    add     x0, x0, #272
    b.ne    2b

    fcvtl   v2.4s, v2.4h                    // the last record of the group
    fcvtl   v3.4s, v3.4h
    addp    v20.4s, v20.4s, v21.4s
    addp    v22.4s, v22.4s, v23.4s
    fmul    v2.4s, v2.4s, v6.s[0]
    fmul    v3.4s, v3.4s, v6.s[0]
    scvtf   v20.4s, v20.4s
    scvtf   v22.4s, v22.4s
    fmla    v0.4s, v20.4s, v2.4s
    fmla    v1.4s, v22.4s, v3.4s
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q8_0_neon, . - gemv_q8_0_neon
    .popsection
    .purgem eight_k
