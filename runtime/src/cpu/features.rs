//! Instruction-set features: CPUID on x86-64, the auxiliary vector on 64-bit Arm.

#[cfg(target_arch = "aarch64")]
use crate::sys;
use kernels_asm::features::Features;

/// The features of this processor that kernels may ask for.
#[cfg(target_arch = "x86_64")]
pub fn features() -> Features {
    use core::arch::x86_64::__cpuid_count;
    let bit = |register: u32, bit: u32| register >> bit & 1 == 1;
    if __cpuid_count(0, 0).eax < 7 {
        return Features::SSE2;
    }
    let (base, extended) = (__cpuid_count(1, 0), __cpuid_count(7, 0));
    let (more, osxsave) = (__cpuid_count(7, 1), bit(base.ecx, 27));
    // XCR0 says which registers the operating system saves: bits 1, 2 for AVX; 5, 6, 7 for AVX-512.
    let saved = if osxsave {
        extended_control_register()
    } else {
        0
    };
    let (ymm, zmm) = (saved & 0x06 == 0x06, saved & 0xe6 == 0xe6);
    let mut found = Features::SSE2;
    if ymm && bit(base.ecx, 12) && bit(base.ecx, 29) && bit(extended.ebx, 5) {
        found = found.with(Features::AVX2); // with FMA and F16C
        if bit(more.eax, 4) {
            found = found.with(Features::AVX_VNNI);
        }
        let avx512 = bit(extended.ebx, 16) && bit(extended.ebx, 30) && bit(extended.ebx, 31);
        if zmm && avx512 && bit(extended.ecx, 11) {
            found = found.with(Features::AVX512_VNNI);
        }
    }
    found
}

/// XCR0. Only where CPUID says OSXSAVE.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // one instruction that the intrinsics put behind a target feature
fn extended_control_register() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller has seen OSXSAVE, so XGETBV exists; it reads a register.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The features of this processor that kernels may ask for.
#[cfg(target_arch = "aarch64")]
pub fn features() -> Features {
    // Linux, arch/arm64/include/uapi/asm/hwcap.h; the auxiliary vector's keys, include/uapi/linux.
    const AT_HWCAP: u64 = 16;
    const AT_HWCAP2: u64 = 26;
    const HWCAP_ASIMD: u64 = 1 << 1;
    const HWCAP_ASIMDDP: u64 = 1 << 20;
    const HWCAP2_I8MM: u64 = 1 << 13;
    let (first, second) = (sys::auxiliary(AT_HWCAP), sys::auxiliary(AT_HWCAP2));
    let mut found = Features::NONE;
    for (set, feature) in [
        (first & HWCAP_ASIMD, Features::NEON),
        (first & HWCAP_ASIMDDP, Features::DOTPROD),
        (second & HWCAP2_I8MM, Features::I8MM),
    ] {
        if set != 0 {
            found = found.with(feature);
        }
    }
    found
}

/// The features of this processor that kernels may ask for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn features() -> Features {
    Features::NONE
}
