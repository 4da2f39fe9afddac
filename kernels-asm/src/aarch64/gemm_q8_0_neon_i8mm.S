// void gemm_q8_0_neon_i8mm(...), see gemm.inc
// Eight rows of Q8_0 by four vectors of per-32 activation records at a time.
// Needs: FEAT_I8MM and, for one or two vectors, FEAT_DotProd. Precondition: records >= 1.
// No alignment. Reads nothing outside the records.
//
// Two vectors of weights are zipped, so that each row has eight k, for four vectors.
//
// Registers, the order of gemm_i8mm.inc: v0-v7 float sums | v8-v15 dot products
// v16-v19 activations of vectors 0 1, eight k each | v20-v23 of vectors 2 3
// v24-v27 weights | x0 weights of this record | x6 records left
// x9-x12 activations of this record
//
// No model of a core with SMMLA is at hand. Vector operations per record and four vectors: 88, and
// 8 that clear registers; with SDOT 90.
    .arch_extension i8mm
    .pushsection .text.gemm_q8_0_neon_i8mm, "ax", %progbits
    .p2align 6

// Rows 4 * \h to 4 * \h + 3, the eight k at \at, by the activations v\t01 v\t23.
    .macro weights h, at, t01, t23
    ldr     q24, [x0, #\at + 16 * \h]
    ldr     q25, [x0, #\at + 16 * \h + 32]
    pair_rows 26, 27, 24, 25
    multiply \h, 26, 27, \t01, \t23
    .endm

    gemm    gemm_q8_0_neon_i8mm, 5f, gemv_q8_0_neon_dotprod, 272

5:  zero_sums
6:  zero_products
    pair_activations x9, x10, 0, 16, 17, 18, 19
    pair_activations x11, x12, 0, 20, 21, 22, 23
    .irp    h, 0, 1
    weights \h, 0, 16, 20
    weights \h, 64, 17, 21
    weights \h, 128, 18, 22
    weights \h, 192, 19, 23
    .endr
    end_block 256, 0
    add     x0, x0, #272
    .irp    x, 9, 10, 11, 12
    add     x\x, x\x, #48
    .endr
    subs    x6, x6, #1
    b.ne    6b
    sort_sums
    ret
    .size   gemm_q8_0_neon_i8mm, . - gemm_q8_0_neon_i8mm
    .popsection
    .purgem weights
    purge_i8mm
    .purgem purge_i8mm
    .arch_extension noi8mm
