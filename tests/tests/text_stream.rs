//! The text stream: whole characters, stop texts, and nothing lost.

use runtime::sampler::Random;
use runtime::tokenizer::{Flow, STOP_BYTES_MAX, STOPS_MAX, StopError, TextStream};
use tests::vocabulary::{encode, with_file};
use tests::{model, vocab};

/// What a reader sees of some pieces: each call's text, and where it stopped.
fn stream(stops: &[&str], pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Flow) {
    let stops: Vec<&[u8]> = stops.iter().map(|stop| stop.as_bytes()).collect();
    let mut stream = TextStream::new(&stops).unwrap();
    let mut shown = Vec::new();
    let mut flow = Flow::Continue;
    for piece in pieces {
        flow = stream.push(piece.iter().copied(), &mut |text: &[u8]| {
            shown.push(text.to_vec())
        });
    }
    stream.finish(&mut |text: &[u8]| shown.push(text.to_vec()));
    (shown, flow)
}

fn text(stops: &[&str], pieces: &[&str]) -> (String, Flow) {
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    let (shown, flow) = stream(stops, &pieces);
    (String::from_utf8(shown.concat()).unwrap(), flow)
}

fn stopped(stop: usize) -> Flow {
    Flow::Stopped { stop }
}

#[test]
fn character_over_several_tokens_is_shown_whole() {
    let crab = "a\u{1f980}b".as_bytes();
    let (shown, flow) = stream(&[], &[&crab[..2], &crab[2..4], &crab[4..5], &crab[5..]]);
    assert_eq!(shown, [&b"a"[..], "\u{1f980}".as_bytes(), b"b"]);
    assert_eq!(flow, Flow::Continue);
}

#[test]
fn tokens_of_a_real_vocabulary_stream_as_whole_characters() {
    let text = "\u{1f44d}\u{1f3fd} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{a9e1}漢字 ẞ é";
    for path in [model("smollm2"), vocab("llama-spm"), vocab("llama-bpe")] {
        with_file(path, 1 << 16, |_, tokenizer, mut forward| {
            let ids = encode(tokenizer, &mut forward, text);
            let cut = |&id: &u32| {
                let bytes: Vec<u8> = tokenizer.token_bytes(id).collect();
                str::from_utf8(&bytes).is_err()
            };
            assert!(ids.iter().any(cut), "some characters are cut");
            let mut stream = TextStream::new(&[]).unwrap();
            if tokenizer.adds_space() {
                stream = stream.skip_first_space();
            }
            let mut shown = String::new();
            let mut show = |bytes: &[u8]| shown += str::from_utf8(bytes).expect("whole");
            for id in ids {
                stream.push(tokenizer.token_bytes(id), &mut show);
            }
            stream.finish(&mut show);
            assert_eq!(shown, text);
        });
    }
}

#[test]
fn text_that_ends_inside_a_character_is_shown_as_it_is() {
    let (shown, _) = stream(&[], &[b"ok \xF0\x9F", b"\x98"]);
    assert_eq!(shown, [&b"ok "[..], b"\xF0\x9F\x98"]);
}

#[test]
fn bytes_that_are_no_text_are_shown_as_they_are() {
    let (shown, _) = stream(&[], &[b"\x80", b"\xFFa", b"\xC3", b"(", b"\xE2\x28\xA1"]);
    assert_eq!(shown, [&b"\x80"[..], b"\xFFa", b"\xC3(", b"\xE2\x28\xA1"]);
}

#[test]
fn stop_text_over_several_tokens_is_not_shown() {
    assert_eq!(
        text(&["STOP"], &["one S", "TO", "P two"]),
        ("one ".into(), stopped(0))
    );
    assert_eq!(
        text(&["\n\n"], &["a\n", "b\n", "\nc"]),
        ("a\nb".into(), stopped(0))
    );
    assert_eq!(text(&["x"], &["x"]), (String::new(), stopped(0)));
}

#[test]
fn start_of_a_stop_text_is_held_back_until_it_is_none() {
    let (shown, flow) = stream(&["STOP"], &[b"one ST", b"O", b"RM"]);
    assert_eq!(shown, [&b"one "[..], b"STORM"]);
    assert_eq!(flow, Flow::Continue);
    assert_eq!(
        text(&["STOP"], &["one STO"]),
        ("one STO".into(), Flow::Continue)
    );
    // Its own start stands inside it.
    assert_eq!(
        text(&["aab"], &["aaa", "ab", "c"]),
        ("aa".into(), stopped(0))
    );
    assert_eq!(
        text(&["abab-"], &["ababab", "-"]),
        ("ab".into(), stopped(0))
    );
}

#[test]
fn nothing_is_shown_after_a_stop_text() {
    let (shown, flow) = stream(&["."], &[b"a.b", b"c", b"."]);
    assert_eq!((shown, flow), (vec![b"a".to_vec()], stopped(0)));
}

#[test]
fn of_several_stop_texts_the_first_to_end_counts_and_then_the_longest() {
    assert_eq!(
        text(&["three", "two"], &["one two three"]),
        ("one ".into(), stopped(1))
    );
    assert_eq!(text(&["b", "ab"], &["xab"]), ("x".into(), stopped(1)));
    assert_eq!(text(&["abcd", "bc"], &["xabcd"]), ("xa".into(), stopped(1)));
}

#[test]
fn stop_text_may_start_inside_a_character() {
    let stops: [&[u8]; 1] = [b"\x98\x80"];
    let mut stream = TextStream::new(&stops).unwrap();
    let mut shown = Vec::new();
    let flow = stream.push("a\u{1f600}b".bytes(), &mut |text: &[u8]| shown.extend(text));
    assert_eq!((shown, flow), (b"a\xF0\x9F".to_vec(), stopped(0)));
}

#[test]
fn first_space_is_left_out_where_asked() {
    for (asked, pieces, shown) in [
        (true, [" ", " a"], " a"),
        (true, [" a", " b"], "a b"),
        (true, ["a", " b"], "a b"),
        (false, [" a", " b"], " a b"),
    ] {
        let mut stream = TextStream::new(&[]).unwrap();
        if asked {
            stream = stream.skip_first_space();
        }
        let mut text = String::new();
        let mut show = |bytes: &[u8]| text += str::from_utf8(bytes).unwrap();
        for piece in pieces {
            stream.push(piece.bytes(), &mut show);
        }
        stream.finish(&mut show);
        assert_eq!(text, shown);
    }
}

#[test]
fn stop_texts_are_bounded() {
    let refusal = |stops: &[&[u8]]| TextStream::new(stops).err().expect("refused");
    let found = STOPS_MAX + 1;
    assert_eq!(
        refusal(&vec![&b"a"[..]; found]),
        StopError::TooMany { found }
    );
    assert_eq!(
        refusal(&[b"a", b""]),
        StopError::BadLength { index: 1, bytes: 0 }
    );
    let bytes = STOP_BYTES_MAX + 1;
    assert_eq!(
        refusal(&[&vec![b'a'; bytes]]),
        StopError::BadLength { index: 0, bytes }
    );
    assert!(TextStream::new(&[&[b'a'; STOP_BYTES_MAX][..]; STOPS_MAX]).is_ok());
}

/// What is left of a text by the plainest means.
fn before_stop<'t>(text: &'t [u8], stops: &[&[u8]]) -> (&'t [u8], Flow) {
    for end in 1..=text.len() {
        let mut ends: Vec<usize> = (0..stops.len()).collect();
        ends.retain(|&stop| text[..end].ends_with(stops[stop]));
        if let Some(&stop) = ends.iter().rev().max_by_key(|&&stop| stops[stop].len()) {
            return (&text[..end - stops[stop].len()], stopped(stop));
        }
    }
    (text, Flow::Continue)
}

#[test]
fn stream_shows_what_a_search_of_the_whole_text_leaves() {
    let mut random = Random::new(3);
    let mut pick = |below: usize| (random.bits() % below as u64) as usize;
    let units = ["a", "b", "\u{e9}", "\u{1f600}"];
    for _ in 0..20_000 {
        let mut word = |most: usize| -> String {
            (0..1 + pick(most))
                .map(|_| units[pick(units.len())])
                .collect()
        };
        let whole = word(12);
        let stops: Vec<String> = (0..3).map(|_| word(4)).collect();
        let stops: Vec<&[u8]> = stops[..pick(4)]
            .iter()
            .map(|stop| stop.as_bytes())
            .collect();

        let mut stream = TextStream::new(&stops).unwrap();
        let (mut shown, mut flow) = (Vec::new(), Flow::Continue);
        let mut rest = whole.as_bytes();
        while !rest.is_empty() && flow == Flow::Continue {
            let (piece, after) = rest.split_at(1 + pick(rest.len()));
            rest = after;
            flow = stream.push(piece.iter().copied(), &mut |text: &[u8]| {
                assert!(str::from_utf8(text).is_ok(), "shown in whole characters");
                shown.extend(text);
            });
        }
        stream.finish(&mut |text: &[u8]| shown.extend(text));
        assert_eq!(
            (&shown[..], flow),
            before_stop(whole.as_bytes(), &stops),
            "{whole} {stops:?}"
        );
    }
}

#[test]
fn long_tokens_and_long_stop_texts_fit() {
    let stop = "ab".repeat(STOP_BYTES_MAX / 2);
    let almost = "ab".repeat(STOP_BYTES_MAX / 2 - 1);
    let whole = format!(
        "{}{almost}c{}{stop}tail",
        "x".repeat(2000),
        almost.repeat(9) + "-"
    );
    let (shown, flow) = text(&[&stop], &[&whole]);
    assert_eq!(flow, stopped(0));
    assert_eq!(shown.len(), whole.find(&stop).unwrap());
}
