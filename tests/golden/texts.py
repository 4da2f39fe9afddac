"""The texts of the tokenizer golden files: a hand-made list plus seeded random strings.

Used by make_tokens.py. `python3 texts.py` prints how many texts there are and how many bytes.
All are valid UTF-8 except those of `raw()`. The order is fixed; duplicates are dropped.
"""

import random
import unicodedata

# Unicode's White_Space code points and some that only look like white space.
SPACES = [0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
          0x3000]
LOOK_LIKE_SPACES = [0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x115F, 0x3164]

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, STRASSE, ẞ",
    "Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis ; « ça va ? » — oui…",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, ¿no? ¡Sí!",
    "Zażółć gęślą jaźń; příliš žluťoučký kůň úpěl ďábelské ódy",
    "Iğdır'da ılık şıra İÇTİ; Þjóðleikhúsið; Đorđe; Māori; ŵ ŷ ǆ ǅ Ǆ",
    "Chữ quốc ngữ: Cửa Việt, nghiêng, ươn ướt, Nguyễn Đình Chiểu",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖ и ёж; Їжак, ґанок, ўсё, љубав",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ὦ ἄνδρες Ἀθηναῖοι, ΟΔΥΣΣΕΎΣ ς σ",
    "مرحبا بالعالم، كيف حالك؟ اللُّغَةُ العَرَبِيَّة ١٢٣٤٥ لا إله",
    "فارسی: می‌خواهم کتاب‌ها را بخوانم؛ ۱۲۳۴",
    "שלום עולם! עִבְרִית מְנֻקֶּדֶת, 123 ״ציטוט״",
    "नमस्ते दुनिया! क्षत्रिय, श्री, हिन्दी में १२३ संख्याएँ।",
    "বাংলা ভাষা, தமிழ் மொழி, తెలుగు, ಕನ್ನಡ, മലയാളം, ગુજરાતી, ਪੰਜਾਬੀ, සිංහල",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่างระหว่างคำ ๑๒๓ ฿",
    "ພາສາລາວ កាន់តែពិសេសអាចខលចេញ မြန်မာဘာသာ བོད་སྐད་ ᠮᠣᠩᠭᠣᠯ",
    "我能吞下玻璃而不伤身体。漢字、簡體與繁體；「你好」！１２３４ＡＢＣ",
    "私はガラスを食べられます。それは私を傷つけません。ｶﾞﾗｽ カタカナ ひらがな々〆ヶ",
    "나는 유리를 먹을 수 있어요. 한국어 띄어쓰기 테스트; 각각 ㄱㄴㄷ",
    "ქართული ენა, Հայերեն լեզու, አማርኛ ቋንቋ, ᏣᎳᎩ, ᚠᛇᚻ᛫ᛒᛦᚦ, 𐍈𐌰𐌹, 𓀀𓁐, 𐤀𐤁, 𝒜𝓁𝑔𝑒𝒷𝓇𝒶 𝟙𝟚𝟛",
    "Привет world 你好 مرحبا שלום नमस्ते สวัสดี 안녕 ola",
    "aбcд eжzи α1β2 ا1ب 中a文b",
    "fiﬁ ﬂ ﬃ Ǳ ㎏ ℃ № ™ ½ ¼ Ⅷ ⅷ ① ⑳ ² ³ ₁ ٣ ۴ 四 〇 ৪",
    "e = mc²; H₂O; x ≤ y ∧ y ≥ z → ∀n∈ℕ: ∑ᵢ aᵢ ≠ ∞ ± √2 ≈ 1.414 € £ ¥ ₹ ₿ ¢",
]

EMOJI = [
    "😀", "🙂🙃", "👍🏽 👍🏿", "👨‍👩‍👧‍👦", "🏳️‍🌈 🏴‍☠️", "🇩🇪🇫🇷🇯🇵", "🇺🇸 🇬🇧", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "❤️ ❤ ☺︎ ☺️", "1️⃣2️⃣#️⃣*️⃣", "👩🏾‍🚀 in 🚀",
    "😶‍🌫️ (multiple)", "🤷🏻‍♀️!!! 🧑‍💻", "🥹🫠🫨 new ones", "text🦙.cpp", "🎉🎉🎉🎉🎉🎉🎉🎉", "☃ ★ ✓ ✗ → ⇒ ▁ █ ░ ┌─┐", "🀄🃏🎴",
]

CODE = [
    "fn main() {\n    let x: Vec<u8> = vec![0u8; 1_024];\n    println!(\"{:?}\", &x[..4]);\n}\n",
    "#include <stdio.h>\n\nint main(void)\n{\n\tprintf(\"%d\\n\", 0x7fffffff);\n\treturn 0; /* ok */\n}\n",
    "def f(a, b=None, *args, **kw):\n    \"\"\"Doc.\"\"\"\n    return [i ** 2 for i in range(10) if i % 2 != 0]\n",
    "const f = async (x) => { await fetch(`/api/${x}?q=1&r=2`); return x?.y ?? null; };",
    "SELECT a.id, COUNT(*) FROM t AS a LEFT JOIN u ON u.id = a.id WHERE a.x >= 3.14e-5 GROUP BY 1;",
    "<!DOCTYPE html>\n<html lang=\"en\"><body class='a b'>&nbsp;&amp;<br/></body></html>",
    "{\"key\": [1, 2.50, -3e10, true, null], \"nested\": {\"s\": \"\\u00e9\\n\"}}",
    "for f in *.txt; do sed -i 's/foo/bar/g' \"$f\" && echo \"$f\" >> log 2>&1; done",
    "public static void main(String[] args) throws IOException { int[] a = {1,2}; a[0]++; }",
    "module Main where\nmain :: IO ()\nmain = mapM_ (putStrLn . show) $ zip [1..] \"abc\"",
    "    mov x0, #1\n    sdot v0.4s, v1.16b, v2.4b[0]\n.Lloop:\tsubs x3, x3, #16\n    b.ne .Lloop",
    "key: value\nlist:\n  - a\n  - b: c\n\t# a tab\n---\n[section]\nx = \"y\"",
    "\\begin{equation}\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}\\end{equation}",
    "| a | b |\n|---|:-:|\n| 1 | **2** |\n\n```py\nx\n```\n> quote\n* item\n1. one",
    "camelCaseWord snake_case_word SCREAMING_CASE kebab-case-word PascalCaseHTTPServer x86_64 utf8mb4",
    "C:\\Users\\me\\file.txt /usr/local/bin/x ../../a/b.c user@example.com a.b.c:8080/path?x=1#frag",
    "if (a&&b||!c) {x<<=2;y>>=3;z^=~w;p->q::r<T>();}",
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n",
]

CONTRACTIONS = [
    "I'm you're he's she'd we'll they've don't it's", "I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T IT'S",
    "'s 't 're 've 'm 'll 'd", "'S 'T 'RE 'VE 'M 'LL 'D", "'Re 'vE 'lL", "x's1 1's 's's '''s", "o'clock 'tis 'twas rock'n'roll",
    "I’m you’re it’s", "'sam 'tom 'red 'very 'me 'llama 'dog", " 's  's\t's\n's", "'", "''", "' '", "'s", "'l", "'ll'", "'é 'ñ",
]

PUNCTUATION = [
    "!", "!!", "!!!", "!!!!!!", "?!?!?!", "...", "....", " ...", "—", "–—―", "---", "-----", "=" * 10, "=" * 40, "#" * 7, "*" * 65,
    "_" * 33, "~~~", "((()))", "[[{{}}]]", "<<<>>>", ";;;;", ":::::", "``` ` ``", "\"\"\"", "“”‘’«»‹›", "$$$", "%%%", "^^^", "&&&",
    "@@@", "\\\\\\", "///", "|||", " !", "  !", "   !", "! !", "a!b", "a !b", "a! b", "a ! b", "1!2", "$100.00", "50%", "(a)", " (a) ",
    "a,b;c:d.e", "-1", "--x", "+1-1", "，。！？；：（）【】《》", "·•‣…‥‰†‡§¶", "\u0964\u0965\u060c\u061b\u061f",
]

SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b",
    " <|im_start|> ", "<|im_start|><|im_start|>", "<|im_start", "im_start|>", "<| im_start |>", "<s>", "</s>", "<unk>", "<s>[INST] Hi [/INST]",
    "a</s>b", " </s> ", "<s></s>", "</s></s></s>", "x<s>y<unk>z", "< s>", "</ s>", "<0x0A>", "<0x00><0xFF>", "a<0x41>b", "<repo_name>", "<reponame>x",
    "<file_sep>", "<filename>a.py", "<gh_stars>10", "<issue_start><issue_comment><issue_closed>", "<jupyter_start><jupyter_text>",
    "<jupyter_code><jupyter_output><jupyter_script>", "<empty_output>", "<|system|>\nYou are</s>\n<|user|>\nHi</s>\n<|assistant|>\n",
    "<|begin_of_text|><|eot_id|>", "<pad><bos><eos>", "\u2581", "\u2581\u2581a", "a\u2581b \u2581 c", "\u0120the", "\u010a", "<s", "</s", "s>", "/s>",
]

WORDS = [
    "", "a", "A", "z", " a", "a ", " a ", "  a", "the", " the", "The", " The", "THE", "tHe", "Hello", " Hello", "hello world", "Hello, world!",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis", "antidisestablishmentarianism" * 6, "Lopadotemachoselachogaleokranioleipsano",
    "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz", "abcdefghijklmnopqrstuvwxyz" * 12, "qzxjkvbwp" * 25, "ACGT" * 80,
    "dGhpcyBpcyBiYXNlNjQgdGV4dCB3aXRoIHBhZGRpbmc=", "deadbeefcafebabe0123456789abcdef", "%E4%BD%A0%20%F0%9F%98%80",
    "lIl1|I0OoQ", "aAaAaAaA", "ab" * 150, "na " * 60, "ha" * 40 + "!", "word " * 30, "supercalifragilisticexpialidocious",
    "Dr. Smith's e-mail (2nd ed.), pp. 3-4, cost $1,234.56 on 12/31/1999 at 11:59pm.", "i.e., e.g., etc., vs., U.S.A., Ph.D.",
    "What is the capital of France?", "Once upon a time, in a land far, far away, there lived", "Line one\nLine two\n\nParagraph two\n",
]


def numbers():
    """Numbers of many digit lengths, with and without separators and neighbours."""
    out = [("1234567890" * 10)[:n] for n in (*range(1, 18), 32, 64, 100)]
    out += [" 7", "  42", "a1", "1a", "a1b2c3", "3.14159", "1,234,567", "1_000", "0x1F", "1e10", "-273.15", "007", "2024-12-31",
            "10:30", "192.168.0.1", "1 2 3 4", "1  2", "½", "a½", "١٢٣", "１２３", "๓๔", "x² y³", "Ⅻ Ⅻ", "②②", "㉈", "𝟎𝟗", "1\n2\n3", "1'2", "9's"]
    return out


def whitespace():
    """Runs of spaces, tabs and line ends of many lengths, and every Unicode space."""
    out = [" " * n for n in (*range(1, 20), 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 255)]
    out += ["\t" * n for n in (*range(1, 9), 16, 17)] + ["\n" * n for n in (*range(1, 9), 16, 17, 33)]
    out += ["\r", "\r\r", "\r\n", "\r\n\r\n", "\n\r", "\r\n" * 5, "a\r\nb\r\n", "a\rb", "a\nb", "a\n\nb", "a\n b", "a \nb", "a \n b", "a\n\n\n  b"]
    out += [f"a{' ' * n}b" for n in range(1, 10)] + [f"{' ' * n}x" for n in (1, 2, 3, 4, 8, 16)] + [f"x{' ' * n}" for n in (1, 2, 3, 4, 8)]
    out += ["\t a", " \ta", "a\t\tb", "a \t \t b", "\n a", " \n", "\n ", " \n \n ", "\t\n\t\n", "\n\t\n\tx", "a\x0bb\x0cc", "  \n   \n    end"]
    out += ["".join(f"{chr(c)}a{chr(c)}{chr(c)}b " for c in SPACES[i:i + 4]) for i in range(0, len(SPACES), 4)]
    out += [chr(c) for c in SPACES + LOOK_LIKE_SPACES] + [f"a{chr(c)}b" for c in LOOK_LIKE_SPACES]
    out += [" \u00a0 ", "\u00a0\u00a0\u00a0x", "x \u3000 y", "\u2028\u2029", "\ufeffHello", "\u3000 a", "  \u2003!", "a\u200bb\u200bc", "a\x85\x85b"]
    return out


def controls():
    """Every C0 and C1 control and DEL, alone in a word and in runs."""
    out = [f"a{chr(c)}b" for c in (*range(0x00, 0x20), *range(0x7F, 0xA0))]
    out += ["".join(map(chr, range(0x00, 0x20))), "".join(map(chr, range(0x7F, 0xA0))), "\x00", "\x00\x00\x00", "\x1b[31mred\x1b[0m", "\x04", "\x04\x06\x13\x14\x16\x1d",
            " \x1c\x1d\x1e\x1f ", "\x7f\x7f", "\x08\x08 \x07"]
    return out


def unusual():
    """Combining marks in both normal forms, private use, unassigned, last code points, long runs."""
    words = ["café naïve Ångström", "Việt Nam ướt", "Zażółć gęślą", "한국어", "が ぱ", "क़ ऩ", "ἄνδρες ᾧ", "Å ﬁ ½"]
    out = [unicodedata.normalize(form, w) for w in words for form in ("NFC", "NFD")]
    out += ["e\u0301\u0301\u0301", "\u0301", " \u0301", "a\u0301b", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!", "\u0e33\u0e48", "\u0915\u094d\u0937", "\u05d0\u05b8", "1\u0301"]
    out += ["\ue000", "a\ue000b", "\uf8ff x", "\U000f0000", "\U0010fffd", "\u0378", "a\u0378\u0379b", "\u2fe0", "\uffff", "\ufffe", "\ufffd", "\ufffd\ufffd x",
            "\U0001fffe", "\U000e0080", "\U000e0001\U000e0041", "\U00040000", "\U000a0000\U000c0000", "\U00050123 a", "\U0010ffff", "\u07ff\u0800", "\u007f\u0080", "\ud7ff\ue000",
            "\uffff\U00010000", "\u202eabc\u202c", "\u200fא\u200e", "\u2066x\u2069", "\U000323af", "\U0001ccf0\U0001ccf9", "\ua7cd\U00010d40", "\U00011de0\U00016ff4"]
    # bytes that SmolLM2's vocabulary has no token for: 04 06 13 14 16 1D C0 C1 F1 F2 F5..FF, beside what could merge across them
    out += [" \x04.", "(\x06)", "!\x13!\x14!", " \x16\x1d'", ".\x04.\x04.", "\U0008221bb", "\u0366\U000a7f0e", "x\U000482158", "\U0006730e\U00077686", "\U000c0000\U000bffff"]
    # letters, marks and digits that are new in Unicode 16 and 17
    out += ["\u1c89's", ".\ua7cb's", " \U000105c0'll", "\U00010d40's", "\U00011de0're", "x\U00013460y.\U00013461's", "\U0001ccf0's", "\U00016ff4\U00016ff5",
            "\u088f's x\ua7cey", " \U0001e5d0.\U0001e5f1've"]
    out += [c * 300 for c in "aeXz.-0 éя中"] + [" a" * 150, "a " * 150, "\n " * 60, "ab\n" * 60, "😀" * 50]
    return out


def rand():
    """Seeded random strings over several alphabets."""
    rng = random.Random(20240229)

    def pick(ranges):
        lo, hi = rng.choice(ranges)
        return chr(rng.randint(lo, hi))

    bmp = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x900, 0xDFF), (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x3040, 0x30FF), (0x4E00, 0x9FFF)]
    everything = [(0x00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x10FFFF)]
    out = []
    for _ in range(16):
        out.append("".join(chr(rng.randint(0x20, 0x7E)) for _ in range(rng.randint(5, 60))))
    for _ in range(16):
        out.append("".join(pick(bmp) for _ in range(rng.randint(5, 40))))
    for _ in range(16):
        out.append("".join(pick(everything) for _ in range(rng.randint(2, 24))))
    for _ in range(16):
        out.append("".join(rng.choice(" \t\n\r\u00a0\u3000\u2009ab1.'\u00e9\u4e2d") for _ in range(rng.randint(5, 40))))
    for _ in range(12):
        out.append("".join(rng.choice("'sStTlLdDmMrRvVeE \u2019") for _ in range(rng.randint(5, 30))))
    for _ in range(12):
        out.append("".join(rng.choice(["<", ">", "|", "/", "s", "im_start", "<s>", "</s>", "<|im_end|>", " ", "\u2581", "a"]) for _ in range(rng.randint(4, 16))))
    return out


def raw():
    """Byte strings that are not valid UTF-8."""
    return [b"\xff", b"\xfe\xff", b"a\xffb", b"\x80", b"a\x80b", b"hello \xbf\xbf world", b"\xc3", b"caf\xc3", b"\xe2\x82", b"price \xe2\x82", b"\xf0\x9f\x98", b"ok \xf0\x9f\x98",
            b"\xf8\xf9"]


def texts():
    """All valid texts, as bytes, without duplicates, in a fixed order."""
    groups = (WORDS, SCRIPTS, EMOJI, CODE, CONTRACTIONS, PUNCTUATION, SPECIAL, numbers(), whitespace(), controls(), unusual(), rand())
    return list(dict.fromkeys(t.encode("utf-8") for group in groups for t in group))


if __name__ == "__main__":
    every = texts()
    print(len(every), "texts,", sum(map(len, every)), "bytes,", len(raw()), "raw byte strings")
