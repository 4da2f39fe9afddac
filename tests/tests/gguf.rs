//! The container reader: what is malformed is refused, by an error that names the cause.

use runtime::gguf::GgufError::*;
use runtime::gguf::{Gguf, GgufError, HEADER_BYTES_MAX, KEYS_MAX, Name, TENSORS_MAX, Value};
use std::time::{Duration, Instant};
use tests::gguf_writer::GgufWriter;

/// Value types (GGUF specification, `gguf_metadata_value_type`).
const U8: u32 = 0;
const I32: u32 = 5;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const F64: u32 = 12;
/// Tensor types (GGUF specification, `ggml_type`).
const TENSOR_F32: u32 = 0;
const TENSOR_Q4_0: u32 = 2;
const TENSOR_Q4_K: u32 = 12;
const TENSOR_I8: u32 = 24;

/// A file, why it is refused, and what the message says of that.
type Case = (Vec<u8>, GgufError, &'static str);

fn new() -> GgufWriter {
    GgufWriter::new()
}

fn refused(cases: impl IntoIterator<Item = Case>) {
    for (number, (file, wanted, text)) in cases.into_iter().enumerate() {
        let error = match Gguf::check(&file) {
            Ok(_) => panic!("case {number}: accepted, wanted {wanted:?}"),
            Err(error) => error,
        };
        assert_eq!(error, wanted, "case {number}");
        let message = error.to_string();
        assert!(message.contains(text), "case {number}: {message}");
        assert!(!message.contains(char::is_control), "case {number}");
    }
}

/// A file with a value of every shape and two tensors, the second a matrix.
fn valid() -> Vec<u8> {
    new()
        .string("general.architecture", "llama")
        .u32("general.alignment", 32)
        .bool("flag", true)
        .f32("scale", 0.5)
        .raw("wide", F64, &1.5f64.to_le_bytes())
        .strings("texts", &["a", "", "\u{e9}"])
        .i32s("numbers", &[-1, 2])
        .array("bools", BOOL, 2, &[0, 1])
        .tensor("first", &[3], TENSOR_F32, &[1; 12])
        .tensor("second", &[32, 2], TENSOR_Q4_0, &[2; 36])
        .finish()
}

#[test]
fn a_valid_file_is_read() {
    for version in [2u32, 3] {
        let mut file = valid();
        file[4..8].copy_from_slice(&version.to_le_bytes());
        let gguf = Gguf::check(&file).expect("the file is well formed");
        assert_eq!(gguf.string("general.architecture"), Ok(Some(&b"llama"[..])));
        assert_eq!(gguf.bool("flag"), Ok(Some(true)));
        assert_eq!(gguf.f32("wide"), Ok(Some(1.5)));
        assert_eq!(gguf.u32("absent"), Ok(None));
        let numbers = gguf.array("numbers").unwrap().unwrap();
        assert!(numbers.integers().unwrap().eq([-1, 2]));
        let texts = gguf.array("texts").unwrap().unwrap();
        assert!(
            texts
                .strings()
                .unwrap()
                .eq(["a", "", "\u{e9}"].map(str::as_bytes))
        );

        let second = gguf.tensor("second").expect("it is in the file");
        assert_eq!((second.shape, second.bytes), ([32, 2, 1, 1], 36));
        let start = gguf.file_offset(&second) as usize;
        assert_eq!(file[start..start + 36], [2; 36]);
        assert!(gguf.tensor("secon").is_none() && gguf.tensor("second ").is_none());
    }
}

#[test]
fn names_are_shown_escaped() {
    // Neither NUL nor control characters are refused; a serial console must not obey them.
    let file = new().bool("a\0\u{1b}[2J", true).finish();
    let gguf = Gguf::check(&file).expect("such a key is allowed");
    let wrong = gguf.u32("a\0\u{1b}[2J").expect_err("it is a bool");
    assert_eq!(
        wrong.to_string(),
        r"key a\x00\x1b[2J is not an unsigned 32-bit integer"
    );
    let text = b"\xff\x00\x1b";
    let file = new().string("text", text).finish();
    let gguf = Gguf::check(&file).expect("such a string is allowed");
    assert!(matches!(gguf.get("text"), Some(Value::String(found)) if found == text));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let file = valid();
    let last = "second";
    for end in 0..file.len() {
        // The padding behind the last tensor may be absent: other writers leave it out.
        let needed = file.len() - 64 + 36;
        match Gguf::check(&file[..end]) {
            Ok(_) => assert!(end >= needed, "accepted when cut at {end}"),
            Err(TruncatedHeader) => assert!(end < needed),
            Err(Truncated {
                tensor,
                needs,
                file,
            }) => {
                assert!(end < needed && file == end as u64);
                assert!(tensor == Name::new("first") || needs == needed as u64);
            }
            Err(other) => panic!("cut at {end}: {other}"),
        }
    }
    let cut = file.len() - 64 + 35;
    let error = Gguf::check(&file[..cut]).err().expect("a byte is missing");
    let message = error.to_string();
    assert!(
        message.contains(&format!("{cut} bytes")) && message.contains(last),
        "{message}"
    );
}

#[test]
fn what_is_no_gguf_file_is_refused() {
    let magic = |text: &str, hint| {
        let found = text.as_bytes()[..4].try_into().unwrap();
        (text.as_bytes().to_vec(), NotGguf { found }, hint)
    };
    refused([
        (vec![], TruncatedHeader, "truncated header"),
        (b"GGU".to_vec(), TruncatedHeader, "truncated header"),
        (b"GGUF".to_vec(), TruncatedHeader, "truncated header"),
        magic(
            "FUGG\u{3}\0\0\0",
            "not a GGUF file: it starts with \"FUGG\"",
        ),
        magic("ggjt", "not a GGUF file"),
        magic("GGML", "not a GGUF file"),
        magic("PK\u{3}\u{4}", r"PK\x03\x04"),
        magic(
            "version https://git-lfs.github.com/spec/v1",
            "git-lfs pointer",
        ),
        magic("<!DOCTYPE html>", "HTML"),
        magic("<!doctype html>", "HTML"),
        magic("<html>", "HTML"),
    ]);
    for (version, text) in [
        (0, "version 0 "),
        (1, "version 1 "),
        (4, "version 4 "),
        (0x0200_0000, "big-endian"),
        (0x0300_0000, "big-endian"),
    ] {
        refused([(
            new().version(version).finish(),
            UnsupportedVersion { version },
            text,
        )]);
    }
}

#[test]
fn counts_are_not_believed() {
    for count in [TENSORS_MAX as u64 + 1, 1 << 63, u64::MAX] {
        let file = new().counts(count, 0).finish();
        refused([(file, TooManyTensors { count }, "tensors, at most 4096")]);
    }
    for count in [KEYS_MAX as u64 + 1, 500_000_000, 1 << 63, u64::MAX] {
        let file = new().counts(0, count).finish();
        assert_eq!(file.len(), 24);
        refused([(file, TooManyKeys { count }, "keys, at most 1024")]);
    }
    // Believed, but not there.
    refused([(4096, 0), (0, 1024)].map(|(tensors, keys)| {
        let file = new().counts(tensors, keys).finish();
        (file, TruncatedHeader, "truncated header")
    }));
}

#[test]
fn malformed_keys_are_refused() {
    let what = "key";
    let long = |len: u64| LongName {
        what,
        len,
        max: 256,
    };
    let name = Name::from_bytes(b"k\xff\x1b");
    let length = |len: u64| new().record(&len.to_le_bytes()).finish();
    let too_long = "k".repeat(257);
    refused([
        (
            new().bool("", true).finish(),
            EmptyName { what },
            "an empty key",
        ),
        (
            new().bool(&too_long, true).finish(),
            long(257),
            "a key of 257 bytes, at most 256",
        ),
        (length(u64::MAX), long(u64::MAX), "at most 256"),
        (length(1 << 63), long(1 << 63), "at most 256"),
        (length(256), TruncatedHeader, "truncated header"),
        (
            new().raw(b"k\xff\x1b", BOOL, &[1]).finish(),
            NameNotUtf8 { what, name },
            r"key k\xff\x1b is not UTF-8",
        ),
        (
            new()
                .bool("twice", true)
                .u32("between", 1)
                .u32("twice", 1)
                .finish(),
            DuplicateKey {
                key: Name::new("twice"),
            },
            "key twice stands twice",
        ),
    ]);
    let longest = new().bool(&"k".repeat(256), true).finish();
    assert!(Gguf::check(&longest).is_ok());
}

#[test]
fn malformed_values_are_refused() {
    let key = Name::new("k");
    let unknown = |found| UnknownValueType { key, found };
    let array = |kind, count, bytes: &[u8]| new().array("k", kind, count, bytes).finish();
    let string = |len: u64| new().raw("k", STRING, &len.to_le_bytes()).finish();
    let cut = |file| (file, TruncatedHeader, "truncated header");
    // Ten thousand arrays in one another: the second is refused, none is entered.
    let mut nested = [ARRAY.to_le_bytes().as_slice(), &1u64.to_le_bytes()].concat();
    nested = nested.repeat(10_000);
    refused([
        (
            new().raw("k", 13, &[0; 8]).finish(),
            unknown(13),
            "key k: unknown type 13",
        ),
        (
            new().raw("k", u32::MAX, &[]).finish(),
            unknown(u32::MAX),
            "type 4294967295",
        ),
        (array(13, 1, &[0; 8]), unknown(13), "key k: unknown type 13"),
        (
            array(u32::MAX, 1, &[0; 8]),
            unknown(u32::MAX),
            "type 4294967295",
        ),
        (
            array(ARRAY, 1, &nested),
            NestedArray { key },
            "key k: an array of arrays",
        ),
        (
            new().raw("k", ARRAY, &nested).finish(),
            NestedArray { key },
            "array of arrays",
        ),
        (
            new().raw("k", BOOL, &[2]).finish(),
            BadBool { key },
            "key k: a bool",
        ),
        (
            array(BOOL, 3, &[0, 1, 2]),
            BadBool { key },
            "neither 0 nor 1",
        ),
        cut(string(1 << 63)),
        cut(string(u64::MAX)),
        cut(string(1 << 30)),
        cut(array(U8, 1 << 63, &[0; 8])),
        cut(array(U8, 9, &[0; 8])),
        cut(array(I32, 1 << 62, &[0; 8])), // times four: 2^64
        cut(array(F64, 1 << 61, &[0; 8])), // times eight: 2^64
        cut(array(STRING, 1 << 61, &[0; 8])),
        cut(array(STRING, u64::MAX, &[0; 8])),
        cut(array(STRING, 2, &[0; 15])),
        cut(array(STRING, 1, &u64::MAX.to_le_bytes())),
    ]);
}

#[test]
fn malformed_alignments_are_refused() {
    const KEY: &str = "general.alignment";
    for found in [0, 1, 4, 13, 24, 1 << 21, 1 << 30, 1 << 31, u32::MAX] {
        let file = new().u32(KEY, found).finish();
        refused([(
            file,
            BadAlignment { found },
            "is not a power of two from 8 to 1048576",
        )]);
    }
    let key = Name::new(KEY);
    let wanted = "an unsigned 32-bit integer";
    refused(
        [
            new().string(KEY, "32"),
            new().f32(KEY, 32.0),
            new().bool(KEY, true),
            new().i32s(KEY, &[32]),
            new().raw(KEY, I32, &(-32i32).to_le_bytes()),
        ]
        .map(|file| (file.finish(), WrongType { key, wanted }, KEY)),
    );
}

#[test]
fn malformed_tensor_names_are_refused() {
    let what = "tensor name";
    let named = |name: &[u8]| new().tensor_info(name, &[1], TENSOR_F32, 0).finish();
    let name = Name::from_bytes(b"t\xc3\x00");
    let twice = new()
        .tensor("twice", &[1], TENSOR_F32, &[0; 4])
        .tensor("between", &[1], TENSOR_F32, &[0; 4])
        .tensor("twice", &[1], TENSOR_F32, &[0; 4]);
    refused([
        (named(b""), EmptyName { what }, "an empty tensor name"),
        (
            named(&[b't'; 65]),
            LongName {
                what,
                len: 65,
                max: 64,
            },
            "a tensor name of 65 bytes, at most 64",
        ),
        (
            named(b"t\xc3\0"),
            NameNotUtf8 { what, name },
            r"tensor name t\xc3\x00 is not UTF-8",
        ),
        (
            twice.finish(),
            DuplicateTensor {
                tensor: Name::new("twice"),
            },
            "tensor twice stands twice",
        ),
    ]);
    let longest = "t".repeat(64);
    let file = new().tensor(&longest, &[1], TENSOR_F32, &[0; 4]).finish();
    assert!(
        Gguf::check(&file)
            .expect("64 are allowed")
            .tensor(&longest)
            .is_some()
    );
}

#[test]
fn malformed_shapes_are_refused() {
    let tensor = Name::new("t");
    let bad = |dimensions, shape: &[u64]| {
        let writer = new().raw_tensor_info("t", dimensions, shape, TENSOR_F32, 0);
        (
            writer.finish(),
            BadShape { tensor },
            "tensor t: not 1 to 4 dimensions",
        )
    };
    refused([
        bad(0, &[]),
        bad(5, &[1; 5]),
        bad(u32::MAX, &[1; 4]),
        bad(1, &[0]),
        bad(2, &[4, 0]),
        bad(4, &[1, 1, 1, 0]),
    ]);
    let large = |kind, shape: &[u64]| {
        let file = new().tensor_info("t", shape, kind, 0).finish();
        (
            file,
            TensorTooLarge { tensor },
            "tensor t: its size overflows",
        )
    };
    refused([
        large(TENSOR_I8, &[(1 << 63) - 1, 2]),
        large(TENSOR_I8, &[1 << 40, 1 << 40]),
        large(TENSOR_I8, &[u64::MAX]),
        large(TENSOR_I8, &[u64::MAX, 2]),
        large(TENSOR_I8, &[u32::MAX.into(); 4]),
        large(TENSOR_I8, &[1 << 62]),
        large(TENSOR_F32, &[1 << 62]), // 2^62 elements count, their bytes do not
        large(TENSOR_Q4_0, &[1 << 32, 1 << 32]),
        large(TENSOR_I8, &[0x7fff_ffff_ffff_ffc0]), // padding it overflows next
    ]);
    let ragged = |kind, row| {
        let file = new().tensor_info("t", &[row, 2], kind, 0).finish();
        (
            file,
            RaggedRow { tensor },
            "tensor t: the row length is no multiple of the block",
        )
    };
    refused([
        ragged(TENSOR_Q4_0, 33),
        ragged(TENSOR_Q4_0, 31),
        ragged(TENSOR_Q4_K, 128),
        ragged(TENSOR_Q4_K, 257),
    ]);
}

#[test]
fn unknown_tensor_types_are_refused() {
    let tensor = Name::new("t");
    refused(
        [
            (4, "type 4 (Q4_2, Q4_3) was removed"),
            (5, "type 5 (Q4_2, Q4_3) was removed"),
            (31, "(Q4_0_4_4 and its like) was removed, use Q4_0"),
            (32, "was removed, use Q4_0"),
            (33, "was removed, use Q4_0"),
            (36, "type 36 was removed"),
            (37, "type 37 was removed"),
            (38, "type 38 was removed"),
            (99, "tensor t: unknown type 99"),
            (u32::MAX, "unknown type 4294967295"),
        ]
        .map(|(found, text)| {
            let file = new().tensor_info("t", &[256], found, 0).finish();
            (file, UnknownTensorType { tensor, found }, text)
        }),
    );
}

#[test]
fn tensors_that_do_not_lie_end_to_end_are_refused() {
    let second = |found| {
        let (tensor, expected) = (Name::new("b"), 64);
        let file = new()
            .tensor("a", &[9], TENSOR_F32, &[0; 36])
            .tensor_info("b", &[9], TENSOR_F32, found)
            .finish();
        (
            file,
            TensorOffset {
                tensor,
                found,
                expected,
            },
            "tensor b: offset",
        )
    };
    // Over the first, in its last block, not aligned, with a gap, and where the sum wraps.
    refused([0, 32, 36, 63, 65, 96, 1 << 63, u64::MAX, u64::MAX - 31].map(second));

    let tensor = Name::new("a");
    let (found, expected) = (32, 0);
    let file = new().tensor_info("a", &[1], TENSOR_F32, found).finish();
    refused([(
        file,
        TensorOffset {
            tensor,
            found,
            expected,
        },
        "offset 32, expected 0",
    )]);

    // Each size is believed, four of them with their padding wrap around: 4 * 2^62.
    let quarter = (1 << 62) - 1;
    let writer = (0..4u64).fold(new(), |writer, number| {
        let name = number.to_string();
        writer.tensor_info(name, &[quarter], TENSOR_I8, number << 62)
    });
    let tensor = Name::new("3");
    refused([(
        writer.finish(),
        TensorTooLarge { tensor },
        "tensor 3: its size overflows",
    )]);

    // Their sum just fits; that of it and the header does not.
    let less = (1 << 62) - 32;
    let writer = (0..4u64).fold(new(), |writer, number| {
        let name = number.to_string();
        writer.tensor_info(name, &[less], TENSOR_I8, number * less)
    });
    let error = Gguf::check(&writer.finish())
        .err()
        .expect("no file is so large");
    let first = Name::new("0");
    assert!(
        matches!(error, Truncated { tensor, .. } if tensor == first),
        "{error}"
    );
}

#[test]
fn header_that_is_larger_than_is_believed_is_refused() {
    let of_array = |bytes: usize| {
        let front = new().array("k", U8, bytes as u64, &[]).finish();
        let mut file = vec![0; front.len() + bytes]; // pages that nobody touches
        file[..front.len()].copy_from_slice(&front);
        file
    };
    let front = of_array(0).len();
    assert!(Gguf::check(&of_array(HEADER_BYTES_MAX - front)).is_ok());
    refused([(
        of_array(HEADER_BYTES_MAX - front + 1),
        LargeHeader,
        "a header of more than 268435456 bytes",
    )]);
    // What is cut is still that.
    let mut cut = of_array(1000);
    cut.truncate(500);
    refused([(cut, TruncatedHeader, "truncated header")]);
}

#[test]
fn the_largest_header_takes_no_time() {
    // Names that differ only at their ends, each once since the factor is odd and the counts are
    // powers of two, in an order that no sort finds done.
    let scattered = |count: usize| (0..count).map(move |i| i * 1_640_531 % count);
    let mut writer = new();
    for number in scattered(KEYS_MAX) {
        writer = writer.u32(&format!("{number:0>256}"), 1);
    }
    for number in scattered(TENSORS_MAX) {
        writer = writer.tensor(&format!("{number:0>64}"), &[1], TENSOR_I8, &[0]);
    }
    let file = writer.finish();

    let start = Instant::now();
    let gguf = Gguf::check(&file).expect("it is well formed");
    let checked = start.elapsed();
    let last = format!("{:0>64}", TENSORS_MAX - 1);
    assert!(gguf.tensor(&last).is_some());
    println!("checked in {checked:?}");
    assert!(checked < Duration::from_secs(1), "{checked:?}");
}
