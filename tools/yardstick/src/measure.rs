//! Turns and medians.

use crate::clock::{self, Cycles};
use crate::contestant::Contestant;
use crate::report::{Quantisation, Row};
use crate::shape::Shape;
use crate::weights::{Expected, vector};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// How often each contestant has its turn.
pub const ROUNDS: usize = 7;

/// One turn: some passes over all copies of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// Of all threads together.
    pub cycles: Option<Count>,
}

/// A number of cycles, and where it is from.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// How many.
    pub cycles: f64,
    /// By the CPU's counter; else it is time by the clock that the kernel says was set.
    pub counted: bool,
}

/// What one thread saw of a turn.
struct Part {
    start: Instant,
    end: Instant,
    cycles: Option<Count>,
}

/// Has one thread on each of `cpus` compute its rows of each copy, `passes` times over. `out` is
/// what the last one gave.
pub fn sample(
    contestant: &dyn Contestant,
    shape: Shape,
    cpus: &[usize],
    passes: usize,
    out: &mut [f32],
) -> Result<Sample, String> {
    let barrier = Barrier::new(cpus.len());
    let parts = thread::scope(|scope| {
        let mut rest = out;
        let mut threads = Vec::new();
        for (thread, &cpu) in cpus.iter().enumerate() {
            let rows = shape.share(thread, cpus.len());
            let (mine, others) = rest.split_at_mut(rows.len());
            rest = others;
            let barrier = &barrier;
            threads.push(scope.spawn(move || {
                let pinned = clock::pin(cpu);
                let work = || {
                    for _ in 0..passes {
                        for copy in 0..contestant.packed().copies() {
                            if !rows.is_empty() {
                                contestant.multiply(copy, rows.clone(), black_box(mine));
                            }
                        }
                    }
                };
                pinned.map(|()| work).map_or_else(
                    |error| {
                        barrier.wait();
                        Err(error)
                    },
                    |work| Ok(part(cpu, barrier, work)),
                )
            }));
        }
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|part| part.map_err(|_| "a thread panicked".to_owned())?)
            .collect::<Result<Vec<Part>, String>>()
    })?;
    let start = parts.iter().map(|part| part.start).min();
    let end = parts.iter().map(|part| part.end).max();
    let (start, end) = start.zip(end).ok_or("no core to run on")?;
    let counts: Option<Vec<Count>> = parts.iter().map(|part| part.cycles).collect();
    Ok(Sample {
        seconds: end.duration_since(start).as_secs_f64(),
        cycles: counts.map(|counts| Count {
            cycles: counts.iter().map(|count| count.cycles).sum(),
            counted: counts.iter().all(|count| count.counted),
        }),
    })
}

/// One thread's work, from when all are ready.
fn part(cpu: usize, barrier: &Barrier, work: impl FnOnce()) -> Part {
    let mut counter = Cycles::open();
    barrier.wait();
    let before = counter.as_mut().and_then(Cycles::read);
    let start = Instant::now();
    work();
    let end = Instant::now();
    let after = counter.as_mut().and_then(Cycles::read);
    // A counter that the kernel accepts and never runs stays at zero.
    let counted = before.zip(after).map(|(before, after)| after - before);
    let counted = counted.filter(|&cycles| cycles > 0).map(|cycles| Count {
        cycles: cycles as f64,
        counted: true,
    });
    let by_clock = || {
        let cycles = end.duration_since(start).as_secs_f64() * clock::frequency(cpu)?;
        Some(Count {
            cycles,
            counted: false,
        })
    };
    Part {
        start,
        end,
        cycles: counted.or_else(by_clock),
    }
}

/// Has all contestants take turns of about `target` seconds, and returns a row for each.
pub fn turns(
    field: &[(Box<dyn Contestant>, Expected)],
    shape: Shape,
    cpus: &[usize],
    target: f64,
) -> Result<Vec<Row>, String> {
    let mut out = vec![0.0; shape.rows];
    let mut passes = Vec::new();
    for (contestant, _) in field {
        // Warms up, too: pages are there, and the clock is at its height.
        let one = sample(&**contestant, shape, cpus, 1, &mut out)?.seconds;
        passes.push(((target / one) as usize).max(1));
    }
    let mut samples = vec![Vec::new(); field.len()];
    for round in 0..ROUNDS {
        for turn in 0..field.len() {
            // Each round starts with another, so that nobody always follows the same neighbour.
            let at = (turn + round) % field.len();
            let (contestant, passes) = (&*field[at].0, passes[at]);
            samples[at].push(sample(contestant, shape, cpus, passes, &mut out)?);
        }
    }
    let rows = field.iter().zip(samples).zip(passes);
    Ok(rows
        .map(|(((contestant, _), samples), passes)| {
            row(&**contestant, shape, cpus.len(), passes, &samples)
        })
        .collect())
}

/// The medians of a contestant's turns.
fn row(
    contestant: &dyn Contestant,
    shape: Shape,
    threads: usize,
    passes: usize,
    samples: &[Sample],
) -> Row {
    let products = (passes * contestant.packed().copies()) as f64;
    let weights = products * shape.weights() as f64;
    let mut seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
    let middle_seconds = median(&mut seconds);
    let counts: Option<Vec<Count>> = samples.iter().map(|sample| sample.cycles).collect();
    let cycles = counts.map(|counts| Count {
        cycles: median(&mut counts.iter().map(|count| count.cycles).collect::<Vec<_>>()) / weights,
        counted: counts.iter().all(|count| count.counted),
    });
    Row {
        name: contestant.name().to_owned(),
        shape,
        threads,
        cycles,
        ns_per_weight: middle_seconds * 1e9 / weights,
        gb_per_second: products * contestant.packed().copy(0).len() as f64 / middle_seconds / 1e9,
        spread: (seconds[seconds.len() - 1] - seconds[0]) / middle_seconds,
    }
}

/// How long each contestant takes to quantise a vector, on one core.
pub fn quantisation(
    field: &mut [(Box<dyn Contestant>, Expected)],
    shape: Shape,
    cpu: usize,
) -> Result<Vec<Quantisation>, String> {
    const RUNS: usize = 50;
    let x = vector(shape.columns);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            clock::pin(cpu)?;
            let mut times = vec![Vec::new(); field.len()];
            for _ in 0..ROUNDS {
                for ((contestant, _), times) in field.iter_mut().zip(&mut times) {
                    let start = Instant::now();
                    (0..RUNS).for_each(|_| contestant.quantise(black_box(&x)));
                    times.push(start.elapsed().as_secs_f64() / RUNS as f64);
                }
            }
            let results = field.iter().zip(&mut times);
            Ok(results
                .map(|((contestant, _), times)| Quantisation {
                    name: contestant.name().to_owned(),
                    columns: shape.columns,
                    microseconds: median(times) * 1e6,
                })
                .collect())
        });
        thread.join().map_err(|_| "a thread panicked".to_owned())?
    })
}

/// The middle one; sorts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
