// The AAPCS64 call: x19-x28, the frame pointer, d8-d15, the stack and fpcr are the caller's;
// everything else may change. See trampoline.rs.
//
// Junk is 0x6b65726e656c0000 + a number for each register.

.macro kernelcheck_junk register, number
    mov     \register, #\number
    movk    \register, #0x656c, lsl #16
    movk    \register, #0x726e, lsl #32
    movk    \register, #0x6b65, lsl #48
.endm

// Adds bit \bit to w0 if \register is not its junk.
.macro kernelcheck_expect register, number, bit
    kernelcheck_junk x9, \number
    cmp     \register, x9
    cset    w10, ne
    orr     w0, w0, w10, lsl #\bit
.endm

.text
.p2align 4
.globl kernelcheck_call
kernelcheck_call:
    stp     x29, x30, [sp, #-192]!
    mov     x29, sp
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mrs     x9, fpcr
    kernelcheck_junk x10, 18
    stp     x9, x10, [sp, #160]
    str     x10, [sp, #176]

    mov     x16, x0             // the kernel; the arguments come from memory
    mov     x17, x1
    ldp     x0, x1, [x17]
    ldp     x2, x3, [x17, #16]
    ldp     x4, x5, [x17, #32]
    ldp     x6, x7, [x17, #48]

.irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
    kernelcheck_junk x\n, \n
.endr
.irp n, 8, 9, 10, 11, 12, 13, 14, 15
    kernelcheck_junk x9, \n
    fmov    d\n, x9
.endr
    kernelcheck_junk x8, 8
.irp n, 9, 10, 11, 12, 13, 14, 15, 17
    mov     x\n, x8
.endr
.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    dup     v\n\().2d, x8
.endr
    blr     x16

    mov     w0, #0
    kernelcheck_expect x19, 19, 0
    kernelcheck_expect x20, 20, 1
    kernelcheck_expect x21, 21, 2
    kernelcheck_expect x22, 22, 3
    kernelcheck_expect x23, 23, 4
    kernelcheck_expect x24, 24, 5
    kernelcheck_expect x25, 25, 6
    kernelcheck_expect x26, 26, 7
    kernelcheck_expect x27, 27, 8
    kernelcheck_expect x28, 28, 9
.irp n, 8, 9, 10, 11, 12, 13, 14, 15
    fmov    x11, d\n
    kernelcheck_expect x11, \n, 2 + \n
.endr
    ldr     x11, [sp, #168]
    kernelcheck_expect x11, 18, 18
    ldr     x11, [sp, #176]
    kernelcheck_expect x11, 18, 18
    mrs     x9, fpcr
    ldr     x11, [sp, #160]
    cmp     x9, x11
    cset    w10, ne
    orr     w0, w0, w10, lsl #19

    ldp     d14, d15, [sp, #144]
    ldp     d12, d13, [sp, #128]
    ldp     d10, d11, [sp, #112]
    ldp     d8, d9, [sp, #96]
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #192
    ret
