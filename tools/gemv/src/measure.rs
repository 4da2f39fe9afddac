//! Turns and medians.

use crate::options::Options;
use crate::peer::Peer;
use crate::read;
use kernels_asm::format::WeightFormat;
use std::hint::black_box;
use yardstick::clock;
use yardstick::contestant::Contestant;
use yardstick::ours::Ours;
use yardstick::shape::Shape;
use yardstick::weights::{Expected, Matrix, vector};

/// The figures of one format at one shape. Times are CPU seconds of a product, quantising the
/// vector included, and medians; errors are shares of a row's norm.
pub struct Cell {
    /// Of the weights.
    pub format: WeightFormat,
    /// Of the matrix.
    pub shape: Shape,
    /// Bytes of the packed matrix.
    pub bytes: usize,
    /// Our time.
    pub ours: f64,
    /// The time of a plain read of our bytes.
    pub plain_read: f64,
    /// The time of a read with two streams and prefetches.
    pub two_streams: f64,
    /// Our largest error; our bits are those of the reference.
    pub error: f64,
    /// The peer's kinds of buffers.
    pub theirs: Vec<Theirs>,
}

/// What the peer does in one kind of buffer.
pub struct Theirs {
    /// The kind.
    pub buffer: String,
    /// The time of a product.
    pub seconds: f64,
    /// The largest error.
    pub error: f64,
}

/// Whose turn it is.
#[derive(Clone, Copy)]
enum Turn {
    Ours,
    PlainRead,
    TwoStreams,
    Theirs(usize),
}

/// Has all take turns, each of which is a product of each copy, and judges the products.
pub fn cell(
    format: WeightFormat,
    shape: Shape,
    mut peer: Option<&mut Peer>,
    options: &Options,
) -> Result<Cell, String> {
    let (matrix, x) = (Matrix::random(format, shape), vector(shape.columns));
    let copies = |bytes: usize| (options.working_set_mib << 20).div_ceil(bytes).max(1);
    let mut ours = Ours::new(&matrix, &x, &copies);
    let bytes = ours.packed().copy(0).len();
    let buffers = match &mut peer {
        Some(peer) => peer.load(&matrix, &x, copies(bytes))?,
        None => Vec::new(),
    };

    let mut turns = vec![Turn::Ours, Turn::PlainRead, Turn::TwoStreams];
    turns.extend((0..buffers.len()).map(Turn::Theirs));
    let mut out = vec![f32::NAN; shape.rows];
    let mut samples = vec![Vec::new(); turns.len()];
    // The first round warms up: pages are there, and the clock is at its height.
    for round in 0..=options.rounds {
        for turn in 0..turns.len() {
            // Each round starts with another, so that nobody always follows the same neighbour.
            let at = (turn + round) % turns.len();
            let seconds = match (turns[at], &mut peer) {
                (Turn::Theirs(buffer), Some(peer)) => peer.time(buffer)?,
                (turn, _) => time(|| take(turn, &mut ours, shape, &x, &mut out)),
            };
            if round > 0 {
                samples[at].push(seconds / ours.packed().copies() as f64);
            }
        }
    }

    let expected = Expected::new(&matrix, &x);
    let wrong = |name: &str, error| format!("{}, {shape}, {name}: {error}", format.name());
    let error = expected.judge(&out).map_err(|error| wrong("ours", error))?;
    let expected = expected.without_bits();
    let mut medians = samples.iter_mut().map(|samples| median(samples));
    let mut next = || medians.next().expect("one for each turn");
    let (ours, plain_read, two_streams) = (next(), next(), next());
    let mut theirs = Vec::new();
    for (index, buffer) in buffers.into_iter().enumerate() {
        let peer = peer.as_mut().expect("it named the buffer");
        let product = peer.product(index, shape.rows)?;
        let error = expected
            .judge(&product)
            .map_err(|error| wrong(&buffer, error))?;
        theirs.push(Theirs {
            buffer,
            seconds: next(),
            error,
        });
    }
    Ok(Cell {
        format,
        shape,
        bytes,
        ours,
        plain_read,
        two_streams,
        error,
        theirs,
    })
}

/// One of our turns.
fn take(turn: Turn, ours: &mut Ours, shape: Shape, x: &[f32], out: &mut [f32]) {
    match turn {
        Turn::PlainRead => read::plain(ours.packed().all()),
        Turn::TwoStreams => read::two_streams(ours.packed().all()),
        Turn::Ours | Turn::Theirs(_) => {
            for copy in 0..ours.packed().copies() {
                ours.quantise(black_box(x));
                ours.multiply(copy, 0..shape.rows, black_box(out));
            }
        }
    }
}

fn time(run: impl FnOnce()) -> f64 {
    let start = clock::thread_seconds();
    run();
    clock::thread_seconds() - start
}

/// The middle one; sorts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
