// void gemm_q5_k_neon_i8mm(...), see gemm.inc
// Eight rows of Q5_K by four vectors of per-256 activation records at a time.
// Needs: FEAT_I8MM and, for one or two vectors, FEAT_DotProd. Precondition: records >= 1.
// No alignment. Reads nothing outside the records.
//
// Weights are unpacked and zipped, so that each row has eight k, once for four vectors.
//
// Registers, the order of gemm_i8mm.inc: v0-v7 A, t | v8-v15 dot products, M
// v16-v19 activations of vectors 0 1, eight k each | v20-v23 of vectors 2 3
// v24-v27 v30 v31 weights | v28 mask | v29 TBL indices, byte to two lanes
// x0 weights of this record | x6 records left | x9-x12 activations of this record
//
// No model of a core with SMMLA is at hand. Vector operations per record and four vectors: 854, and
// 80 that clear registers; with SDOT 900.
    .arch_extension i8mm
    .pushsection .text.gemm_q5_k_neon_i8mm, "ax", %progbits
    .p2align 6

// Rows 4 * \h to 4 * \h + 3 of 32 k in five bytes for eight, at \at, by v16-v23. The low five bits
// of byte v are u_v, and the high three make up u_5 (bytes 0 1), u_6 (2 3) and u_7 (4 1 3). SRI
// joins the parts at the top of a byte, USHR #3 brings them down. The mask is in v28.
    .macro fives h, at
    ldr     q24, [x0, #\at + 16 * \h]                   // byte 0
    ldr     q25, [x0, #\at + 16 * \h + 32]              // byte 1
    and     v26.16b, v24.16b, v28.16b                   // u_0
    and     v27.16b, v25.16b, v28.16b                   // u_1
    pair_rows 30, 31, 26, 27
    multiply \h, 30, 31, 16, 20
    ldr     q26, [x0, #\at + 16 * \h + 128]             // byte 4
    sri     v24.16b, v25.16b, #3
    shl     v25.16b, v25.16b, #2
    ushr    v24.16b, v24.16b, #3                        // u_5
    and     v27.16b, v26.16b, v28.16b                   // u_4
    pair_rows 30, 31, 27, 24
    multiply \h, 30, 31, 18, 22
    ldr     q24, [x0, #\at + 16 * \h + 64]              // byte 2
    ldr     q27, [x0, #\at + 16 * \h + 96]              // byte 3
    and     v30.16b, v24.16b, v28.16b                   // u_2
    and     v31.16b, v27.16b, v28.16b                   // u_3
    sri     v24.16b, v27.16b, #3
    shl     v27.16b, v27.16b, #2
    ushr    v24.16b, v24.16b, #3                        // u_6
    sri     v25.16b, v27.16b, #1
    sri     v26.16b, v25.16b, #3
    ushr    v26.16b, v26.16b, #3                        // u_7
    pair_rows 25, 27, 30, 31
    multiply \h, 25, 27, 17, 21
    pair_rows 30, 31, 24, 26
    multiply \h, 30, 31, 19, 23
    .endm

// Sub-block \j: A += scale * dot product.
    .macro sub_block j
    zero_products
    pair_activations x9, x10, 32 * \j, 16, 17, 18, 19
    pair_activations x11, x12, 32 * \j, 20, 21, 22, 23
    fives   0, 160 * \j + 160
    fives   1, 160 * \j + 160
    scale_products 8 * \j
    .endm

    gemm    gemm_q5_k_neon_i8mm, 5f, gemv_q5_k_neon_dotprod, 1440

5:  movi    v28.16b, #31
    ldr     q29, 9f
    open_sums
6:  zero_sums
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7
    sub_block \j
    .endr
    end_record_with_minima
    add     x0, x0, #1440
    .irp    x, 9, 10, 11, 12
    add     x\x, x\x, #336
    .endr
    subs    x6, x6, #1
    b.ne    6b
    close_sums
    sort_sums
    ret
    .p2align 4
9:  .byte   0, -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1
    .size   gemm_q5_k_neon_i8mm, . - gemm_q5_k_neon_i8mm
    .popsection
    .purgem fives
    .purgem sub_block
    purge_i8mm
    .purgem purge_i8mm
    .arch_extension noi8mm
