// void gemm_q4_k_neon_i8mm(...), see gemm.inc
// Eight rows of Q4_K by four vectors of per-256 activation records at a time.
// Needs: FEAT_I8MM and, for one or two vectors, FEAT_DotProd. Precondition: records >= 1.
// No alignment. Reads nothing outside the records.
//
// Two nibble vectors are zipped, so that each row has eight low and eight high k, and unpacked once
// for four vectors.
//
// Registers, the order of gemm_i8mm.inc: v0-v7 A, t | v8-v15 dot products, M
// v16-v19 activations of vectors 0 1, eight k each | v20-v23 of vectors 2 3
// v24-v27 weights | v28 mask | v29 TBL indices, byte to two lanes | x0 weights of this record
// x6 records left | x9-x12 activations of this record
//
// No model of a core with SMMLA is at hand. Vector operations per record and four vectors: 694, and
// 80 that clear registers; with SDOT 806.
    .arch_extension i8mm
    .pushsection .text.gemm_q4_k_neon_i8mm, "ax", %progbits
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

// Sub-block \j: A += scale * dot product.
    .macro sub_block j
    zero_products
    pair_activations x9, x10, 32 * \j, 16, 17, 18, 19
    pair_activations x11, x12, 32 * \j, 20, 21, 22, 23
    nibbles 0, 128 * \j + 160, 16, 18, 20, 22
    nibbles 0, 128 * \j + 224, 17, 19, 21, 23
    nibbles 1, 128 * \j + 160, 16, 18, 20, 22
    nibbles 1, 128 * \j + 224, 17, 19, 21, 23
    scale_products 8 * \j
    .endm

    gemm    gemm_q4_k_neon_i8mm, 5f, gemv_q4_k_neon_dotprod, 1184

5:  movi    v28.16b, #0x0f
    ldr     q29, 9f
    open_sums
6:  zero_sums
    .irp    j, 0, 1, 2, 3, 4, 5, 6, 7
    sub_block \j
    .endr
    end_record_with_minima
    add     x0, x0, #1184
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
    .size   gemm_q4_k_neon_i8mm, . - gemm_q4_k_neon_i8mm
    .popsection
    .purgem nibbles
    .purgem sub_block
    purge_i8mm
    .purgem purge_i8mm
    .arch_extension noi8mm
