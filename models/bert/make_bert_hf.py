"""Tiny BERTs as Hugging Face's transformers saves them, and what they compute, for test_bert.c.

    python3 make_bert_hf.py             # writes bert_*_hf.safetensors and bert_*_golden.safetensors here
    python3 make_bert_hf.py mlm FILE    # loads FILE, written by `vivace export`, into transformers' own
    python3 make_bert_hf.py class FILE  # class and compares the logits

Needs torch, transformers and safetensors."""
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

here = os.path.dirname(os.path.abspath(__file__))
VOCABULARY, T = 41, 9
config = BertConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=24, max_position_embeddings=11, hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0, num_labels=3, classifier_dropout=0.0)
classes = {"mlm": BertForMaskedLM, "class": BertForSequenceClassification}


def batch(kind):
    """Rows [3,2,T]: tokens, and segments with -1 where a row is filled up."""
    generator = torch.Generator().manual_seed(6)
    tokens = torch.randint(1, VOCABULARY, (3, T), generator=generator)
    segments = torch.zeros(3, T, dtype=torch.long)
    segments[:, 5:] = 1
    tokens[1, 7:] = 0
    segments[1, 7:] = -1
    if kind == "class":
        targets = torch.tensor([2, 0, 1])
    else:
        targets = torch.full((3, T), -100)
        for row, column, token in ((0, 1, 7), (0, 6, 3), (1, 4, 30), (2, 0, 12), (2, 8, 40)):
            targets[row, column] = token
    return torch.stack([tokens, segments], 1), targets


def logits_of(net, rows):
    tokens, segments = rows[:, 0].long(), rows[:, 1].long()
    return net(input_ids=tokens, token_type_ids=segments.clamp(min=0), attention_mask=(segments >= 0).long()).logits


def loss_of(net, rows, targets):
    logits = logits_of(net, rows)
    return logits, torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1),
                                                     ignore_index=-100)


def write(kind):
    torch.manual_seed(2)
    net = classes[kind](config).train()
    with torch.no_grad():  # larger than its start, so that every part counts
        for name, value in net.named_parameters():
            value.copy_(torch.randn_like(value) * 0.3 + (1.0 if name.endswith("LayerNorm.weight") else 0.0))
    net.save_pretrained(here + "/hf")
    os.replace(here + "/hf/model.safetensors", f"{here}/bert_{kind}_hf.safetensors")
    for name in os.listdir(here + "/hf"):
        os.remove(here + "/hf/" + name)
    os.rmdir(here + "/hf")

    rows, targets = batch(kind)
    net = net.double()
    logits, loss = loss_of(net, rows, targets)
    loss.backward()
    out = {"tokens": rows.int(), "targets": targets.int(), "logits": logits.detach().float()}
    for name, value in net.named_parameters():
        out["grad/" + name] = value.grad.float().clone()

    losses = []
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        _, loss = loss_of(net, rows, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float32)
    save_file(out, f"{here}/bert_{kind}_golden.safetensors")
    print(kind, losses[0], losses[-1])


def read(kind, path):
    net = classes[kind](config)
    missing, unexpected = net.load_state_dict(load_file(path), strict=False)
    assert all(name.startswith("cls.predictions.decoder.") for name in missing) and not unexpected, (missing, unexpected)
    net.tie_weights()
    golden = load_file(f"{here}/bert_{kind}_golden.safetensors")
    with torch.no_grad():
        worst = (logits_of(net.eval(), golden["tokens"]) - golden["logits"]).abs().max().item()
    print(f"largest difference of a logit: {worst:.2e}")
    assert worst < 1e-4


if len(sys.argv) > 2:
    read(sys.argv[1], sys.argv[2])
else:
    for kind in classes:
        write(kind)
