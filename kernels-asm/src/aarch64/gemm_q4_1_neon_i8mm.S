// void gemm_q4_1_neon_i8mm(...), see gemm.inc
// Eight rows of Q4_1 by four vectors of per-32 activation records at a time.
// Needs: FEAT_I8MM and, for one or two vectors, FEAT_DotProd. Precondition: records >= 1.
// No alignment. Reads nothing outside the records.
//
// Two nibble vectors are zipped, so that each row has eight low and eight high k, and unpacked once
// for four vectors. sum = fma(dot, d * da, sum), then sum = fma(m, da * sum of activations, sum).
//
// Registers, the order of gemm_i8mm.inc: v0-v7 float sums | v8-v15 dot products
// v16-v19 activations of vectors 0 1, eight k each | v20-v23 of vectors 2 3
// v24-v27 weights | v28 mask | x0 weights of this record | x6 records left
// x9-x12 activations of this record
//
// No model of a core with SMMLA is at hand. Vector operations per record and four vectors: 112, and
// 8 that clear registers; with SDOT 116.
    .arch_extension i8mm
    .pushsection .text.gemm_q4_1_neon_i8mm, "ax", %progbits
    .p2align 6

// Rows 4 * \h to 4 * \h + 3, the eight low and the eight high k at \at, by the activations v\l01
// v\l23 of the low ones and v\h01 v\h23 of the high ones.
    .macro nibbles h, at, l01, h01, l23, h23
    ldr     q24, [x0, #\at + 16 * \h]
    ldr     q25, [x0, #\at + 16 * \h + 32]
    pair_rows 26, 27, 24, 25
    and     v24.16b, v26.16b, v28.16b
    and     v25.16b, v27.16b, v28.16b
    multiply \h, 24, 25, \l01, \l23
    ushr    v26.16b, v26.16b, #4
    ushr    v27.16b, v27.16b, #4
    multiply \h, 26, 27, \h01, \h23
    .endm

    gemm    gemm_q4_1_neon_i8mm, 5f, gemv_q4_1_neon_dotprod, 160

5:  movi    v28.16b, #0x0f
    zero_sums
6:  zero_products
    pair_activations x9, x10, 0, 16, 17, 18, 19
    pair_activations x11, x12, 0, 20, 21, 22, 23
    .irp    h, 0, 1
    nibbles \h, 0, 16, 18, 20, 22
    nibbles \h, 64, 17, 19, 21, 23
    .endr
    end_block 128, 0
    row_floats 144, 24, 25, 26, 27
    vector_floats 36, 29, 30
    fmla    v0.4s, v24.4s, v29.4s
    fmla    v1.4s, v25.4s, v29.4s
    fmla    v2.4s, v26.4s, v29.4s
    fmla    v3.4s, v27.4s, v29.4s
    fmla    v4.4s, v24.4s, v30.4s
    fmla    v5.4s, v25.4s, v30.4s
    fmla    v6.4s, v26.4s, v30.4s
    fmla    v7.4s, v27.4s, v30.4s
    add     x0, x0, #160
    .irp    x, 9, 10, 11, 12
    add     x\x, x\x, #48
    .endr
    subs    x6, x6, #1
    b.ne    6b
    sort_sums
    ret
    .size   gemm_q4_1_neon_i8mm, . - gemm_q4_1_neon_i8mm
    .popsection
    .purgem nibbles
    purge_i8mm
    .purgem purge_i8mm
    .arch_extension noi8mm
