//! Times kernels: medians, with the matrix in the L2 cache and with one that no cache holds.
#![allow(unsafe_code)] // calls kernels, as their contract allows

use crate::inputs::{Activations, gguf_blocks};
use crate::options::Options;
use kernels_asm::features::Isa;
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::{pack_group, unpack_row};
use kernels_asm::registry::{Gemm, Gemv, Kernel, Operation};
use kernels_asm::samples::{Integers, Rng, Scales};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Columns of a warm matrix: a model's width, and a whole number of blocks of every format.
const COLUMNS: usize = 2048;
/// Bytes of the matrix that stays in a core's L2 cache, even on small machines.
const WARM_BYTES: usize = 256 << 10;
/// Rows and columns of TinyLlama's matrices: keys and values, queries and attention's output, gate
/// and up, down, vocabulary.
const SHAPES: [[usize; 2]; 5] = [
    [256, 2048],
    [2048, 2048],
    [5632, 2048],
    [2048, 5632],
    [32000, 2048],
];
/// Vectors that a GEMM is timed with: a batch of a prompt.
const TOKENS: usize = 64;
/// Rounds that the cold figures are the medians of.
const ROUNDS: usize = 9;

/// Prints a line for each GEMV, beside what a plain read of the same memory reaches. Everything of
/// one format takes turns, so that a change in the machine meets all of it.
pub fn run(kernels: &[&'static Kernel], options: &Options) {
    print!("{:34} {:>9} {:>6} cold:", "", "warm ns", "warm");
    for [rows, columns] in SHAPES {
        print!(" {:>10}", format!("{rows}x{columns}"));
    }
    println!(" {:>6}", "mean");
    println!("{:34} {:>9} {:>6}  GB/s", "", "/ weight", "GB/s");
    for kernel in kernels {
        if let Operation::Gemm(format, gemm) = kernel.operation {
            let ns_per_weight = time_gemm(format, gemm, options);
            println!(
                "{:34} {ns_per_weight:9.4}  a weight and vector",
                kernel.name
            );
        }
    }
    for format in WeightFormat::ALL {
        let of_format = |kernel: &&'static Kernel| match kernel.operation {
            Operation::Gemv(of, gemv) if of == format => Some((kernel.name, kernel.isa, gemv)),
            _ => None,
        };
        let gemvs: Vec<_> = kernels.iter().filter_map(of_format).collect();
        if !gemvs.is_empty() {
            run_format(format, &gemvs, options);
        }
    }
}

/// The lines of the GEMVs of one format.
fn run_format(format: WeightFormat, gemvs: &[(&str, Isa, Gemv)], options: &Options) {
    let input = Input::new(&mut Rng(options.seed), format, COLUMNS);
    let groups = (WARM_BYTES / input.group.len()).max(1);
    let matrix = input.group.repeat(groups);
    let once = |i: usize| repeated(64, || input.call(gemvs[i].2, &matrix, groups));
    let warm = medians(41, once, gemvs.len());

    // The reference, which is a definition, would take minutes.
    let fast: Vec<_> = gemvs
        .iter()
        .filter(|(_, isa, _)| *isa != Isa::Reference)
        .collect();
    let cold = SHAPES.map(|[rows, columns]| {
        let input = Input::new(&mut Rng(options.seed), format, columns);
        let groups = rows / 8;
        let matrices = ((options.cold_mib << 20) / (groups * input.group.len())).max(1);
        let memory = input.group.repeat(matrices * groups);
        let once = |i: usize| match fast.get(i) {
            Some((.., gemv)) => time(|| input.call(*gemv, &memory, groups)),
            None => time(|| read(&memory)),
        };
        let seconds = match fast.len() {
            0 => vec![],
            count => medians(ROUNDS, once, count + 1),
        };
        seconds
            .into_iter()
            .map(move |s| memory.len() as f64 / s / 1e9)
            .collect::<Vec<_>>()
    });

    let mut place = 0;
    for (&(name, isa, _), seconds) in gemvs.iter().zip(&warm) {
        let weight = seconds * 1e9 / (groups * 8 * COLUMNS) as f64;
        print!(
            "{name:34} {weight:9.4} {:6.2}      ",
            matrix.len() as f64 / seconds / 1e9
        );
        if isa != Isa::Reference {
            print_speeds(&cold, place);
            place += 1;
        } else {
            println!();
        }
    }
    if !fast.is_empty() {
        print!("{:56}", format!("{} read", format.name()));
        print_speeds(&cold, place);
    }
}

/// The speed at each shape, and their mean.
fn print_speeds(cold: &[Vec<f64>; SHAPES.len()], place: usize) {
    let speeds = cold.each_ref().map(|speeds| speeds[place]);
    for speed in speeds {
        print!(" {speed:10.2}");
    }
    println!(" {:6.2}", speeds.iter().sum::<f64>() / SHAPES.len() as f64);
}

/// The time of a GEMM for a weight and a vector, with the matrix in the L2 cache.
fn time_gemm(format: WeightFormat, gemm: Gemm, options: &Options) -> f64 {
    let input = Input::new(&mut Rng(options.seed), format, COLUMNS);
    let groups = (WARM_BYTES / input.group.len()).next_multiple_of(2);
    let matrix = input.group.repeat(groups);
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
    println!("{:34} {:>9} {:>9}", "", "MB/s", "Mfloat/s");
    for format in WeightFormat::ALL
        .into_iter()
        .filter(|format| options.names(format.name()))
    {
        let mut rng = Rng(options.seed);
        let blocks = COLUMNS / format.block_len();
        let rows = rows(&mut rng, format, COLUMNS);
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
            "{:34} {pack:9.0} {unpack:9.0}",
            format!("pack {}", format.name())
        );
    }
}

/// Eight rows of random blocks.
fn rows(rng: &mut Rng, format: WeightFormat, columns: usize) -> [Vec<u8>; 8] {
    let blocks = columns / format.block_len();
    let (integers, scales) = (Integers::Random, Scales::Ordinary);
    std::array::from_fn(|_| gguf_blocks(rng, format, blocks, integers, scales))
}

/// One packed group, to be repeated, and a vector for it.
struct Input {
    records: usize,
    group: Vec<u8>,
    activations: Vec<u8>,
}

impl Input {
    fn new(rng: &mut Rng, format: WeightFormat, columns: usize) -> Self {
        let (integers, scales) = (Integers::Random, Scales::Ordinary);
        let rows = rows(rng, format, columns);
        let mut group = vec![0; format.group_bytes(columns)];
        let rows = rows.each_ref().map(|row| Some(row.as_slice()));
        pack_group(format, rows, columns, &mut group);
        let activations = Activations::new(rng, format.activation(), columns, integers, scales);
        let activations = activations.records(format.activation());
        Self {
            records: columns / format.block_len(),
            group,
            activations,
        }
    }

    /// The products of all matrices of `groups` groups that `memory` is.
    fn call(&self, gemv: Gemv, memory: &[u8], groups: usize) {
        let mut out = vec![0.0; 8 * groups];
        for matrix in memory.chunks_exact(groups * self.group.len()) {
            let (x, out) = (self.activations.as_ptr(), out.as_mut_ptr());
            // SAFETY: the caller benches only kernels that this CPU has the features for;
            // `matrix` is whole groups of `records` records, and `out` has room for them.
            unsafe { gemv(matrix.as_ptr(), groups, self.records, x, out) };
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

/// Seconds of a run, from so many of them that the clock's own cost is little.
fn repeated(runs: usize, mut run: impl FnMut()) -> f64 {
    time(|| (0..runs).for_each(|_| run())) / runs as f64
}

fn median(samples: usize, runs: usize, mut run: impl FnMut()) -> f64 {
    let sample = |_| repeated(runs, &mut run);
    middle(&mut (0..samples).map(sample).collect::<Vec<_>>())
}

/// The medians of what `sample` has for each number below `count`, which take turns.
fn medians(samples: usize, sample: impl Fn(usize) -> f64, count: usize) -> Vec<f64> {
    let mut times = vec![vec![]; count];
    for _ in 0..samples {
        for (i, times) in times.iter_mut().enumerate() {
            times.push(sample(i));
        }
    }
    times.iter_mut().map(|times| middle(times)).collect()
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
