//! Models in the shapes of TinyLlama-1.1B-Chat, quantised as llama.cpp does it, with random weights: memory, loading and speed depend on shapes alone, and these files need no download.
//!
//! One is written tensor by tensor as it is made, by all cores, and is the same to the last bit
//! whoever makes it: each row has a generator of its own, and there are only integers and
//! correctly rounded operations from there to the blocks. So it has a checksum, as what is fetched.

mod header;
mod tinyllama;
mod weights;

use std::io::Write;
use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, Result};

pub use self::tinyllama::Mix;
use self::tinyllama::Tensor;

/// What is made before it is written, about, in bytes: enough for the threads not to wait, and
/// little beside what the machine has.
const BATCH_BYTES: usize = 8 << 20;

/// Writes the model of a mix, with the vocabulary of the GGUF file `vocabulary`.
pub fn tinyllama(mix: Mix, vocabulary: &Path, out: &mut impl Write) -> Result<()> {
    let file = fs::read(vocabulary)?;
    let tensors = tinyllama::tensors(mix);
    let header = tinyllama::header(mix, &file, &tensors)
        .with_context(|| format!("in {}", vocabulary.display()))?;
    write(
        &header,
        &tensors,
        thread::available_parallelism()?.get(),
        out,
    )
}

/// Writes the header and then the tensors: the threads make a batch while the one before it is
/// written.
fn write(header: &[u8], tensors: &[Tensor], threads: usize, out: &mut impl Write) -> Result<()> {
    let mut done = header.to_vec();
    for (index, tensor) in tensors.iter().enumerate() {
        let row_bytes = tensor.kind.row_bytes(tensor.columns);
        let rows_per_batch = (BATCH_BYTES / row_bytes).min(tensor.rows);
        for first in (0..tensor.rows).step_by(rows_per_batch) {
            let rows = rows_per_batch.min(tensor.rows - first);
            let mut batch = vec![0; rows * row_bytes];
            let part = rows.div_ceil(threads);
            thread::scope(|scope| {
                for (number, bytes) in batch.chunks_mut(part * row_bytes).enumerate() {
                    scope.spawn(move || {
                        let first = first + number * part;
                        for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
                            weights::row(index, tensor, first + row, bytes);
                        }
                    });
                }
                out.write_all(&done)
            })?;
            done = batch;
        }
    }
    out.write_all(&done)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::tinyllama::Kind;

    #[test]
    fn threads_however_many_write_the_same_bytes() {
        let tensor = |kind, rows| Tensor {
            name: String::new(),
            kind,
            columns: 512,
            rows,
            deviation: 1.0,
        };
        let tensors = [
            tensor(Kind::Q4K, 13),
            tensor(Kind::F32, 1),
            tensor(Kind::Q6K, 7),
        ];
        let written = |threads| {
            let mut bytes = Vec::new();
            write(b"header", &tensors, threads, &mut bytes).unwrap();
            bytes
        };
        let alone = written(1);
        assert_eq!(alone.len(), 6 + 13 * 288 + 2048 + 7 * 420);
        for threads in [2, 3, 16] {
            assert!(written(threads) == alone, "{threads} threads");
        }
    }
}
