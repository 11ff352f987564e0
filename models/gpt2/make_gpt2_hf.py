"""A tiny GPT-2 as Hugging Face's transformers saves it, and what it computes, for test_gpt2_hf.c.

    python3 make_gpt2_hf.py        # writes gpt2_hf.safetensors and gpt2_golden.safetensors here
    python3 make_gpt2_hf.py FILE   # loads FILE, written by `vivace export` or vv_export_safetensors from
                                   # these weights, into transformers' own class and compares the logits

Needs torch, transformers and safetensors."""
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

here = os.path.dirname(os.path.abspath(__file__))
config = GPT2Config(vocab_size=37, n_positions=12, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0)


def batch():
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(0, 37, (3, 11), generator=generator)
    targets = rows[:, 1:].clone()
    targets[1, 6:] = -100
    return rows[:, :10], targets


def loss_of(net, tokens, targets):
    logits = net(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 37), targets.reshape(-1), ignore_index=-100)
    return logits, loss


def write():
    torch.manual_seed(1)
    net = GPT2LMHeadModel(config)
    with torch.no_grad():  # larger than its start, so that every part counts
        for name, value in net.named_parameters():
            value.copy_(torch.randn_like(value) * 0.3 + (1.0 if "ln_" in name and "weight" in name else 0.0))
    net.save_pretrained(here + "/hf")
    os.replace(here + "/hf/model.safetensors", here + "/gpt2_hf.safetensors")
    for name in os.listdir(here + "/hf"):
        os.remove(here + "/hf/" + name)
    os.rmdir(here + "/hf")

    tokens, targets = batch()
    net = net.double()
    logits, loss = loss_of(net, tokens, targets)
    loss.backward()
    out = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach().float()}
    for name, value in net.named_parameters():
        out["grad/" + name] = value.grad.float().clone()

    losses = []
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        _, loss = loss_of(net, tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float32)
    save_file(out, here + "/gpt2_golden.safetensors")
    print(losses[0], losses[-1])


def read(path):
    net = GPT2LMHeadModel(config)
    missing, unexpected = net.load_state_dict(load_file(path), strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    net.tie_weights()
    golden = load_file(here + "/gpt2_golden.safetensors")
    with torch.no_grad():
        worst = (net.eval()(golden["tokens"].long()).logits - golden["logits"]).abs().max().item()
    print(f"largest difference of a logit: {worst:.2e}")
    assert worst < 1e-4


if len(sys.argv) > 1:
    read(sys.argv[1])
else:
    write()
