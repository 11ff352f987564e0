#!/usr/bin/env python3
"""torch_gpt2.py - training steps of GPT-2 in PyTorch, as JSON.

The same work as models/gpt2: random tokens, forward, cross-entropy over the vocabulary, backward,
AdamW. Attention is scaled_dot_product_attention. Compare only numbers of one session, alternating.

    python3 bench/peers/torch_gpt2.py [--size 30m] [--batch 4] [--seq 256] [--steps 5] [--threads 2]
                                      [--modes fp32,bf16,fp32_compiled,bf16_compiled] [--dropout 0]
"""
import argparse
import json
import os
import statistics
import sys
import time

# glibc returns large blocks to the system after each step and PyTorch then pays for every page again;
# with these it keeps them, as our own slabs do. They must be set before the process starts.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
MODES = ["fp32", "bf16", "fp32_compiled", "bf16_compiled"]
SIZES = {"30m": (384, 6, 6), "124m": (768, 12, 12), "350m": (1024, 24, 16)}  # width, layers, heads


def with_tuned_malloc():
    if any(os.environ.get(key) != value for key, value in MALLOC.items()):
        os.environ.update(MALLOC)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def make_net(torch, width, layers, heads, vocabulary, seq, dropout):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.drop = nn.Dropout(dropout)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = self.qkv(self.ln_1(x)).view(n, t, 3, heads, width // heads).permute(
                2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
            x = x + self.drop(self.proj(y.transpose(1, 2).reshape(n, t, width)))
            h = F.gelu(self.up(self.ln_2(x)), approximate="tanh")
            return x + self.drop(self.down(h))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.ln_f, self.drop = nn.LayerNorm(width), nn.Dropout(dropout)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(seq))
            return F.linear(self.ln_f(self.blocks(self.drop(x))), self.wte.weight)

    return Net()


def measure(torch, mode, args):
    """Tokens per second: the median over the steps after two that warm up."""
    torch.manual_seed(0)
    width, layers, heads = SIZES[args.size]
    net = make_net(torch, width, layers, heads, args.vocabulary, args.seq, args.dropout)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                            fused=True)
    x = torch.randint(0, args.vocabulary, (args.batch, args.seq))
    y = torch.randint(0, args.vocabulary, (args.batch * args.seq,))
    half = mode.startswith("bf16")

    def loss_of(tokens, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            logits = net(tokens)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets)

    run = torch.compile(loss_of) if mode.endswith("_compiled") else loss_of

    def step():
        opt.zero_grad(set_to_none=True)
        loss = run(x, y)
        loss.backward()
        opt.step()
        return loss.item()

    for _ in range(2):
        step()
    seconds, cpu = [], []
    for _ in range(args.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    return {"tokens_per_second": round(args.batch * args.seq / statistics.median(seconds), 1),
            "seconds_per_step": round(statistics.median(seconds), 4),
            "cpu_seconds_per_step": round(statistics.median(cpu), 4), "last_loss": round(loss, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="30m")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", default="fp32", help="comma-separated: " + ", ".join(MODES))
    args = parser.parse_args()
    modes = args.modes.split(",")
    for mode in modes:
        if mode not in MODES:
            parser.error(f"mode '{mode}' is not one of {', '.join(MODES)}")
    with_tuned_malloc()

    import torch
    torch.set_num_threads(args.threads)
    result = {"framework": "torch", "version": torch.__version__, "model": "gpt2-" + args.size,
              "batch": args.batch, "seq": args.seq, "threads": args.threads, "modes": {}}
    for mode in modes:
        try:
            result["modes"][mode] = measure(torch, mode, args)
        except Exception as error:  # a mode this PyTorch or machine cannot do is a result too
            lines = str(error).strip().splitlines() or [type(error).__name__]
            result["modes"][mode] = {"error": lines[0]}
    print(json.dumps(result))
    return 0 if any("error" not in m for m in result["modes"].values()) else 1


sys.exit(main())
