// The System V AMD64 call: rbx, rbp, r12-r15, the stack, the direction flag and the control bits
// of mxcsr are the caller's; everything else may change. See trampoline.rs.
//
// Junk below is a pattern that no kernel computes by accident, one for each register.

.macro kernelcheck_junk register, number
    mov     \register, 0x6b65726e656c0000 + \number
.endm

// Adds bit \bit to eax if \register is not its junk.
.macro kernelcheck_expect register, number, bit
    kernelcheck_junk rcx, \number
    xor     edx, edx
    cmp     \register, rcx
    setne   dl
    shl     edx, \bit
    or      eax, edx
.endm

.text
.p2align 4
.globl kernelcheck_call
kernelcheck_call:
    push    rbx
    push    rbp
    push    r12
    push    r13
    push    r14
    push    r15
    sub     rsp, 40             // aligns the stack: two arguments, mxcsr and a canary
    stmxcsr [rsp + 16]
    kernelcheck_junk rax, 7
    mov     [rsp + 24], rax

    mov     r11, rdi            // the kernel; the arguments come from memory
    mov     r10, rsi
    mov     rdi, [r10]
    mov     rsi, [r10 + 8]
    mov     rdx, [r10 + 16]
    mov     rcx, [r10 + 24]
    mov     r8, [r10 + 32]
    mov     r9, [r10 + 40]
    mov     rax, [r10 + 48]
    mov     [rsp], rax
    mov     rax, [r10 + 56]
    mov     [rsp + 8], rax

    kernelcheck_junk rbx, 1
    kernelcheck_junk rbp, 2
    kernelcheck_junk r12, 3
    kernelcheck_junk r13, 4
    kernelcheck_junk r14, 5
    kernelcheck_junk r15, 6
    kernelcheck_junk rax, 8
    kernelcheck_junk r10, 9
.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movq    xmm\n, rax
    punpcklqdq xmm\n, xmm\n
.endr
    call    r11

    xor     eax, eax
    kernelcheck_expect rbx, 1, 0
    kernelcheck_expect rbp, 2, 1
    kernelcheck_expect r12, 3, 2
    kernelcheck_expect r13, 4, 3
    kernelcheck_expect r14, 5, 4
    kernelcheck_expect r15, 6, 5
    kernelcheck_expect [rsp + 24], 7, 6
    pushfq
    pop     rdx
    shr     edx, 3              // the direction flag is bit 10; bit 7 is wanted
    and     edx, 1 << 7
    or      eax, edx
    cld
    stmxcsr [rsp + 20]
    mov     edx, [rsp + 16]
    xor     edx, [rsp + 20]
    and     edx, ~0x3f          // the low six bits are sticky exception flags
    mov     ecx, 1 << 8
    cmovz   ecx, edx
    or      eax, ecx

    add     rsp, 40
    pop     r15
    pop     r14
    pop     r13
    pop     r12
    pop     rbp
    pop     rbx
    ret
