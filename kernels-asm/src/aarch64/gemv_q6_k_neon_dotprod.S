// void gemv_q6_k_neon_dotprod(weights x0, groups x1, records x2, activations x3, out x4)
// Eight rows of Q6_K at a time by one vector of per-256 activation records: out[8 * groups] floats.
// Needs: FEAT_DotProd. Precondition: records >= 1. No alignment.
// Reads nothing outside the records. Leaf; touches no callee-saved register.
//
// Weights are used as 4 * q, as they lie (AND #0xfc); the fourth of each k is put together from
// the low two bits of three bytes (SLI, SLI, SHL). SCVTF #2 undoes the factor exactly:
// 16 * 128 * 16 * 128 * 128 = 5.4e8 bounds A, so it stays an exact int32.
//
// Dot products are not cleared for each sub-block but run on, S_j = D_0 + ... + D_j. So a sub-block
// counts with the difference of its scale to the next: A = sum of (s_j - s_(j+1)) * S_j, s_16 = 0.
// That is the sum of s_j * D_j, modulo 2^32 all the way. SSUBL widens and subtracts in one.
//
// Registers: v0 v1 float sums of rows 0-3 and 4-7 | v2 v3 S | v4 v5 activations of two sub-blocks
// v6 v7 A, t; v5 activation scale | v16-v21, v22-v27 bytes 0-2 of two sub-blocks, by rows 0-3 and
// 4-7, then the fourth weight in the last two, scales in the first three; d | v28 weights
// v29 scale bytes of two sub-blocks | v30 those of the next | v31 mask
// x5 activations of this record | x6 records left | x7 weights of this record
//
// budget: 962 cycles a record (cortex-a55)
    .arch_extension dotprod
    .pushsection .text.gemv_q6_k_neon_dotprod, "ax", %progbits
    .p2align 6
    .global gemv_q6_k_neon_dotprod
    .hidden gemv_q6_k_neon_dotprod
    .type   gemv_q6_k_neon_dotprod, %function

// The four k of each lane of four rows, bytes v\b0 v\b1 v\b2 by activations v\x, into v\sum.
    .macro rows sum, x, b0, b1, b2
    and     v28.16b, v\b0\().16b, v31.16b
    sdot    v\sum\().4s, v28.16b, v\x\().4b[0]
    and     v28.16b, v\b1\().16b, v31.16b
    sdot    v\sum\().4s, v28.16b, v\x\().4b[1]
    and     v28.16b, v\b2\().16b, v31.16b
    sdot    v\sum\().4s, v28.16b, v\x\().4b[2]
    sli     v\b2\().16b, v\b1\().16b, #2
    sli     v\b2\().16b, v\b0\().16b, #4
    shl     v\b2\().16b, v\b2\().16b, #2
    sdot    v\sum\().4s, v\b2\().16b, v\x\().4b[3]
    .endm

// A += difference of scales * S; the differences are v16.
    .macro scaled
    sxtl    v17.4s, v16.4h
    sxtl2   v18.4s, v16.8h
    mla     v6.4s, v2.4s, v17.4s
    mla     v7.4s, v3.4s, v18.4s
    .endm

// Sub-blocks \j and \j + 1; \next, q or d, are the scales behind the first's.
    .macro two_sub_blocks j, next = q
    ldp     q4, q5, [x5], #32
    ld1     {v16.16b-v19.16b}, [x7], #64
    ld1     {v20.16b-v23.16b}, [x7], #64
    ld1     {v24.16b-v27.16b}, [x7], #64
    prfm    pldl1keep, [x0, #96 * \j + 1024]
    prfm    pldl1keep, [x0, #96 * \j + 1088]
    prfm    pldl1keep, [x0, #96 * \j + 1152]
    ldr     q29, [x0, #8 * \j]
    ldr     \next\()30, [x0, #8 * \j + 8]
    rows    2, 4, 16, 18, 20
    rows    3, 4, 17, 19, 21
    ssubl   v16.8h, v29.8b, v30.8b
    scaled
    rows    2, 5, 22, 24, 26
    rows    3, 5, 23, 25, 27
    ssubl2  v16.8h, v29.16b, v30.16b
    scaled
    .endm

gemv_q6_k_neon_dotprod:
    cbz     x1, 3f
    movi    v31.16b, #0xfc

1:  mov     x5, x3
    mov     x6, x2
    movi    v0.4s, #0
    movi    v1.4s, #0

2:  add     x7, x0, #144
    movi    v2.4s, #0
    movi    v3.4s, #0
    movi    v6.4s, #0
    movi    v7.4s, #0
    .irp    j, 0, 2, 4, 6, 8, 10, 12
    two_sub_blocks \j
    .endr
    two_sub_blocks 14, d                    // s_16 = 0
    prfm    pldl1keep, [x0, #2560]
    prfm    pldl1keep, [x0, #2624]
    prfm    pldl1keep, [x0, #2688]

// sum += activation scale * (d * A)
    ldr     q20, [x0, #128]                 // d
    ldp     q4, q5, [x5], #80               // activation sums, which are not needed; scale
    fcvtl2  v21.4s, v20.8h
    fcvtl   v20.4s, v20.4h
    scvtf   v6.4s, v6.4s, #2                // t = A
    scvtf   v7.4s, v7.4s, #2
    fmul    v6.4s, v6.4s, v20.4s
    fmul    v7.4s, v7.4s, v21.4s
    fmla    v0.4s, v6.4s, v5.s[0]
    fmla    v1.4s, v7.4s, v5.s[0]
    mov     x0, x7
    subs    x6, x6, #1
    b.ne    2b

    stp     q0, q1, [x4], #32
    subs    x1, x1, #1
    b.ne    1b
3:  ret
    .size   gemv_q6_k_neon_dotprod, . - gemv_q6_k_neon_dotprod
    .popsection
    .purgem two_sub_blocks
    .purgem scaled
    .purgem rows
    .arch_extension nodotprod
