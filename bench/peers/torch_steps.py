#!/usr/bin/env python3
"""torch_steps.py - training steps of the standard workloads in PyTorch, as JSON.

The same work as `vivace bench suite`: random batch, forward, loss, backward, optimizer step; images in
channels_last, SGD with Nesterov momentum; texts with scaled_dot_product_attention and fused AdamW.
Compare only numbers of one session on one machine, in turns: bench/compare does it.

    python3 bench/peers/torch_steps.py --workload resnet9 [--batch 128] [--mode fp32_compiled]
                                       [--steps 5] [--warmup 2] [--threads 2]
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


def with_tuned_malloc():
    if any(os.environ.get(key) != value for key, value in MALLOC.items()):
        os.environ.update(MALLOC)
        os.execv(sys.executable, [sys.executable, *sys.argv])


# ---- images ----


def unit(nn, ins, outs, kernel=3, stride=1, relu=True):
    parts = [nn.Conv2d(ins, outs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outs)]
    return nn.Sequential(*parts, *([nn.ReLU(inplace=True)] if relu else []))


def resnet9(torch):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.units = nn.Sequential(unit(nn, channels, channels), unit(nn, channels, channels))

        def forward(self, x):
            return x + self.units(x)

    pool = nn.MaxPool2d(2)
    return nn.Sequential(
        unit(nn, 3, 64), unit(nn, 64, 128), pool, Residual(128), unit(nn, 128, 256), pool,
        unit(nn, 256, 512), pool, Residual(512), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def residual_net(torch, stem, widths, counts, bottleneck, classes):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, ins, width, stride):
            super().__init__()
            outs = 4 * width if bottleneck else width
            if bottleneck:
                self.units = nn.Sequential(unit(nn, ins, width, 1), unit(nn, width, width, 3, stride),
                                           unit(nn, width, outs, 1, relu=False))
            else:
                self.units = nn.Sequential(unit(nn, ins, width, 3, stride),
                                           unit(nn, width, width, relu=False))
            same = ins == outs and stride == 1
            self.shortcut = nn.Identity() if same else unit(nn, ins, outs, 1, stride, relu=False)

        def forward(self, x):
            return nn.functional.relu(self.units(x) + self.shortcut(x), inplace=True)

    parts, ins = list(stem), widths[0]
    for stage, (width, count) in enumerate(zip(widths, counts)):
        for i in range(count):
            parts.append(Block(ins, width, 2 if stage and not i else 1))
            ins = 4 * width if bottleneck else width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ins, classes))


def resnet20(torch):
    return residual_net(torch, [unit(torch.nn, 3, 16)], (16, 32, 64), (3, 3, 3), False, 10)


def imagenet_net(torch, counts, bottleneck):
    stem = [unit(torch.nn, 3, 64, 7, 2), torch.nn.MaxPool2d(3, 2, 1)]
    return residual_net(torch, stem, (64, 128, 256, 512), counts, bottleneck, 1000)


def mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024),
                         nn.ReLU(), nn.Linear(1024, 10))


# ---- texts ----


def transformer(torch, width, layers, heads, vocabulary, positions, causal):
    """GPT-2 (norm before, tied head) or BERT with its masked-LM head (norm behind, tied head)."""
    nn, F = torch.nn, torch.nn.functional
    gelu = "tanh" if causal else "none"

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x):
            n, t, _ = x.shape
            q, k, v = self.qkv(x).view(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.proj(y.transpose(1, 2).reshape(n, t, width))

        def feed(self, x):
            return self.down(F.gelu(self.up(x), approximate=gelu))

        def forward(self, x):
            if causal:
                x = x + self.attend(self.norm_1(x))
                return x + self.feed(self.norm_2(x))
            x = self.norm_1(x + self.attend(x))
            return self.norm_2(x + self.feed(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            if not causal:
                self.segments = nn.Embedding(2, width)
                self.dense, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width)
                self.bias = nn.Parameter(torch.zeros(vocabulary))
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            if causal:
                return F.linear(self.norm(self.blocks(x)), self.tokens.weight)
            x = self.blocks(self.norm(x + self.segments.weight[0]))
            return F.linear(self.head_norm(F.gelu(self.dense(x))), self.tokens.weight, self.bias)

    return Net()


# name: (net, side and channels of the images, classes)
IMAGES = {
    "resnet9": (resnet9, 32, 3, 10),
    "resnet20": (resnet20, 32, 3, 10),
    "resnet18": (lambda torch: imagenet_net(torch, (2, 2, 2, 2), False), 224, 3, 1000),
    "resnet50": (lambda torch: imagenet_net(torch, (3, 4, 6, 3), True), 224, 3, 1000),
    "mlp": (mlp, 28, 1, 10),
}
# name: (width, layers, heads, vocabulary, positions, tokens, causal, share of tokens with a target)
TEXTS = {
    "gpt2-10m": (384, 6, 6, 65, 1024, 512, True, 1.0),
    "gpt2-30m": (512, 8, 8, 8192, 1024, 512, True, 1.0),
    "gpt2-124m": (768, 12, 12, 50257, 1024, 1024, True, 1.0),
    "bert-small": (512, 4, 8, 30522, 512, 128, False, 0.15),
}
USUAL_BATCH = {"resnet9": 512, "resnet20": 512, "resnet18": 32, "resnet50": 32, "mlp": 512,
               "gpt2-10m": 8, "gpt2-30m": 4, "gpt2-124m": 1, "bert-small": 32}


def make_work(torch, name, batch):
    """The net, its optimizer, and a random batch."""
    torch.manual_seed(0)
    if name in IMAGES:
        make, side, channels, classes = IMAGES[name]
        net = make(torch).to(memory_format=torch.channels_last)
        x = torch.randn(batch, channels, side, side).to(memory_format=torch.channels_last)
        y = torch.randint(0, classes, (batch,))
        opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4,
                              nesterov=True)
        return net, opt, x, y
    width, layers, heads, vocabulary, positions, seq, causal, share = TEXTS[name]
    net = transformer(torch, width, layers, heads, vocabulary, positions, causal)
    x = torch.randint(0, vocabulary, (batch, seq))
    y = torch.randint(0, vocabulary, (batch * seq,))
    y[torch.rand(batch * seq) >= share] = -100
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                            fused=True)
    return net, opt, x, y


def measure(torch, args):
    net, opt, x, y = make_work(torch, args.workload, args.batch)
    half = args.mode.startswith("bf16")

    def loss_of(inputs, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            outputs = net(inputs)
            return torch.nn.functional.cross_entropy(outputs.flatten(0, -2).float(), targets)

    run = torch.compile(loss_of) if args.mode.endswith("_compiled") else loss_of

    def step():
        opt.zero_grad(set_to_none=True)
        loss = run(x, y)
        loss.backward()
        opt.step()
        return loss.item()

    begin = time.perf_counter()
    for _ in range(args.warmup):
        step()
    first = time.perf_counter() - begin
    seconds, cpu = [], []
    for _ in range(args.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    median = statistics.median(seconds)
    return {"step_ms": round(1e3 * median, 3),
            "step_cpu_ms": round(1e3 * statistics.median(cpu), 3),
            "samples_per_second": round(args.batch / median, 3),
            "warmup_seconds": round(first, 3), "last_loss": round(loss, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", choices=[*IMAGES, *TEXTS], default="resnet9")
    parser.add_argument("--batch", type=int, default=0, help="0 = the suite's")
    parser.add_argument("--mode", choices=MODES, default="fp32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0 = PyTorch's own choice")
    args = parser.parse_args()
    args.batch = args.batch or USUAL_BATCH[args.workload]
    with_tuned_malloc()

    import torch
    if args.threads:
        torch.set_num_threads(args.threads)
    result = {"framework": "torch", "version": torch.__version__, "workload": args.workload,
              "mode": args.mode, "batch": args.batch, "threads": torch.get_num_threads()}
    try:
        result.update(measure(torch, args))
    except Exception as error:  # a mode this PyTorch or machine cannot do is a result too
        result["error"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
    print(json.dumps(result))
    return 1 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main())
