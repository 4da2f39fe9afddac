//! The framed mode: a JSON object a line (RFC 8259), from and to a program.
//!
//! A request is `{"prompt":"..."}`, with any of `system`, `n`, `temp`, `seed`, `stop` (a string, or
//! an array of them) and `id` (a string or a whole number, which comes back in every object of the
//! answer). A key that is not known, stands twice or has another type is an error: nothing is
//! guessed. An answer is objects with `text`, then one with `finish` and counts, or one with
//! `error` and the exit code that the error has elsewhere.

use super::port::Port;
use crate::error::Error;
use crate::generate::Ended;
use crate::log::escape;
use crate::tokenizer::{STOP_BYTES_MAX, STOPS_MAX};
use core::fmt::{self, Write};
use heapless::{String, Vec};
use picojson::{Event, PullParser, SliceParser};

/// Bytes of an `id` that is text.
const ID_BYTES_MAX: usize = 64;
/// Bytes of an unknown key that a message shows.
const KEY_BYTES: usize = 32;

/// What an answer's objects carry, to tell whose they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Id<'t> {
    /// A string.
    Text(&'t str),
    /// A whole number.
    Number(i64),
}

/// A request; what it does not say is none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Request<'t> {
    /// Comes back with the answer.
    pub id: Option<Id<'t>>,
    /// What is asked.
    pub prompt: &'t str,
    /// The system prompt.
    pub system: Option<&'t str>,
    /// Tokens at most.
    pub tokens_max: Option<usize>,
    /// The sampler's temperature.
    pub temperature: Option<f32>,
    /// The sampler's seed.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stops: Option<Vec<&'t [u8], STOPS_MAX>>,
}

/// Why a line is no request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// It is no JSON object.
    NotAnObject,
    /// A key that means nothing here, as far as it is shown.
    UnknownKey(String<KEY_BYTES>),
    /// A key stands twice.
    TwiceKey(&'static str),
    /// A value that the key does not take.
    BadValue {
        /// The key.
        key: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
    /// There is no `prompt`.
    MissingPrompt,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NotAnObject => f.write_str("not a JSON object"),
            FrameError::UnknownKey(key) => write!(f, "unknown key \"{key}\""),
            FrameError::TwiceKey(key) => write!(f, "key \"{key}\" stands twice"),
            FrameError::BadValue { key, wanted } => write!(f, "\"{key}\" takes {wanted}"),
            FrameError::MissingPrompt => f.write_str("no \"prompt\""),
        }
    }
}

/// Keys, and what they take.
const KEYS: [(&str, &str); 7] = [
    ("id", "a whole number, or a string of at most 64 bytes"),
    ("prompt", "a string"),
    ("system", "a string"),
    ("n", "a whole number from 0"),
    ("temp", "a number from 0"),
    ("seed", "a whole number from 0"),
    (
        "stop",
        "a string of 1 to 128 bytes, or an array of at most 8 of them",
    ),
];

/// A place for texts, taken from its front.
struct Texts<'t>(&'t mut [u8]);

impl<'t> Texts<'t> {
    fn keep(&mut self, text: &str) -> Option<&'t str> {
        let (kept, rest) = core::mem::take(&mut self.0).split_at_mut_checked(text.len())?;
        self.0 = rest;
        kept.copy_from_slice(text.as_bytes());
        core::str::from_utf8(kept).ok()
    }

    fn keep_stop(&mut self, text: &str) -> Option<&'t [u8]> {
        let is_allowed = (1..=STOP_BYTES_MAX).contains(&text.len());
        self.keep(text).filter(|_| is_allowed).map(str::as_bytes)
    }
}

impl<'t> Request<'t> {
    /// Reads a line. `texts` and `scratch` have room for as many bytes as the line has: a string is
    /// never longer than it is written. What was read before an error stays: the `id` may.
    ///
    /// # Errors
    /// The line is no request.
    pub fn read(
        &mut self,
        line: &[u8],
        texts: &'t mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), FrameError> {
        let mut texts = Texts(texts);
        let mut json = SliceParser::with_buffer_from_slice(line, scratch);
        if !matches!(json.next_event(), Ok(Event::StartObject)) {
            return Err(FrameError::NotAnObject);
        }
        let mut seen = [false; KEYS.len()];
        loop {
            let index = match json.next_event() {
                Ok(Event::Key(key)) => known_key(&key)?,
                Ok(Event::EndObject) => break,
                _ => return Err(FrameError::NotAnObject),
            };
            let (key, wanted) = KEYS[index];
            if core::mem::replace(&mut seen[index], true) {
                return Err(FrameError::TwiceKey(key));
            }
            match self.value(key, &mut json, &mut texts)? {
                Some(()) => {}
                None => return Err(FrameError::BadValue { key, wanted }),
            }
        }
        if !matches!(json.next_event(), Ok(Event::EndDocument)) {
            return Err(FrameError::NotAnObject);
        }
        let has_prompt = KEYS
            .iter()
            .zip(seen)
            .any(|(key, seen)| key.0 == "prompt" && seen);
        match has_prompt {
            true => Ok(()),
            false => Err(FrameError::MissingPrompt),
        }
    }

    /// Reads the value of a key; none if the key does not take it.
    fn value(
        &mut self,
        key: &str,
        json: &mut SliceParser<'_, '_>,
        texts: &mut Texts<'t>,
    ) -> Result<Option<()>, FrameError> {
        let event = json.next_event().map_err(|_| FrameError::NotAnObject)?;
        Ok(match (key, event) {
            ("id", Event::String(text)) if text.len() <= ID_BYTES_MAX => {
                texts.keep(&text).map(|text| self.id = Some(Id::Text(text)))
            }
            ("id", Event::Number(number)) => {
                let number = number.as_str().parse();
                number.ok().map(|number| self.id = Some(Id::Number(number)))
            }
            ("prompt", Event::String(text)) => texts.keep(&text).map(|text| self.prompt = text),
            ("system", Event::String(text)) => {
                texts.keep(&text).map(|text| self.system = Some(text))
            }
            ("n", Event::Number(number)) => {
                let number = number.as_str().parse();
                number.ok().map(|number| self.tokens_max = Some(number))
            }
            ("seed", Event::Number(number)) => {
                let number = number.as_str().parse();
                number.ok().map(|number| self.seed = Some(number))
            }
            ("temp", Event::Number(number)) => {
                let number = number.as_str().parse::<f32>().ok();
                let number = number.filter(|number| number.is_finite() && *number >= 0.0);
                number.map(|number| self.temperature = Some(number))
            }
            ("stop", Event::String(text)) => {
                let text = texts.keep_stop(&text);
                text.map(|text| self.stops = Some(Vec::from_iter([text])))
            }
            ("stop", Event::StartArray) => {
                let stops = stop_array(json, texts)?;
                stops.map(|stops| self.stops = Some(stops))
            }
            _ => None,
        })
    }
}

fn known_key(key: &str) -> Result<usize, FrameError> {
    let known = KEYS.iter().position(|known| known.0 == key);
    known.ok_or_else(|| {
        let mut shown = String::new();
        // What does not fit is cut.
        let _ = key.chars().try_for_each(|character| shown.push(character));
        FrameError::UnknownKey(shown)
    })
}

/// The rest of an array of strings; none if it holds something else, or too many.
fn stop_array<'t>(
    json: &mut SliceParser<'_, '_>,
    texts: &mut Texts<'t>,
) -> Result<Option<Vec<&'t [u8], STOPS_MAX>>, FrameError> {
    let mut stops = Vec::new();
    loop {
        let text = match json.next_event().map_err(|_| FrameError::NotAnObject)? {
            Event::String(text) => texts.keep_stop(&text),
            Event::EndArray => return Ok(Some(stops)),
            _ => None,
        };
        match text.map(|text| stops.push(text)) {
            Some(Ok(())) => {}
            _ => return Ok(None),
        }
    }
}

/// An object on its way out.
struct Object<'o, 'p> {
    port: &'o mut Port<'p>,
    fields: usize,
    /// What ended the writing.
    failed: Result<(), Error>,
}

impl<'o, 'p> Object<'o, 'p> {
    fn new(port: &'o mut Port<'p>, id: Option<Id<'_>>) -> Self {
        let mut object = Object {
            port,
            fields: 0,
            failed: Ok(()),
        };
        if object.port.was_cut() {
            let _ = object.write_char('\n'); // which ends what was left of another object
        }
        match id {
            None => object,
            Some(Id::Text(text)) => object.text("id", text.as_bytes()),
            Some(Id::Number(number)) => object.plain("id", number),
        }
    }

    fn name(&mut self, name: &str) {
        let before = if self.fields == 0 { '{' } else { ',' };
        self.fields += 1;
        let _ = write!(self, "{before}\"{name}\":"); // kept in `failed`
    }

    /// A number, or a truth value.
    fn plain(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.name(name);
        let _ = write!(self, "{value}");
        self
    }

    /// A string; bytes that are no UTF-8 become U+FFFD, which JSON cannot do without.
    fn text(mut self, name: &str, bytes: &[u8]) -> Self {
        self.name(name);
        let _ = self.write_char('"');
        for chunk in bytes.utf8_chunks() {
            let characters = chunk.valid().chars();
            let _ = characters
                .into_iter()
                .try_for_each(|character| escape(&mut self, character));
            if !chunk.invalid().is_empty() {
                let _ = self.write_char(char::REPLACEMENT_CHARACTER);
            }
        }
        let _ = self.write_char('"');
        self
    }

    /// Ends the object and its line.
    fn end(mut self) -> Result<(), Error> {
        let _ = self.write_str("}\n");
        self.failed
    }
}

impl Write for Object<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.failed = self.failed.and_then(|()| self.port.write(text.as_bytes()));
        self.failed.map_err(|_| fmt::Error)
    }
}

/// `{"ready":true}`: requests are taken from here on.
///
/// # Errors
/// stdout is closed.
pub fn write_ready(port: &mut Port<'_>) -> Result<(), Error> {
    Object::new(port, None).plain("ready", true).end()
}

/// A piece of an answer.
///
/// # Errors
/// stdout is closed.
pub fn write_text(port: &mut Port<'_>, id: Option<Id<'_>>, bytes: &[u8]) -> Result<(), Error> {
    Object::new(port, id).text("text", bytes).end()
}

/// The end of an answer.
///
/// # Errors
/// stdout is closed.
pub fn write_end(port: &mut Port<'_>, id: Option<Id<'_>>, ended: &Ended) -> Result<(), Error> {
    let (prefill_ms, decode_ms) = ended.spans_ms();
    Object::new(port, id)
        .text("finish", ended.finish.name().as_bytes())
        .plain("prefill_tokens", ended.prefilled)
        .plain("generated", ended.generated())
        .plain("prefill_ms", format_args!("{prefill_ms:.2}"))
        .plain("decode_ms", format_args!("{decode_ms:.2}"))
        .plain("seed", ended.seed)
        .end()
}

/// The end of an answer that failed, or of a line that is no request.
///
/// # Errors
/// stdout is closed.
pub fn write_error(
    port: &mut Port<'_>,
    id: Option<Id<'_>>,
    message: &str,
    code: u8,
) -> Result<(), Error> {
    Object::new(port, id)
        .text("error", message.as_bytes())
        .plain("code", code)
        .end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a line into `request`.
    fn read<'t>(line: &str, texts: &'t mut [u8]) -> (Request<'t>, Result<(), FrameError>) {
        let mut request = Request::default();
        let result = request.read(line.as_bytes(), texts, &mut [0; 256]);
        (request, result)
    }

    #[test]
    fn request_is_read_whole() {
        let line = r#" {"id":"a\"7","prompt":"\u00e9\n\ud83d\ude00","system":"s","n":0,"temp":0.25,
            "seed":18446744073709551615,"stop":["x","\ty"]} "#;
        let mut texts = [0; 256];
        let (request, result) = read(line, &mut texts);
        assert_eq!(result, Ok(()));
        let expected = Request {
            id: Some(Id::Text("a\"7")),
            prompt: "é\n😀",
            system: Some("s"),
            tokens_max: Some(0),
            temperature: Some(0.25),
            seed: Some(u64::MAX),
            stops: Some(Vec::from_iter([&b"x"[..], b"\ty"])),
        };
        assert_eq!(request, expected);
        let mut texts = [0; 256];
        let (request, result) = read(r#"{"stop":"x","prompt":"","id":-3}"#, &mut texts);
        assert_eq!(result, Ok(()));
        assert_eq!(request.id, Some(Id::Number(-3)));
        assert_eq!(request.stops, Some(Vec::from_iter([&b"x"[..]])));
        assert_eq!((request.seed, request.system), (None, None));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        use FrameError::*;
        let bad = |key| {
            let wanted = KEYS.iter().find(|known| known.0 == key).expect("a key").1;
            Err(BadValue { key, wanted })
        };
        for (line, expected) in [
            ("", Err(NotAnObject)),
            ("[]", Err(NotAnObject)),
            ("7", Err(NotAnObject)),
            (r#"{"prompt":"a"} {}"#, Err(NotAnObject)),
            (r#"{"prompt":"a","n":1]"#, Err(NotAnObject)),
            (r#"{"prompt":"a","stop":["x"}"#, Err(NotAnObject)),
            (r#"{"prompt":"a",}"#, Err(NotAnObject)),
            (r#"{"prompt":"a"#, Err(NotAnObject)),
            (r#"{"prompt":"\ud800"}"#, Err(NotAnObject)),
            ("{\"prompt\":\"a\tb\"}", Err(NotAnObject)),
            (r#"{"n":1}"#, Err(MissingPrompt)),
            (r#"{"prompt":"a","prompt":"b"}"#, Err(TwiceKey("prompt"))),
            (r#"{"prompt":7}"#, bad("prompt")),
            (r#"{"prompt":null}"#, bad("prompt")),
            (r#"{"prompt":{"prompt":"a"}}"#, bad("prompt")),
            (r#"{"n":-1}"#, bad("n")),
            (r#"{"n":1.5}"#, bad("n")),
            (r#"{"n":99999999999999999999}"#, bad("n")),
            (r#"{"temp":-0.5}"#, bad("temp")),
            (r#"{"temp":1e99}"#, bad("temp")),
            (r#"{"seed":-1}"#, bad("seed")),
            (r#"{"id":true}"#, bad("id")),
            (r#"{"stop":[1]}"#, bad("stop")),
            (
                r#"{"stop":["a","a","a","a","a","a","a","a","a"]}"#,
                bad("stop"),
            ),
            (r#"{"stop":""}"#, bad("stop")),
            (r#"{"stop":["a",""]}"#, bad("stop")),
            (
                r#"{"top_k":1}"#,
                Err(UnknownKey("top_k".try_into().expect("short"))),
            ),
        ] {
            assert_eq!(read(line, &mut [0; 256]).1, expected, "{line}");
        }
        let long = "éééééééééééééééééééé";
        let mut line = String::<64>::new();
        write!(line, "{{\"{long}\":1}}").expect("room");
        let Err(UnknownKey(shown)) = read(&line, &mut [0; 256]).1 else {
            panic!("an unknown key")
        };
        assert_eq!(shown.as_str(), &long[..KEY_BYTES]);
    }

    #[test]
    fn id_that_was_read_before_an_error_stays() {
        let mut texts = [0; 256];
        let (request, result) = read(r#"{"id":7,"prompt":false}"#, &mut texts);
        assert_eq!((request.id, result.is_err()), (Some(Id::Number(7)), true));
    }
}
