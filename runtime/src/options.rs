//! The command line: flags to settings. Names follow llama.cpp where it has one.
//!
//! Text flags (`-p`, `-sys`, `-r`) take the escapes `\n \t \r \\ \" \'` unless `--no-escape` is
//! given; files and stdin are taken byte for byte.

use crate::chat::ChatChoice;
use crate::commands::bench::workload::{self, Workload};
use crate::console::{BaudRates, Spec, SpecError};
use crate::cpu::cpu_mask;
use crate::kv::KvFormat;
use crate::log::LogFormat;
use crate::sampler::Settings;
use crate::tokenizer::STOPS_MAX;
use core::ffi::CStr;
use core::fmt;
use heapless::Vec;
use kernels_asm::features::Isa;
use kernels_asm::format::WeightFormat;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Command {
    /// Prompt in, text out.
    #[default]
    Run,
    /// Text in, token ids out.
    Tokenize,
    /// The memory plan, and no run.
    Plan,
    /// A GGUF file to a packed image.
    Pack,
    /// How well a text is predicted.
    Perplexity,
    /// How fast a model runs.
    Bench,
    /// What a file holds.
    Inspect,
    /// Whether what is computed here is right.
    Selftest,
    /// The list of kernels.
    Kernels,
    /// The list of flags.
    Help,
    /// Name and version.
    Version,
}

/// Everything that the command line says.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the flags are described in HELP
pub struct Options {
    pub command: Command,
    pub model: Option<&'static CStr>,
    pub image: Option<&'static CStr>,
    pub prompt: Option<&'static CStr>,
    pub prompt_file: Option<&'static CStr>,
    pub prompt_ids: Option<&'static CStr>,
    pub system: Option<&'static CStr>,
    pub prompt_cache: Option<&'static CStr>,
    pub prompt_cache_ro: bool,
    pub console: Option<Spec>,
    pub framed: bool,
    /// A line that ends the console, where a program has no other end.
    pub poweroff_word: Option<&'static str>,
    pub escape: bool,
    pub tokens_max: usize,
    pub context: Option<usize>,
    pub batch: usize,
    pub chunks: Option<usize>,
    pub bench: Workload,
    pub threads: Option<usize>,
    pub cpu_range: Option<u64>,
    pub seed: Option<u64>,
    pub sampler: Settings,
    pub ignore_eos: bool,
    pub stops: Vec<&'static CStr, STOPS_MAX>,
    pub chat: ChatChoice<'static>,
    pub key_format: KvFormat,
    pub value_format: KvFormat,
    pub budget: Option<u64>,
    pub force: bool,
    pub mlock: bool,
    pub prefault: bool,
    pub check_tensors: bool,
    /// Asked for or not; a console has it unless told otherwise.
    pub sandbox: Option<bool>,
    pub isa: Option<Isa>,
    pub kernels: Vec<(WeightFormat, &'static str), { WeightFormat::ALL.len() }>,
    pub profile: bool,
    pub trace: Option<&'static CStr>,
    pub logits: Option<&'static CStr>,
    pub ids: bool,
    pub bos: bool,
    /// `--special`: the texts of control tokens stand for these.
    pub special: bool,
    pub json: bool,
    pub log_format: LogFormat,
    pub log_file: Option<&'static CStr>,
    pub verbose: bool,
    pub quiet: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            command: Command::Run,
            model: None,
            image: None,
            prompt: None,
            prompt_file: None,
            prompt_ids: None,
            system: None,
            prompt_cache: None,
            prompt_cache_ro: false,
            console: None,
            framed: false,
            poweroff_word: None,
            escape: true,
            tokens_max: 128,
            context: None,
            batch: 64,
            chunks: None,
            bench: Workload::default(),
            threads: None,
            cpu_range: None,
            seed: None,
            sampler: Settings::default(),
            ignore_eos: false,
            stops: Vec::new(),
            chat: ChatChoice::Auto,
            key_format: KvFormat::F16,
            value_format: KvFormat::F16,
            budget: None,
            force: false,
            mlock: false,
            prefault: false,
            check_tensors: false,
            sandbox: None,
            isa: None,
            kernels: Vec::new(),
            profile: false,
            trace: None,
            logits: None,
            ids: false,
            bos: true,
            special: false,
            json: false,
            log_format: LogFormat::Text,
            log_file: None,
            verbose: false,
            quiet: false,
        }
    }
}

/// Why a command line was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsageError {
    /// A flag that does not exist.
    UnknownFlag(&'static CStr),
    /// A flag without its value.
    MissingValue(&'static CStr),
    /// A value that the flag does not take.
    BadValue {
        /// The flag.
        flag: &'static CStr,
        /// Its value.
        value: &'static CStr,
        /// What it takes.
        wanted: &'static str,
    },
    /// More `-r` than there is room for.
    TooManyStops,
    /// A speed of `--console` that a UART cannot be set to here.
    UnknownBaud(&'static CStr),
    /// A flag that gives or shows one prompt, together with `--console` or `--framed`.
    NotWithConsole(&'static str),
    /// `--prompt-cache` would write a file, and `--sandbox` lets none be written.
    CacheInSandbox,
    /// The console is to be served, and none is named.
    MissingConsole,
    /// `--cpu-range` names no processor that the process may run on.
    NoProcessor,
    /// No `-m`.
    MissingModel,
    /// `pack` without the name of its result.
    MissingImage,
    /// `pack` onto the file that is packed.
    ImageIsModel,
    /// No prompt, and stdin is a terminal.
    MissingPrompt,
    /// A context in which `perplexity` would score next to nothing.
    ContextTooSmall {
        /// Tokens that it has.
        found: usize,
        /// Tokens that it needs.
        least: usize,
    },
    /// `bench` whose `-p` and `-n` are all 0.
    NothingToMeasure,
    /// `bench` of more tokens than `-c`.
    ContextBelowTest {
        /// Tokens that it has.
        context: usize,
        /// Tokens of the longest test, and before it.
        needed: usize,
    },
}

struct Shown(&'static CStr);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_bytes().escape_ascii())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            UsageError::UnknownFlag(flag) => write!(f, "unknown flag {}", Shown(flag)),
            UsageError::MissingValue(flag) => write!(f, "flag {} needs a value", Shown(flag)),
            UsageError::BadValue {
                flag,
                value,
                wanted,
            } => {
                write!(
                    f,
                    "flag {} takes {wanted}, not \"{}\"",
                    Shown(flag),
                    Shown(value)
                )
            }
            UsageError::UnknownBaud(word) => {
                write!(f, "--console {}: speeds are {BaudRates}", Shown(word))
            }
            UsageError::NotWithConsole(flag) => {
                write!(f, "flag {flag} does not go with --console or --framed")
            }
            UsageError::CacheInSandbox => f.write_str(
                "with --sandbox a prompt cache cannot be written: --prompt-cache-ro only reads it",
            ),
            UsageError::MissingConsole => f.write_str("no console: --console DEV:BAUD"),
            UsageError::TooManyStops => write!(f, "at most {STOPS_MAX} stop strings"),
            UsageError::NoProcessor => {
                f.write_str("--cpu-range names no processor that this process may use")
            }
            UsageError::MissingModel => f.write_str("no model: -m FILE"),
            UsageError::MissingImage => f.write_str("no image to write: pack MODEL IMAGE"),
            UsageError::ImageIsModel => {
                f.write_str("pack: the image would replace the model that it is made from")
            }
            UsageError::MissingPrompt => {
                f.write_str("no prompt: -p TEXT, -f FILE, or text on stdin")
            }
            UsageError::ContextTooSmall { found, least } => {
                write!(f, "perplexity: -c {found}, at least {least} are needed")
            }
            UsageError::NothingToMeasure => f.write_str("bench: -p and -n are all 0"),
            UsageError::ContextBelowTest { context, needed } => {
                write!(f, "bench: -c {context}, the longest test needs {needed}")
            }
        }
    }
}

/// What `--help` prints.
pub const HELP: &str = "\
usage: rushlight [run] -m MODEL [-p TEXT | -f FILE | text on stdin] [flags]
       rushlight plan MODEL [flags]
       rushlight pack MODEL IMAGE
       rushlight inspect MODEL [flags]
       rushlight perplexity -m MODEL -f FILE [flags]
       rushlight bench -m MODEL [flags]
       rushlight selftest [-m MODEL] [flags]
       rushlight tokenize | kernels [flags]

prompt
  -m, --model FILE        GGUF model, or a packed image of one (a file or a block device)
  -p, --prompt TEXT       prompt; text on stdin or of -f is joined to it by a blank line
  -f, --file FILE         prompt from a file, byte for byte (- is stdin)
  -sys TEXT               system prompt
  --chat NAME|auto|none   chat template (auto: the file's own); --raw is --chat none
  --no-escape             take \\n and the like in -p, -sys and -r as they stand
  --console DEV:BAUD[,crlf][,xonxoff][,echo][,wait=SECONDS]
                          prompts from a terminal, a line each, answered until it
                          ends; - for stdin and stdout (docs/console.md)
  --framed                the same with a JSON object a line, for programs
  --prompt-cache FILE     keep the prompt's keys and values there for the next run, which
                          evaluates only what its prompt does not begin with
  --prompt-cache-ro       only read it
  --prompt-ids FILE       token ids instead of text, separated by white space
generation
  -n, --predict N         tokens to generate at most (128)
  -c, --ctx-size N        context in tokens (2048, or the model's if that is less)
  -r, --stop TEXT         stop before this text; may be repeated
  --ignore-eos            go on after an end token
  -s, --seed N            seed of the sampler; printed if not given
  --temp T                temperature; greedy unless given
  --top-k N --top-p P --min-p P --repeat-penalty R --repeat-last-n N
machine
  -t, --threads N         threads (the cores of the fastest cluster)
  --cpu-range LIST        processors to use, as 4-7 or 0-3,6
  -b, --batch-size N      prompt tokens of a step (64)
  -ctk, -ctv TYPE         keys, and values, of the KV cache: f32, f16 or q8_0 (f16)
  --budget BYTES          memory that the run may take (K, M, G)
  --force                 run even if the plan exceeds the budget
  --mlock                 keep weights, KV cache and scratch resident
  --prefault              packed image: read all weights before the first token
  --check-tensors         look for weights that are no numbers; in a packed image,
                          compare every tensor with its checksum
  --sandbox, --no-sandbox give up, once loaded, all that decoding does not need
                          (as a console does unless told not to)
  --isa NAME              strongest instruction set to use (reference, avx2, neon, dotprod, ...)
  --kernel FORMAT=NAME    kernel of a weight format
output
  --ids                   print token ids instead of text
  --logits FILE           write the logits after every token, f32 rows
  --profile               a log line per token
  --trace FILE            write what happened when, as JSON for ui.perfetto.dev
  --log-format text|json|defmt  --log-file FILE
  -v                      a log line per chunk of the prompt
  -q                      only warnings and errors
  --no-bos                tokenize without the start token
  --special               tokenize: the texts of control tokens stand for these
  --format text|json      of what plan, inspect and perplexity print
  --chunks N              perplexity: score no more chunks, each of -c tokens (512)
selftest, exit code 10 if something is not what it must be; a line each on stdout
                          every kernel that this CPU can run, against the reference
  -m MODEL                the tensors of this file too, and its logits: against those
                          that pack computed, or of a GGUF, the reference kernels'
bench, as llama-bench: a row on stdout for each test, loading excluded
  -p N[,N...]             prompts of N tokens, also written pp512 (512; 0: none)
  -n N[,N...]             N tokens one by one, also written tg128 (128; 0: none)
  -d, --depth N[,N...]    each test behind so many tokens of context (0)
  -r N                    repetitions, of which a row has the mean and deviation (5)
  --no-warmup             no run before the first that counts
  --format text|csv|jsonl

exit codes: 0 ok, 1 internal, 2 usage, 3 CPU feature missing, 4 file not readable or writable,
5 malformed or unsupported model, 6 does not fit, 7 prompt longer than the context,
8 output closed, 9 NaN or Inf in logits, 10 self-test or golden mismatch,
129 SIGHUP, 130 SIGINT, 143 SIGTERM
";

/// No number of tokens is greater.
const COUNT_MAX: usize = 1 << 24;

/// A flag with the value that follows it.
struct Flag<'a> {
    name: &'static CStr,
    rest: &'a mut dyn Iterator<Item = &'static CStr>,
}

impl Flag<'_> {
    fn value(&mut self) -> Result<&'static CStr, UsageError> {
        self.rest.next().ok_or(UsageError::MissingValue(self.name))
    }

    /// The value, converted.
    fn parse<T>(
        &mut self,
        wanted: &'static str,
        convert: impl FnOnce(&'static str) -> Option<T>,
    ) -> Result<T, UsageError> {
        let value = self.value()?;
        let converted = value.to_str().ok().and_then(convert);
        converted.ok_or(UsageError::BadValue {
            flag: self.name,
            value,
            wanted,
        })
    }

    fn count(&mut self, least: usize) -> Result<usize, UsageError> {
        let wanted = if least == 0 {
            "a number from 0"
        } else {
            "a number from 1"
        };
        self.parse(wanted, |text| {
            text.parse()
                .ok()
                .filter(|count| (least..=COUNT_MAX).contains(count))
        })
    }

    fn counts(&mut self, name: &str) -> Result<workload::Counts, UsageError> {
        self.parse("up to eight numbers from 0", |text| {
            workload::counts(text, name, COUNT_MAX)
        })
    }

    fn float(&mut self) -> Result<f32, UsageError> {
        self.parse("a number from 0", |text| {
            text.parse()
                .ok()
                .filter(|number: &f32| number.is_finite() && *number >= 0.0)
        })
    }

    fn cache_format(&mut self) -> Result<KvFormat, UsageError> {
        self.parse("f32, f16 or q8_0", KvFormat::from_name)
    }
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// An unknown flag, or a value that the flag does not take.
    pub fn parse(
        arguments: &mut dyn Iterator<Item = &'static CStr>,
    ) -> Result<Options, UsageError> {
        let mut options = Options::default();
        let mut first = true;
        while let Some(name) = arguments.next() {
            let mut flag = Flag {
                name,
                rest: arguments,
            };
            let word = name.to_str().map_err(|_| UsageError::UnknownFlag(name))?;
            let known = (first && options.command_word(word))
                || options.bench_flag(word, &mut flag)?
                || options.prompt_flag(word, &mut flag)?
                || options.generation_flag(word, &mut flag)?
                || options.machine_flag(word, &mut flag)?
                || options.output_flag(word, &mut flag)?
                || options.positional(word, name);
            if !known {
                return Err(UsageError::UnknownFlag(name));
            }
            first = false;
        }
        options.check_console()?;
        let writes_cache = options.prompt_cache.is_some() && !options.prompt_cache_ro;
        if writes_cache && options.sandbox == Some(true) {
            return Err(UsageError::CacheInSandbox);
        }
        Ok(options)
    }

    /// `--framed` alone is on stdin and stdout; and nothing else gives prompts to a console.
    fn check_console(&mut self) -> Result<(), UsageError> {
        if self.framed && self.console.is_none() {
            self.console = Some(Spec::standard_streams());
        }
        if self.console.is_none() {
            return Ok(());
        }
        for (flag, is_given) in [
            ("-p", self.prompt.is_some()),
            ("-f", self.prompt_file.is_some()),
            ("--prompt-ids", self.prompt_ids.is_some()),
            ("--prompt-cache", self.prompt_cache.is_some()),
            ("--ids", self.ids),
            ("--logits", self.logits.is_some()),
        ] {
            if is_given {
                return Err(UsageError::NotWithConsole(flag));
            }
        }
        Ok(())
    }

    fn command_word(&mut self, word: &str) -> bool {
        self.command = match word {
            "run" => Command::Run,
            "tokenize" => Command::Tokenize,
            "plan" => Command::Plan,
            "pack" => Command::Pack,
            "perplexity" => Command::Perplexity,
            "bench" => Command::Bench,
            "inspect" => Command::Inspect,
            "selftest" => Command::Selftest,
            "kernels" => Command::Kernels,
            _ => return false,
        };
        true
    }

    /// A word that is no flag: the files of `plan`, `pack` and `inspect`.
    fn positional(&mut self, word: &str, value: &'static CStr) -> bool {
        let slot = match (self.command, self.model) {
            _ if word.starts_with('-') => return false,
            (Command::Plan | Command::Pack | Command::Inspect, None) => &mut self.model,
            (Command::Pack, Some(_)) if self.image.is_none() => &mut self.image,
            _ => return false,
        };
        *slot = Some(value);
        true
    }

    /// What `bench` measures; there these flags mean what they do in `llama-bench`.
    fn bench_flag(&mut self, word: &str, flag: &mut Flag<'_>) -> Result<bool, UsageError> {
        if self.command != Command::Bench {
            return Ok(false);
        }
        let bench = &mut self.bench;
        match word {
            "-p" | "--n-prompt" => bench.prompts = flag.counts("pp")?,
            "-n" | "--n-gen" => bench.generations = flag.counts("tg")?,
            "-d" | "--n-depth" | "--depth" => bench.depths = flag.counts("d")?,
            "-r" | "--repetitions" => bench.repeats = flag.count(1)?,
            "--no-warmup" => bench.warms_up = false,
            "--format" => {
                bench.format = flag.parse("text, csv or jsonl", workload::Format::from_name)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn prompt_flag(&mut self, word: &str, flag: &mut Flag<'_>) -> Result<bool, UsageError> {
        match word {
            "-m" | "--model" => self.model = Some(flag.value()?),
            "-p" | "--prompt" => self.prompt = Some(flag.value()?),
            "-f" | "--file" => self.prompt_file = Some(flag.value()?),
            "--prompt-ids" => self.prompt_ids = Some(flag.value()?),
            "-sys" | "--system-prompt" => self.system = Some(flag.value()?),
            "--prompt-cache" => self.prompt_cache = Some(flag.value()?),
            "--prompt-cache-ro" => self.prompt_cache_ro = true,
            "--console" => {
                let value = flag.value()?;
                self.console = Some(Spec::parse(value).map_err(|error| match error {
                    SpecError::UnknownBaud => UsageError::UnknownBaud(value),
                    SpecError::Malformed => UsageError::BadValue {
                        flag: flag.name,
                        value,
                        wanted: "DEV:BAUD[,crlf][,xonxoff][,echo][,wait=SECONDS]",
                    },
                })?);
            }
            "--framed" => self.framed = true,
            "--no-escape" => self.escape = false,
            "--raw" => self.chat = ChatChoice::Raw,
            "--chat" => {
                self.chat = ChatChoice::from_name(flag.value()?.to_bytes());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn generation_flag(&mut self, word: &str, flag: &mut Flag<'_>) -> Result<bool, UsageError> {
        match word {
            "-n" | "--predict" | "--n-predict" => self.tokens_max = flag.count(0)?,
            "-c" | "--ctx-size" => self.context = Some(flag.count(1)?),
            "-r" | "--stop" | "--reverse-prompt" => {
                let stop = flag.value()?;
                self.stops
                    .push(stop)
                    .map_err(|_| UsageError::TooManyStops)?;
            }
            "--ignore-eos" => self.ignore_eos = true,
            "-s" | "--seed" => {
                // As llama.cpp: -1 asks for a random one.
                self.seed = flag.parse("a number", |text| match text {
                    "-1" => Some(None),
                    text => text.parse().ok().map(Some),
                })?;
            }
            "--temp" => self.sampler.temperature = flag.float()?,
            "--top-k" => self.sampler.top_k = flag.count(0)? as u32,
            "--top-p" => self.sampler.top_p = flag.float()?,
            "--min-p" => self.sampler.min_p = flag.float()?,
            "--repeat-penalty" => self.sampler.repeat_penalty = flag.float()?,
            "--repeat-last-n" => self.sampler.repeat_last_n = flag.count(0)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn machine_flag(&mut self, word: &str, flag: &mut Flag<'_>) -> Result<bool, UsageError> {
        match word {
            "-t" | "--threads" => {
                self.threads = Some(flag.parse("a number from 1 to 64", |text| {
                    text.parse()
                        .ok()
                        .filter(|count| (1..=crate::sys::THREADS_MAX).contains(count))
                })?);
            }
            "--cpu-range" => self.cpu_range = Some(flag.parse("a list as 0-3,6", cpu_mask)?),
            "-b" | "--batch-size" => self.batch = flag.count(1)?,
            "--chunks" => self.chunks = Some(flag.count(1)?),
            "-ctk" | "--cache-type-k" => self.key_format = flag.cache_format()?,
            "-ctv" | "--cache-type-v" => self.value_format = flag.cache_format()?,
            "--budget" => self.budget = Some(flag.parse("bytes, as 1500M", bytes)?),
            "--force" => self.force = true,
            "--mlock" => self.mlock = true,
            "--prefault" => self.prefault = true,
            "--check-tensors" => self.check_tensors = true,
            "--sandbox" => self.sandbox = Some(true),
            "--no-sandbox" => self.sandbox = Some(false),
            "--isa" => {
                self.isa = Some(flag.parse("an instruction set of --help", Isa::from_name)?);
            }
            "--kernel" => {
                let choice = flag.parse("FORMAT=NAME, once a format", |text| {
                    let (format, name) = text.split_once('=')?;
                    let format = WeightFormat::ALL.into_iter().find(|f| f.name() == format)?;
                    self.kernels
                        .iter()
                        .all(|kernel| kernel.0 != format)
                        .then_some((format, name))
                })?;
                let _ = self.kernels.push(choice); // room for one a format
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn output_flag(&mut self, word: &str, flag: &mut Flag<'_>) -> Result<bool, UsageError> {
        match word {
            "--ids" => self.ids = true,
            "--no-bos" => self.bos = false,
            "--special" => self.special = true,
            "--profile" => self.profile = true,
            "--trace" => self.trace = Some(flag.value()?),
            "--logits" => self.logits = Some(flag.value()?),
            "--format" => {
                self.json = flag.parse("text or json", |name| match name {
                    "text" => Some(false),
                    "json" => Some(true),
                    _ => None,
                })?;
            }
            "--log-file" => self.log_file = Some(flag.value()?),
            "--log-format" => {
                let named = |name: &str| LogFormat::named(name.as_bytes());
                self.log_format = flag.parse("text, json or defmt", named)?;
            }
            "-v" | "--verbose" => self.verbose = true,
            "-q" | "--quiet" => self.quiet = true,
            "-h" | "--help" => self.command = Command::Help,
            "--version" => self.command = Command::Version,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `1500M` and the like, in powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_takes_one_unit() {
        assert_eq!(bytes("1500M"), Some(1500 << 20));
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("1KM"), None);
        assert_eq!(bytes("0"), None);
        assert_eq!(bytes("99999999999G"), None);
    }
}
