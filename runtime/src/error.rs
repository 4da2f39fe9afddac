//! Every way a run can fail: the rooms' errors in one sum, and the exit code of each.

use crate::arena::ArenaError;
use crate::chat::ChatError;
use crate::gguf::{GgufError, Name};
use crate::init::BootError;
use crate::kv::KvError;
use crate::load::LoadError;
use crate::model::ConfigError;
use crate::options::UsageError;
use crate::plan::DoesNotFit;
use crate::sampler::SamplerError;
use crate::sys::Errno;
use crate::tokenizer::{StopError, TokenizerError};
use core::ffi::CStr;
use core::fmt;
use kernels_asm::features::{Features, Isa};
use kernels_asm::registry::ResolveError;

/// Why a run failed.
#[derive(Clone, Copy, Debug)]
pub enum Error {
    /// The command line.
    Usage(UsageError),
    /// The system, of which this is the first process, is not as the kernel's command line says.
    Boot(BootError),
    /// `--isa` asks for what the CPU lacks.
    CpuFeature {
        /// The tier asked for.
        isa: Isa,
        /// What it needs and the CPU lacks.
        missing: Features,
    },
    /// `--kernel` asks for what does not exist or the CPU lacks.
    Kernel(ResolveError),
    /// A file could not be opened, read or written.
    File {
        /// Its path.
        path: &'static CStr,
        /// What the kernel said.
        errno: Errno,
    },
    /// The model's path is no regular file and no block device.
    NotAFile {
        /// The path.
        path: &'static CStr,
    },
    /// The model's container is malformed.
    Gguf(GgufError),
    /// The model cannot be run.
    Config(ConfigError),
    /// The KV cache cannot have the format asked for.
    Kv(KvError),
    /// The vocabulary cannot be used, or the text not be encoded.
    Tokenizer(TokenizerError),
    /// The chat template cannot be used.
    Chat(ChatError),
    /// A stop text cannot be used.
    Stop(StopError),
    /// The weights could not be loaded.
    Load(LoadError),
    /// The vocabulary and the embedding disagree on the number of tokens.
    VocabularySize {
        /// Texts in the vocabulary.
        texts: usize,
        /// Rows of the embedding.
        rows: usize,
    },
    /// The plan exceeds the budget.
    DoesNotFit(DoesNotFit),
    /// The prompt has more tokens than the context.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// A text to score that fills fewer than two contexts.
    TextTooShort {
        /// Its tokens.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// The prompt has more bytes than are read.
    PromptTooLarge {
        /// Bytes that are read at most.
        bytes_max: usize,
    },
    /// An empty prompt, for a model without a start token.
    EmptyPrompt,
    /// A text that the vocabulary has no token for, no part of it.
    NoTokens,
    /// A token id that the vocabulary does not have, or a word that is no number.
    BadPromptId,
    /// stdout is closed or full.
    Output(Errno),
    /// The file of `--prompt-cache` is something else.
    NoPromptCache {
        /// Which.
        path: &'static CStr,
    },
    /// No token could be chosen.
    Sampler(SamplerError),
    /// A tensor has a weight that is infinite or no number.
    WeightNotFinite {
        /// Which.
        tensor: Name,
    },
    /// Kernels that do not compute what they must.
    Kernels {
        /// How many.
        wrong: usize,
        /// Of how many.
        all: usize,
    },
    /// Logits that are not those of the golden checksum.
    Golden {
        /// Their checksum.
        found: u64,
        /// The golden one.
        expected: u64,
        /// Whose that is.
        of: &'static str,
    },
    /// A signal ended the run; with the exit code that it asks for.
    Cancelled(u8),
    /// The kernel does not give the memory that was planned.
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        errno: Errno,
    },
    /// `--mlock` is refused.
    Lock(Errno),
    /// The kernel gives no memory.
    System(Errno),
    /// A standard stream is closed, and nothing can be opened in its place.
    Streams(Errno),
    /// The kernel starts no more threads.
    Threads(Errno),
    /// The plan and the code disagree.
    Arena(ArenaError),
}

impl Error {
    /// What a failed read or write means: a signal that arrived meanwhile, or else `error`.
    pub fn of_io(errno: Errno, error: impl FnOnce(Errno) -> Error) -> Error {
        match crate::sys::pending_signal() {
            Some(code) if errno == Errno::INTERRUPTED => Error::Cancelled(code),
            _ => error(errno),
        }
    }

    /// What a failed call on a file means.
    pub fn of_file(path: &'static CStr, errno: Errno) -> Error {
        Error::of_io(errno, |errno| Error::File { path, errno })
    }

    /// The exit code, as documented in `--help`.
    pub fn exit_code(&self) -> u8 {
        use Error::*;
        match self {
            Cancelled(code) | Load(LoadError::Cancelled(code)) => *code,
            System(Errno::NO_MEMORY)
            | File {
                errno: Errno::NO_MEMORY,
                ..
            } => 6,
            System(_) | Streams(_) | Threads(_) | Arena(_) | Load(LoadError::Arena(_)) => 1,
            Usage(_) | Kv(_) | Stop(_) | BadPromptId => 2,
            EmptyPrompt | NoTokens | TextTooShort { .. } => 2,
            Kernel(ResolveError::UnknownKernel { .. }) => 2,
            Boot(
                BootError::Mount { .. }
                | BootError::NoFileSystem { .. }
                | BootError::NoDevice { .. },
            ) => 4,
            Boot(_) => 2,
            Chat(ChatError::UnknownName { .. } | ChatError::NeedsTemplate) => 2,
            CpuFeature { .. } | Kernel(ResolveError::KernelNeeds { .. }) => 3,
            File { .. }
            | NotAFile { .. }
            | Load(LoadError::Read { .. } | LoadError::Write { .. }) => 4,
            Gguf(_)
            | Config(_)
            | Chat(_)
            | Load(_)
            | VocabularySize { .. }
            | NoPromptCache { .. } => 5,
            Tokenizer(TokenizerError::Arena(_)) => 1,
            Tokenizer(_) => 5,
            DoesNotFit(_) | Memory { .. } | Lock(_) => 6,
            PromptTooLong { .. } | PromptTooLarge { .. } => 7,
            Output(_) => 8,
            Sampler(SamplerError::NotFinite { .. }) | WeightNotFinite { .. } => 9,
            Kernels { .. } | Golden { .. } => 10,
            Sampler(SamplerError::BadSetting { .. }) => 2,
            Sampler(_) => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Error::*;
        match *self {
            Usage(error) => write!(f, "{error} (see --help)"),
            Boot(error) => error.fmt(f),
            CpuFeature { isa, missing } => {
                write!(f, "--isa {}: this CPU lacks", isa.name())?;
                missing.names().try_for_each(|name| write!(f, " {name}"))
            }
            Kernel(ResolveError::UnknownKernel { format }) => {
                write!(
                    f,
                    "--kernel: no such kernel of {} (see rushlight kernels)",
                    format.name()
                )
            }
            Kernel(ResolveError::KernelNeeds { kernel, missing }) => {
                write!(f, "--kernel: {kernel} needs what is missing or masked:")?;
                missing.names().try_for_each(|name| write!(f, " {name}"))
            }
            File { path, errno } => write!(f, "{}: {errno}", path.to_bytes().escape_ascii()),
            NotAFile { path } => write!(
                f,
                "{}: neither a file nor a block device",
                path.to_bytes().escape_ascii()
            ),
            Gguf(error) => error.fmt(f),
            Config(error) | Load(LoadError::Config(error)) => error.fmt(f),
            Load(LoadError::Image(error)) => error.fmt(f),
            Load(LoadError::Write { errno }) => write!(f, "packed image: {errno}"),
            WeightNotFinite { tensor } => {
                write!(
                    f,
                    "tensor {tensor} has a weight that is infinite or no number"
                )
            }
            NoPromptCache { path } => write!(
                f,
                "{}: no prompt cache, and left as it is",
                path.to_bytes().escape_ascii()
            ),
            Kv(error) => error.fmt(f),
            Tokenizer(error) => error.fmt(f),
            Chat(error) => error.fmt(f),
            Stop(error) => write!(f, "-r: {error}"),
            Load(LoadError::Shrunk { tensor }) => write!(
                f,
                "tensor {tensor}: the model file became shorter while it was read"
            ),
            Load(LoadError::Read { tensor, errno }) => write!(f, "tensor {tensor}: {errno}"),
            VocabularySize { texts, rows } => {
                write!(
                    f,
                    "the vocabulary has {texts} texts, the embedding {rows} rows"
                )
            }
            DoesNotFit(unfit) => unfit.fmt(f),
            PromptTooLong { tokens, context } => {
                write!(f, "prompt of {tokens} tokens, context of {context} (-c)")
            }
            TextTooShort { tokens, context } => write!(
                f,
                "perplexity: text of {tokens} tokens, at least {} are needed (two contexts of {context}, -c)",
                2 * context
            ),
            PromptTooLarge { bytes_max } => write!(f, "prompt of more than {bytes_max} bytes"),
            EmptyPrompt => f.write_str("the prompt is empty"),
            NoTokens => f.write_str("the prompt has no tokens in the model's vocabulary"),
            BadPromptId => f.write_str("--prompt-ids: not a token id of this vocabulary"),
            Output(errno) => write!(f, "output: {errno}"),
            Sampler(error) => error.fmt(f),
            Kernels { wrong, all } => write!(
                f,
                "self-test: {wrong} of {all} kernels do not compute what they must"
            ),
            Golden {
                found,
                expected,
                of,
            } => write!(
                f,
                "golden logits: checksum {found:016x} here, {expected:016x} {of}"
            ),
            Cancelled(_) | Load(LoadError::Cancelled(_)) => f.write_str("cancelled by a signal"),
            Memory { bytes, errno } => write!(f, "{bytes} bytes of memory: {errno}"),
            Lock(errno) => write!(f, "--mlock: {errno}; ulimit -l says how much may be locked"),
            System(errno) => write!(f, "memory: {errno}"),
            Streams(errno) => write!(f, "a standard stream is closed: {errno}"),
            Threads(errno) => write!(f, "threads: {errno}; -t takes fewer"),
            Arena(error) | Load(LoadError::Arena(error)) => write!(
                f,
                "internal: {} bytes wanted, {} planned; please report this",
                error.wanted, error.left
            ),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Cancelled(code) => Error::Cancelled(code),
            error => Error::Load(error),
        }
    }
}

impl From<TokenizerError> for Error {
    fn from(error: TokenizerError) -> Self {
        match error {
            TokenizerError::Cancelled(code) => Error::Cancelled(code),
            error => Error::Tokenizer(error),
        }
    }
}

impl From<ChatError> for Error {
    fn from(error: ChatError) -> Self {
        match error {
            ChatError::Tokenizer(error) => error.into(),
            error => Error::Chat(error),
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::$variant(error)
            }
        })*
    };
}

from! {
    UsageError => Usage,
    BootError => Boot,
    ResolveError => Kernel,
    GgufError => Gguf,
    ConfigError => Config,
    KvError => Kv,
    SamplerError => Sampler,
    StopError => Stop,
    DoesNotFit => DoesNotFit,
    ArenaError => Arena,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenizers_errors_are_the_same_by_way_of_a_template() {
        let arena = ArenaError { wanted: 2, left: 1 };
        for (error, code) in [
            (TokenizerError::Arena(arena), 1),
            (TokenizerError::Cancelled(143), 143),
            (TokenizerError::HashCollisions, 5),
        ] {
            let by_chat = Error::from(ChatError::from(error));
            assert_eq!(by_chat.exit_code(), code);
            assert_eq!(Error::from(error).exit_code(), code);
        }
    }
}
