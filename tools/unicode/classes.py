#!/usr/bin/env python3
"""Writes runtime/src/tokenizer/unicode_table.rs: the classes of all code points, as ranges.

Run with a Python whose `unicodedata` is Unicode 15.1 (Python 3.13):

    python3.13 tools/unicode/classes.py > runtime/src/tokenizer/unicode_table.rs

15.1 is what the reference has (llama.cpp, src/unicode-data.cpp). To check that, give the script
that file: it compares every code point, and prints the number of code points in each class and the
digest that the unit test of `unicode.rs` holds.

    python3.13 tools/unicode/classes.py --check .../llama.cpp/src/unicode-data.cpp
"""

import re
import sys
import unicodedata

VERSION = "15.1.0"
CODE_POINTS = 0x110000
# The numbers are those of `Class` in unicode.rs.
OTHER, LETTER, NUMBER, MARK, PUNCTUATION, SPACE, SYMBOL = range(7)
CATEGORIES = {"L": LETTER, "N": NUMBER, "M": MARK, "P": PUNCTUATION, "S": SYMBOL}
# Unicode's White_Space property (PropList.txt): what `\s` means in the regular expressions.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}


def classes():
    """The class of each code point, by `unicodedata`."""
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, not {VERSION}")
    return bytes(SPACE if c in SPACES else CATEGORIES.get(unicodedata.category(chr(c))[0], OTHER)
                 for c in range(CODE_POINTS))


def reference_classes(path):
    """The class of each code point, by llama.cpp's unicode-data.cpp."""
    source = open(path).read()

    def table(name):
        return source.split(name, 1)[1].split("};", 1)[0]

    pairs = re.findall(r"\{0x([0-9A-F]+), 0x([0-9A-F]+)\}", table("unicode_ranges_flags"))
    ranges = [(int(start, 16), int(flags, 16)) for start, flags in pairs]
    by_flag = {0x02: NUMBER, 0x04: LETTER, 0x10: MARK, 0x20: PUNCTUATION, 0x40: SYMBOL}
    out = bytearray(CODE_POINTS)
    for (start, flags), (end, _) in zip(ranges, ranges[1:]):
        out[start:end] = bytes([by_flag.get(flags, OTHER)]) * (end - start)
    for code_point in re.findall(r"0x([0-9A-F]+)", table("unicode_set_whitespace")):
        out[int(code_point, 16)] = SPACE
    return bytes(out)


def digest(data):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    ours = classes()
    if sys.argv[1:2] == ["--check"]:
        theirs = reference_classes(sys.argv[2])
        print("code points that differ:", sum(a != b for a, b in zip(ours, theirs)))
        print("in each class:", [theirs.count(number) for number in range(7)])
        print(f"digest: {digest(theirs):#018x}")
        return
    starts = [c for c in range(CODE_POINTS) if c == 0 or ours[c] != ours[c - 1]]
    print("//! Classes of Unicode 15.1. Written by tools/unicode/classes.py; not to be edited.\n")
    print("/// First code point of each range, times 8, plus the number of its class; ascending.")
    print("#[rustfmt::skip]")
    print(f"pub(super) static RANGES: [u32; {len(starts)}] = [")
    for at in range(0, len(starts), 9):
        row = (f"0x{c << 3 | ours[c]:06x}," for c in starts[at:at + 9])
        print("    " + " ".join(row))
    print("];")


if __name__ == "__main__":
    main()
