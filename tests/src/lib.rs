//! What the tests share: where the models are, how the binary is run.

use kernels_asm::features::Features;

/// The features of this CPU, as the standard library detects them.
pub fn detected_features() -> Features {
    let mut have = Features::NONE;
    let mut note = |detected: bool, feature: Features| {
        if detected {
            have = have.with(feature);
        }
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as detected;
        let avx2 = detected!("avx2") && detected!("fma") && detected!("f16c");
        note(avx2, Features::AVX2);
        note(detected!("avxvnni"), Features::AVX_VNNI);
        let avx512 = detected!("avx512f") && detected!("avx512bw") && detected!("avx512vl");
        note(avx512 && detected!("avx512vnni"), Features::AVX512_VNNI);
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected as detected;
        note(true, Features::NEON);
        note(detected!("dotprod"), Features::DOTPROD);
        note(detected!("i8mm"), Features::I8MM);
    }
    have
}
