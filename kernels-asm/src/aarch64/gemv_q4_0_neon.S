// void gemv_q4_0_neon(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q4_0 at a time by one vector of per-32 activation records: out[8 * groups] floats.
// Needs: nothing beyond Armv8.0. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// SMULL and SMULL2 take two rows by four k each, times those four activations twice. All eight
// products of a lane fit into an i16 (8 * 8 * 127 = 8128), and so does a sum of two lanes.
// A record's float work is done at the head of the next record, beside the loads of that one's
// first vectors.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 dot products | v4 v5 activations, four k
// four times | s6 activation scale | v16 v17, v18 v19 weight vectors | v20 v21 low nibbles
// v22-v25 i16 sums, four parts of each of two rows | v26 v27 scales
// x5 activations of this record | x6 records left | x7 x8 upper halves of weight vectors
// x9 x10 next activations of the low, the high nibbles
//
// budget: 71 cycles a record (cortex-a55)
    .pushsection .text.gemv_q4_0_neon, "ax", %progbits
    .p2align 6
    .global gemv_q4_0_neon
    .hidden gemv_q4_0_neon
    .type   gemv_q4_0_neon, %function

// Four k of the low and four of the high nibbles of v\w0 and v\w1; \mul is SMULL for the first four
// and then SMLAL. The next two vectors, at \next, are loaded into v\n0 and v\n1 beside them.
    .macro step mul, w0, w1, n0, n1, next
    shl     v20.16b, v\w0\().16b, #4        ; ldr     x7, [x0, #\next + 8]
    shl     v21.16b, v\w1\().16b, #4        ; ldr     x8, [x0, #\next + 24]
    sshr    v20.16b, v20.16b, #4            ; ldr     d\n0, [x0, #\next]
    sshr    v21.16b, v21.16b, #4            ; ldr     d\n1, [x0, #\next + 16]
    \mul    v22.8h, v20.8b, v4.8b           ; ins     v\n0\().d[1], x7
    \mul\()2 v23.8h, v20.16b, v4.16b        ; ins     v\n1\().d[1], x8
    \mul    v24.8h, v21.8b, v4.8b
    \mul\()2 v25.8h, v21.16b, v4.16b        ; ld1r    {v4.4s}, [x9], #4
    sshr    v\w0\().16b, v\w0\().16b, #4
    sshr    v\w1\().16b, v\w1\().16b, #4
    smlal   v22.8h, v\w0\().8b, v5.8b
    smlal2  v23.8h, v\w0\().16b, v5.16b
    smlal   v24.8h, v\w1\().8b, v5.8b       ; prfm    pldl1keep, [x0, #\next * 5 / 4 + 2048]
    smlal2  v25.8h, v\w1\().16b, v5.16b     ; ld1r    {v5.4s}, [x10], #4
    .endm

gemv_q4_0_neon:
    cbz     x1, 3f

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0
    movi    v6.4s, #0                       // the record before the first adds nothing
    .irp    n, 22, 23, 24, 25, 26, 27
    movi    v\n\().4s, #0
    .endr

2:  fcvtl   v26.4s, v26.4h                  ; ldr     x7, [x0, #8]
    addp    v22.8h, v22.8h, v23.8h          ; ldr     x8, [x0, #24]
    fcvtl   v27.4s, v27.4h                  ; ldr     d16, [x0]
    addp    v24.8h, v24.8h, v25.8h          ; ldr     d17, [x0, #16]
    saddlp  v2.4s, v22.8h                   ; ins     v16.d[1], x7
    fmul    v26.4s, v26.4s, v6.s[0]         ; ins     v17.d[1], x8
    saddlp  v3.4s, v24.8h                   ; mov     x9, x5
    scvtf   v2.4s, v2.4s                    ; ld1r    {v4.4s}, [x9], #4
    fmul    v27.4s, v27.4s, v6.s[0]         ; add     x10, x5, #16
    scvtf   v3.4s, v3.4s                    ; ld1r    {v5.4s}, [x10], #4
    subs    x6, x6, #1                      ; ldr     s6, [x5, #32]
    fmla    v0.4s, v2.4s, v26.4s            ; add     x5, x5, #48
    ldr     d26, [x0, #128]
    fmla    v1.4s, v3.4s, v27.4s            ; ldr     d27, [x0, #136]

    step    smull, 16, 17, 18, 19, 32
    step    smlal, 18, 19, 16, 17, 64
    step    smlal, 16, 17, 18, 19, 96
    step    smlal, 18, 19, 16, 17, 0        // nothing follows: loads what is not used
    add     x0, x0, #144
    b.ne    2b

    fcvtl   v26.4s, v26.4h                  // the last record of the group
    fcvtl   v27.4s, v27.4h
    addp    v22.8h, v22.8h, v23.8h
    addp    v24.8h, v24.8h, v25.8h
    fmul    v26.4s, v26.4s, v6.s[0]
    fmul    v27.4s, v27.4s, v6.s[0]
    saddlp  v2.4s, v22.8h
    saddlp  v3.4s, v24.8h
    scvtf   v2.4s, v2.4s
    scvtf   v3.4s, v3.4s
    fmla    v0.4s, v2.4s, v26.4s
    fmla    v1.4s, v3.4s, v27.4s
    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q4_0_neon, . - gemv_q4_0_neon
    .popsection
    .purgem step
