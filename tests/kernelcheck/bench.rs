//! Times kernels: medians, with the matrix in the L2 cache and with one that no cache holds.
#![allow(unsafe_code)] // calls kernels, as their contract allows

use crate::inputs::{Activations, Integers, Rng, Scales, gguf_blocks};
use crate::options::Options;
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::{pack_group, unpack_row};
use kernels_asm::registry::{Gemm, Gemv, Kernel, Operation};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Columns of every matrix: a model's width, and a whole number of blocks of every format.
const COLUMNS: usize = 2048;
/// Bytes of the matrix that stays in a core's L2 cache, even on small machines.
const WARM_BYTES: usize = 256 << 10;
/// Rows that one call computes: about what a thread gets of a layer's matrix.
const ROWS_PER_CALL: usize = 1024;

/// Vectors that a GEMM is timed with: a batch of a prompt.
const TOKENS: usize = 64;

/// Prints a line for each GEMV, beside what a plain read of the same memory reaches, and one for
/// each GEMM, with the time for a weight and a vector.
pub fn run(kernels: impl Iterator<Item = &'static Kernel>, options: &Options) {
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "", "ns/weight", "GB/s", "GB/s", "GB/s", ""
    );
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "", "warm", "warm", "cold", "read", "share"
    );
    for kernel in kernels {
        let (format, gemv) = match kernel.operation {
            Operation::Gemv(format, gemv) => (format, gemv),
            Operation::Gemm(format, gemm) => {
                let ns_per_weight = time_gemm(format, gemm, options);
                println!("{:24} {ns_per_weight:9.4}", kernel.name);
                continue;
            }
            Operation::Vector(_) => continue,
        };
        let mut rng = Rng(options.seed);
        let input = Input::new(&mut rng, format);
        let warm_groups = (WARM_BYTES / input.group.len()).max(1);
        let warm = input.matrix(warm_groups);
        let seconds = median(41, 64, || input.call(gemv, &warm));
        let ns_per_weight = seconds * 1e9 / (warm_groups * 8 * COLUMNS) as f64;
        let warm_speed = warm.len() as f64 / seconds / 1e9;

        let cold = input.matrix((options.cold_mib << 20) / input.group.len());
        // The two take turns, so that a change in the machine meets both.
        let (mut kernel_times, mut read_times) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            kernel_times.push(time(|| input.call(gemv, &cold)));
            read_times.push(time(|| read(&cold)));
        }
        let speed = |times: &mut [f64]| cold.len() as f64 / middle(times) / 1e9;
        let (cold_speed, read_speed) = (speed(&mut kernel_times), speed(&mut read_times));
        println!(
            "{:24} {ns_per_weight:9.4} {warm_speed:9.2} {cold_speed:9.2} {read_speed:9.2} {:6.2}",
            kernel.name,
            cold_speed / read_speed
        );
    }
}

/// The time of a GEMM for a weight and a vector, with the matrix in the L2 cache.
fn time_gemm(format: WeightFormat, gemm: Gemm, options: &Options) -> f64 {
    let input = Input::new(&mut Rng(options.seed), format);
    let groups = (WARM_BYTES / input.group.len()).next_multiple_of(2);
    let matrix = input.matrix(groups);
    let activations = input.activations.repeat(TOKENS);
    let mut out = vec![0.0; TOKENS * 8 * groups];
    let (records, stride) = (COLUMNS / format.block_len(), input.activations.len());
    let seconds = median(11, 4, || {
        let (weights, x, out) = (matrix.as_ptr(), activations.as_ptr(), out.as_mut_ptr());
        // SAFETY: the caller benches only kernels that this CPU has the features for; the buffers
        // are as long as `groups`, `records` and `TOKENS` make them.
        unsafe {
            #[rustfmt::skip] // as the type has them
            gemm(weights, groups, records, x, stride, TOKENS, out, 8 * groups);
        }
    });
    black_box(&out);
    seconds * 1e9 / (TOKENS * groups * 8 * COLUMNS) as f64
}

/// Prints how fast GGUF rows are packed, in bytes of the file, and unpacked, in floats.
pub fn run_packing(options: &Options) {
    println!("{:24} {:>9} {:>9}", "", "MB/s", "Mfloat/s");
    for format in WeightFormat::ALL
        .into_iter()
        .filter(|format| options.names(format.name()))
    {
        let mut rng = Rng(options.seed);
        let blocks = COLUMNS / format.block_len();
        let rows = rows(&mut rng, format);
        let mut group = vec![0; format.group_bytes(COLUMNS)];
        let rows = rows.each_ref().map(|row| Some(row.as_slice()));
        let seconds = median(41, 64, || {
            pack_group(format, rows, COLUMNS, black_box(&mut group))
        });
        let pack = (8 * blocks * format.block_bytes()) as f64 / seconds / 1e6;
        let mut floats = vec![0.0; COLUMNS];
        let seconds = median(41, 64, || {
            unpack_row(format, &group, 3, COLUMNS, black_box(&mut floats))
        });
        let unpack = COLUMNS as f64 / seconds / 1e6;
        println!(
            "{:24} {pack:9.0} {unpack:9.0}",
            format!("pack {}", format.name())
        );
    }
}

/// Eight rows of random blocks.
fn rows(rng: &mut Rng, format: WeightFormat) -> [Vec<u8>; 8] {
    let blocks = COLUMNS / format.block_len();
    let (integers, scales) = (Integers::Random, Scales::Ordinary);
    std::array::from_fn(|_| gguf_blocks(rng, format, blocks, integers, scales))
}

/// One packed group, to be repeated, and a vector for it.
struct Input {
    format: WeightFormat,
    group: Vec<u8>,
    activations: Vec<u8>,
}

impl Input {
    fn new(rng: &mut Rng, format: WeightFormat) -> Self {
        let (integers, scales) = (Integers::Random, Scales::Ordinary);
        let rows = rows(rng, format);
        let mut group = vec![0; format.group_bytes(COLUMNS)];
        let rows = rows.each_ref().map(|row| Some(row.as_slice()));
        pack_group(format, rows, COLUMNS, &mut group);
        let activations = Activations::new(rng, format.activation(), COLUMNS, integers, scales);
        let activations = activations.records(format.activation());
        Self {
            format,
            group,
            activations,
        }
    }

    fn matrix(&self, groups: usize) -> Vec<u8> {
        self.group.repeat(groups)
    }

    /// The product of the whole matrix, a layer's worth of rows at a time.
    fn call(&self, gemv: Gemv, matrix: &[u8]) {
        let mut out = [0.0; ROWS_PER_CALL];
        let records = COLUMNS / self.format.block_len();
        for rows in matrix.chunks(self.group.len() * ROWS_PER_CALL / 8) {
            let groups = rows.len() / self.group.len();
            let (x, out) = (self.activations.as_ptr(), out.as_mut_ptr());
            // SAFETY: the caller benches only kernels that this CPU has the features for;
            // `rows` is whole groups of `records` records, and `out` has room for a chunk's.
            unsafe { gemv(rows.as_ptr(), groups, records, x, out) };
        }
        black_box(out);
    }
}

/// The fastest way to look at every byte that plain code has.
fn read(bytes: &[u8]) {
    let (words, _) = bytes.as_chunks::<8>();
    let mut sums = [0_u64; 16];
    for words in words.chunks_exact(16) {
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    black_box(sums);
}

fn time(run: impl FnOnce()) -> f64 {
    let start = cpu_seconds();
    run();
    cpu_seconds() - start
}

/// What this thread has used of a CPU: other programs may take turns without being counted.
fn cpu_seconds() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is where the system may write the time that it is asked for.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(result, 0, "clock_gettime");
    // SAFETY: the call succeeded, so it wrote it.
    let time = unsafe { time.assume_init() };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of so many samples of `runs` runs, each of which is long against the clock's own cost.
fn median(samples: usize, runs: usize, mut run: impl FnMut()) -> f64 {
    let mut sample = || time(|| (0..runs).for_each(|_| run())) / runs as f64;
    middle(&mut (0..samples).map(|_| sample()).collect::<Vec<_>>())
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
