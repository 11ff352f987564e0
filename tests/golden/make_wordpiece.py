"""BERT's tokenizer by the library tokenizers, on a small vocabulary and texts that are easy to get wrong:

    python3 make_wordpiece.py >wordpiece_golden.h
"""
import os
import tempfile

from tokenizers import BertWordPieceTokenizer

letters = "abcdefghijklmnopqrstuvwxyzßøæабвгд" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "0123456789" + "日本語" + "éüÉ"
jamo = "\u1112\u1161\u11ab\u1100\u1173\u11af"
vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
vocab += list(letters) + ["##" + c for c in letters] + list(jamo) + ["##" + c for c in jamo]
vocab += list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["¿", "–", "“", "”", "。", "€"]
vocab += ["the", "un", "##aff", "##able", "cafe", "naive", "istanbul", "##ing", "##ed", "play", "Play", "##er", "über", "uber", "don"]

texts = [
    "Hello, unaffable players!", "", "   ", "a\tb\nc\rd\x0be\x0cf", "don't stop-playing... (now)", "Café naïve ÜBER über",
    "e\u0301 combining u\u0308", "日本語 and日b", "Straße ÆØ Привет АБВ", "İstanbul ISTANBUL", "한글 한국",
    "x\u200bz \ufeffw zero\x00null \ufffd", "“quotes” – dash ¿que? 。 5€", "a" * 100, "a" * 101, "[MASK] the [SEP]",
    "\u00a0nbsp\u2003em\u3000wide", "ﬁ ligature ½ ²", "\u0958 \u09cb ẛ̣ Å", "emoji 😀 a😀b", "ABC déf ÉÉ", "a\u0301\u0301b -- a_b",
]


def quoted(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in text.encode()) + '"'


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "vocab.txt")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(vocab) + "\n")
    lower = BertWordPieceTokenizer(path, lowercase=True)
    cased = BertWordPieceTokenizer(path, lowercase=False)

print("/* wordpiece_golden.h - written by make_wordpiece.py. */\n#ifndef WORDPIECE_GOLDEN_H\n#define WORDPIECE_GOLDEN_H\n")
print("#include <stdint.h>\n\nstatic const char wp_vocabulary[] =")
for at in range(0, len(vocab), 12):
    print("    " + quoted("\n".join(vocab[at:at + 12]) + "\n"))
print("    ;\n\n/* Ids end with -1: in small letters, and as they are. */\nstatic const struct {\n    const char *text;\n    int bytes;")
print("    int32_t lower[128], cased[128];\n} wp_cases[] = {")
for text in texts:
    ids = []
    for tokenizer in (lower, cased):
        ids.append(", ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids + [-1])))
    print("    {%s, %d,\n     {%s},\n     {%s}}," % (quoted(text), len(text.encode()), ids[0], ids[1]))
print("};\n\n#endif")
