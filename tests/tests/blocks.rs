//! What blocks of every weight format are worth, as GGML's own package has it: bit for bit, after
//! the way through packed records.

use kernels_asm::format::WeightFormat;
use kernels_asm::pack::{pack_group, unpack_row};

/// Made by `golden/make_blocks.py`.
const BLOCKS: &str = include_str!("../golden/blocks.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).expect("hexadecimal");
        u8::from_str_radix(text, 16).expect("hexadecimal")
    };
    pairs.iter().map(byte).collect()
}

#[test]
fn blocks_of_every_format_are_worth_what_ggml_says_in_every_row() {
    let mut found = Vec::new();
    for line in BLOCKS.lines() {
        let mut fields = line.split(' ');
        let [name, raw, values] = std::array::from_fn(|_| fields.next().expect("three fields"));
        let format = WeightFormat::ALL.into_iter().find(|f| f.name() == name);
        let format = format.unwrap_or_else(|| panic!("{name} has no kernels"));
        let raw = bytes(raw);
        let columns = raw.len() / format.block_bytes() * format.block_len();
        let expected = bytes(values);
        for r in 0..8 {
            let mut rows = [None; 8];
            rows[r] = Some(raw.as_slice());
            let mut group = vec![0; format.group_bytes(columns)];
            pack_group(format, rows, columns, &mut group);
            let mut out = vec![0.0; columns];
            unpack_row(format, &group, r, columns, &mut out);
            let out: Vec<u8> = out.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert!(out == expected, "{name}, row {r}");
        }
        found.push(format);
    }
    for format in WeightFormat::ALL {
        assert!(found.contains(&format), "{} is not there", format.name());
    }
}
