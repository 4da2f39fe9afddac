//! `inspect`: what a file holds, and what this program and this machine make of it.
//!
//! It works on any well-formed GGUF file and on packed images: what is not known is shown as the
//! file has it, and what cannot be run is told with the error that a run would end with.

mod shown;

use crate::arena;
use crate::chat::{Chat, ChatChoice};
use crate::cpu;
use crate::error::Error;
use crate::gguf::{GgmlType, Gguf, TensorInfo, Value};
use crate::model::Config;
use crate::model::weights::{Sizes, Weights};
use crate::model_file::ModelFile;
use crate::options::{Options, UsageError};
use crate::output::Rows;
use crate::session;
use crate::sys;
use crate::tokenizer::Tokenizer;
use core::fmt::{self, Display, Write};
use kernels_asm::registry::Kernels;
use shown::{Plain, Shown, Text};

/// `ggml_type` numbers are below this.
const TYPES: u32 = 64;

/// Shows the file.
///
/// # Errors
/// It is malformed, `--isa` or `--kernel` ask for what the CPU lacks, or stdout is closed.
pub fn run(options: &Options) -> Result<(), Error> {
    let model = ModelFile::open(options)?;
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let cores = cpu::cores(&processors.assign(threads));
    let kernels = session::resolve_kernels(options, cores)?;
    let gguf = &model.gguf;

    let mut rows = Rows::new(options.json);
    file(&mut rows, &model)?;
    metadata(&mut rows, gguf)?;
    tensors(&mut rows, gguf)?;
    formats(&mut rows, gguf, &kernels)?;
    vocabulary(&mut rows, gguf)?;
    template(&mut rows, gguf)?;
    verdict(&mut rows, gguf)?;
    slow(&mut rows, gguf, &kernels)?;
    rows.flush()
}

fn file(rows: &mut Rows, model: &ModelFile) -> Result<(), Error> {
    let gguf = &model.gguf;
    let kind = match model.image {
        None => "GGUF",
        Some(_) => "packed image",
    };
    let weights = gguf.tensors().map(|tensor| weights(&tensor));
    let weights = weights.fold(0u64, u64::saturating_add);
    let bytes = gguf.tensors().map(|tensor| tensor.bytes).sum::<u64>();
    let bits = match weights {
        0 => 0.0,
        _ => bytes as f64 * 8.0 / weights as f64,
    };
    let (header, tensors) = (gguf.header().len(), gguf.tensors().count());
    rows.row(
        format_args!(
            "{kind}: {weights} parameters in {tensors} tensors, {bytes} bytes, {bits:.2} bits \
             each; header {header} bytes"
        ),
        "file",
        |line| {
            line.text("kind", kind)
                .number("parameters", weights)
                .number("tensors", tensors as u64)
                .number("tensor_bytes", bytes)
                .decimal("bits_per_weight", bits)
                .number("header_bytes", header as u64)
        },
    )
}

/// Weights of a tensor.
fn weights(tensor: &TensorInfo<'_>) -> u64 {
    let lengths = tensor.shape.into_iter();
    lengths.fold(1, u64::saturating_mul)
}

fn metadata(rows: &mut Rows, gguf: &Gguf<'_>) -> Result<(), Error> {
    rows.heading(format_args!("\nmetadata"))?;
    for pair in gguf.pairs() {
        let (key, kind) = (pair.key, pair.kind);
        let value = Shown(pair.value);
        let mut count = heapless::String::<24>::new();
        if let Value::Array(array) = pair.value {
            let _ = write!(count, "[{}]", array.len()); // a number fits
        }
        rows.row(
            format_args!(
                "  {:<46} {:<15} {}",
                Plain(key).padded(),
                Pasted(kind, &count).padded(),
                Plain(&value)
            ),
            "key",
            |line| {
                line.text("key", key)
                    .text("type", Pasted(kind, &count))
                    .text("value", &value)
            },
        )?;
    }
    Ok(())
}

/// Two texts, one after the other.
struct Pasted<'a>(&'a str, &'a str);

impl Display for Pasted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

/// A text that is filled up with spaces where a width asks for it.
struct Padded<T>(T);

trait Pad: Display + Sized {
    fn padded(self) -> Padded<Self> {
        Padded(self)
    }
}

impl<T: Display> Pad for T {}

impl<T: Display> Display for Padded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = heapless::String::<320>::new();
        match write!(text, "{}", self.0) {
            Ok(()) => f.pad(&text),
            Err(_) => self.0.fmt(f), // longer than any column
        }
    }
}

/// The lengths of a tensor's dimensions, the row's first.
struct Shape<'a>(&'a TensorInfo<'a>);

impl Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [row, rest @ ..] = self.0.shape;
        let used = rest.iter().rposition(|&length| length > 1);
        write!(f, "{row}")?;
        rest[..used.map_or(0, |last| last + 1)]
            .iter()
            .try_for_each(|length| write!(f, " x {length}"))
    }
}

fn tensors(rows: &mut Rows, gguf: &Gguf<'_>) -> Result<(), Error> {
    rows.heading(format_args!("\ntensors"))?;
    for tensor in gguf.tensors() {
        let (name, kind, bytes) = (tensor.name, tensor.kind.name, tensor.bytes);
        let shape = Shape(&tensor);
        rows.row(
            format_args!(
                "  {:<46} {kind:<8} {:<18} {bytes:>14}",
                Plain(name).padded(),
                Shape(&tensor).padded()
            ),
            "tensor",
            |line| {
                line.text("name", name)
                    .text("type", kind)
                    .text("shape", &shape)
                    .number("bytes", bytes)
            },
        )?;
    }
    Ok(())
}

/// What a file has of one type.
struct Share {
    kind: GgmlType,
    tensors: usize,
    bytes: u64,
    /// Whether there is a matrix among them: only these go through kernels of their format.
    has_matrix: bool,
}

/// The types of a file.
fn shares<'g>(gguf: &'g Gguf<'_>) -> impl Iterator<Item = Share> + use<'g> {
    (0..TYPES)
        .filter_map(GgmlType::from_number)
        .filter_map(|kind| {
            let of_kind = || gguf.tensors().filter(move |tensor| tensor.kind == kind);
            let tensors = of_kind().count();
            (tensors > 0).then(|| Share {
                kind,
                tensors,
                bytes: of_kind().map(|tensor| tensor.bytes).sum(),
                has_matrix: of_kind().any(|tensor| tensor.shape[1] > 1),
            })
        })
}

fn formats(rows: &mut Rows, gguf: &Gguf<'_>, kernels: &Kernels) -> Result<(), Error> {
    rows.heading(format_args!(
        "\nformats, and the kernels that would run here"
    ))?;
    let all = gguf.tensors().map(|tensor| tensor.bytes).sum::<u64>();
    for Share {
        kind,
        tensors,
        bytes,
        has_matrix,
    } in shares(gguf)
    {
        let share = bytes as f64 * 100.0 / all as f64;
        let (one, several, speed) = match kind.weight_format() {
            _ if !has_matrix => ("-", "-", "vectors"),
            None => ("-", "-", "not supported"),
            Some(format) => (
                kernels.gemv_kernel(format).name,
                kernels
                    .gemm_kernel(format)
                    .map_or("-", |kernel| kernel.name),
                match kernels.has_fast_gemv(format) {
                    true => "fast",
                    false => "slow",
                },
            ),
        };
        let name = kind.name;
        rows.row(
            format_args!(
                "  {name:<8} {tensors:>5} tensors {bytes:>14} bytes {share:>6.2} %  {speed:<13} \
                 {one} {several}"
            ),
            "format",
            |line| {
                line.text("type", name)
                    .number("tensors", tensors as u64)
                    .number("bytes", bytes)
                    .decimal("share_pct", share)
                    .text("speed", speed)
                    .text("one_token", one)
                    .text("several_tokens", several)
            },
        )?;
    }
    Ok(())
}

fn vocabulary(rows: &mut Rows, gguf: &Gguf<'_>) -> Result<(), Error> {
    rows.heading(format_args!("\ntokenizer"))?;
    let size = match Tokenizer::bytes(gguf) {
        Ok(size) => size,
        Err(error) => return no_tokenizer(rows, &error),
    };
    let block = sys::reserve(arena::rounded(size)).map_err(Error::System)?;
    let (model, _, _) = arena::split(block, size, 0)?;
    let tokenizer = match Tokenizer::new(gguf, &model.open_once()) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return no_tokenizer(rows, &error),
    };
    let string = |key| gguf.string(key).ok().flatten().unwrap_or(b"-");
    let model = Text(string("tokenizer.ggml.model"));
    let pre = Text(string("tokenizer.ggml.pre"));
    let tokens = tokenizer.len();
    let starts = match tokenizer.adds_bos() {
        true => "yes",
        false => "no",
    };
    rows.row(
        format_args!(
            "  {}, pre-tokenizer {}, {tokens} tokens; a prompt starts with BOS: {starts}",
            Plain(&model),
            Plain(&pre)
        ),
        "tokenizer",
        |line| {
            line.text("model", &model)
                .text("pre", &pre)
                .number("tokens", tokens as u64)
                .text("adds_bos", starts)
        },
    )?;
    let ends = tokenizer.end_tokens().iter().map(|&id| ("end", id));
    let special = [("bos", tokenizer.bos()), ("eos", tokenizer.eos())];
    let special = special
        .into_iter()
        .filter_map(|(role, id)| Some((role, id?)));
    for (role, id) in special.chain(ends) {
        let text = Text(tokenizer.text(id));
        rows.row(
            format_args!("  {role:<4} {id:>7} {}", Plain(&text)),
            "token",
            |line| {
                line.text("role", role)
                    .number("id", id.into())
                    .text("text", &text)
            },
        )?;
    }
    Ok(())
}

fn no_tokenizer(rows: &mut Rows, error: &dyn Display) -> Result<(), Error> {
    rows.row(format_args!("  not usable: {error}"), "tokenizer", |line| {
        line.text("error", error)
    })
}

fn template(rows: &mut Rows, gguf: &Gguf<'_>) -> Result<(), Error> {
    rows.heading(format_args!("\nchat template"))?;
    match Chat::choose(gguf, ChatChoice::Auto) {
        Ok(chat) => {
            let name = chat.name();
            rows.row(format_args!("  {name}"), "template", |line| {
                line.text("family", name)
            })
        }
        Err(error) => rows.row(format_args!("  unknown: {error}"), "template", |line| {
            line.text("family", "unknown").text("error", error)
        }),
    }
}

/// Whether a run would get as far as the memory plan.
fn runs(gguf: &Gguf<'_>) -> Result<(), Error> {
    let config = Config::read(gguf)?;
    Weights::gather(gguf, &config, &mut Sizes::default())?;
    Tokenizer::bytes(gguf)?;
    Ok(())
}

fn verdict(rows: &mut Rows, gguf: &Gguf<'_>) -> Result<(), Error> {
    let architecture = gguf.string("general.architecture").ok().flatten();
    let architecture = Text(architecture.unwrap_or(b"-"));
    rows.heading(format_args!("\narchitecture"))?;
    let (answer, error) = match runs(gguf) {
        Ok(()) => ("yes", None),
        Err(_) if gguf.tensors().next().is_none() => ("vocabulary only", None),
        Err(error) => ("no", Some(error)),
    };
    let mut text = heapless::String::<256>::new();
    if let Some(error) = error {
        let _ = write!(text, ": {error}"); // what does not fit is cut
    }
    rows.row(
        format_args!("  {}, runs here: {answer}{text}", Plain(&architecture)),
        "architecture",
        |line| {
            let line = line.text("name", &architecture).text("runs", answer);
            match error {
                Some(error) => line.text("error", error),
                None => line,
            }
        },
    )
}

/// What would take longer here than it must, and why.
fn slow(rows: &mut Rows, gguf: &Gguf<'_>, kernels: &Kernels) -> Result<(), Error> {
    rows.heading(format_args!("\nslow here"))?;
    let mut is_any = false;
    for share in shares(gguf).filter(|share| share.has_matrix) {
        let Some(format) = share.kind.weight_format() else {
            continue; // does not run at all
        };
        let why = match (kernels.has_fast_gemv(format), kernels.gemm_kernel(format)) {
            (false, _) => "only the reference kernel, many times slower",
            (true, None) => "prompts are multiplied a token at a time, as in generation",
            (true, Some(_)) => continue,
        };
        is_any = true;
        let name = share.kind.name;
        rows.row(format_args!("  {name}: {why}"), "slow", |line| {
            line.text("type", name).text("why", why)
        })?;
    }
    match is_any {
        true => Ok(()),
        false => rows.heading(format_args!("  nothing")),
    }
}
