#!/usr/bin/env python3
"""Writes tokenizers_golden.h: small tokenizers trained and used by Hugging Face's `tokenizers`, with the
tokens it gives for texts that are easy to get wrong. Needs the package tokenizers.
Run: python3 make_tokenizers.py >tokenizers_golden.h"""
import json

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

TEXT = """It was the best of times, it was the worst of times; it was the age of wisdom, it was the age of foolishness.
We'll see what they've said: "That's 1859, isn't it?" The other one answered that 12,345 others wouldn't.
    for (int i = 0; i < 10; i++) { total += values[i] * 2; }\n\n\n\tNa\u00efve caf\u00e9s, na\u00efve caf\u00e9s in \u041c\u043e\u0441\u043a\u0432\u0430 and \u6771\u4eac. \U0001f600\U0001f600
"""
SAMPLES = [
    "", " ", "   two  spaces ", "it was the best\r\n\r\n\tof times", "We'll they've IT'S 'tis", "12345 1859x  7",
    "caf\u00e9 cafe\u0301 \u041c\u043e\u0441\u043a\u0432\u0430 \u6771\u4eac\u3000\u6771", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467!",
    "values[i]+=2;}\n\n    }", "<|endoftext|>the age<|endoftext|>", " <mask> was  <mask>\n", "a\u00a0b\u2003c\u0085d\x1ce\u180ef",
]
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")


def make(pre, vocab, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator([TEXT * 3], trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=alphabet, show_progress=False))
    t.add_special_tokens(["<|endoftext|>"])
    t.add_tokens([AddedToken("<mask>", lstrip=True, special=False, normalized=False)])
    return t


def c_text(data):
    return '"' + "".join("\\%03o" % b if b < 32 or b > 126 or chr(b) in '"\\?' else chr(b) for b in data) + '"'


def c_lines(text):
    data = text.encode()
    return "\n".join("    " + c_text(data[i:i + 90]) + "," for i in range(0, len(data), 90))


def c_long(text):
    data = text.encode()
    return "\n".join("    " + c_text(data[i:i + 60]) for i in range(0, len(data), 60))


byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
split = pre_tokenizers.Split(Regex(LLAMA), behavior="isolated")
CASES = [
    ("gpt2", make(byte_level, 340)),
    ("prefix", make(pre_tokenizers.ByteLevel(add_prefix_space=True), 300)),
    ("llama", make(pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                   320, ignore_merges=True)),
]
print("/* tokenizers_golden.h - small tokenizers and tokens by Hugging Face, written by make_tokenizers.py. */")
print("#ifndef TOKENIZERS_GOLDEN_H\n#define TOKENIZERS_GOLDEN_H\n\n#include <stddef.h>\n#include <stdint.h>\n")
print("/* What they were trained on, three times over. */\nstatic const char golden_text[] =\n%s;\n" % c_long(TEXT))
print("typedef struct golden_sample {\n    const char *text;\n    size_t bytes;\n    int count;\n    int32_t ids[64];\n} golden_sample;")
print("typedef struct golden_tokenizer {\n    const char *name;\n    const char *const *json; /* its file in pieces, ended by NULL */\n    int vocab;\n    golden_sample samples[%d];\n} golden_tokenizer;" % len(SAMPLES))
for name, t in CASES:
    text = json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":"))
    print("static const char *const golden_%s_json[] = {\n%s\n    NULL,\n};" % (name, c_lines(text)))
print("static const golden_tokenizer golden_tokenizers[] = {")
for name, t in CASES:
    print("{\"%s\", golden_%s_json, %d, {" % (name, name, t.get_vocab_size()))
    for sample in SAMPLES:
        ids = t.encode(sample, add_special_tokens=False).ids
        data = sample.encode()
        print("    {%s, %d, %d, {%s}}," % (c_text(data), len(data), len(ids), ", ".join(map(str, ids)) or "0"))
    print("}},")
print("};\n\n#endif")
