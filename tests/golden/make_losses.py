"""Losses of classes by PyTorch in double, for test_losses.c.

    python3 make_losses.py | fold -s -w 99 | sed 's/ *$//' > losses_golden.h

Inputs are a formula that script and test share. Needs torch and torchvision."""
import torch
import torch.nn.functional as F
from torchvision.ops import sigmoid_focal_loss

N, P, K = 3, 7, 4
i = torch.arange(N * P * K, dtype=torch.float64)
LOGITS = (((i * 37) % 101) / 101 * 6 - 3).reshape(N, P, K)
# -1 has no loss: one pixel in five, and the whole last image.
TARGET = torch.tensor([[-1 if (n * P + p) % 5 == 4 or n == 2 else (3 * n + p * p) % (K if n else 3)
                        for p in range(P)] for n in range(N)])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
HAS = TARGET >= 0
ONE = F.one_hot(TARGET.clamp(min=0), K).double() * HAS[..., None]


def dice(x, smooth, background, absent):
    p = x.softmax(-1) * HAS[..., None]
    items = []
    for n in range(N):
        part = []
        for k in range(0 if background else 1, K):
            y = ONE[n, :, k]
            if HAS[n].any() and (absent or y.sum() > 0):
                part.append((2 * (p[n, :, k] * y).sum() + smooth) / (p[n, :, k].sum() + y.sum() + smooth))
        items.append(1 - torch.stack(part).mean() if part else x.sum() * 0)
    return torch.stack(items)


def ce(x, weights=None):
    return F.cross_entropy(x.permute(0, 2, 1), TARGET, weights, ignore_index=-1, reduction="none")


def focal(x, gamma, weights=None):
    logp = x.log_softmax(-1)
    items = -((1 - logp.exp()) ** gamma * logp * ONE)
    return (items * weights if weights is not None else items).sum(-1)


def image_ce(x, weights=None):
    return ce(x, weights).sum(1) / HAS.sum(1).clamp(min=1)


def bce(x):
    return (F.binary_cross_entropy_with_logits(x, ONE, reduction="none") * HAS[..., None]).sum(-1)


CASES = [
    ("cross_entropy", "", lambda x: ce(x)),
    ("cross_entropy", "class_weights=0.5,1,2,1.5", lambda x: ce(x, WEIGHTS)),
    ("binary_cross_entropy", "", bce),
    ("dice", "", lambda x: dice(x, 1e-5, True, False)),
    ("dice", "smooth=1,background=false,absent=true", lambda x: dice(x, 1.0, False, True)),
    ("dice", "smooth=0", lambda x: dice(x, 0.0, True, False)),
    ("ce_dice", "", lambda x: image_ce(x) + dice(x, 1e-5, True, False)),
    ("ce_dice", "ce_weight=0.25,dice_weight=3,background=false,class_weights=0.5,1,2,1.5",
     lambda x: 0.25 * image_ce(x, WEIGHTS) + 3 * dice(x, 1e-5, False, False)),
    ("focal", "", lambda x: focal(x, 2)),
    ("focal", "gamma=0.5,class_weights=0.5,1,2,1.5", lambda x: focal(x, 0.5, WEIGHTS)),
    ("sigmoid_focal", "", lambda x: (sigmoid_focal_loss(x, ONE, 0.25, 2) * HAS[..., None]).sum(-1)),
    ("sigmoid_focal", "alpha=-1,gamma=1.5",
     lambda x: (sigmoid_focal_loss(x, ONE, -1, 1.5) * HAS[..., None]).sum(-1)),
]

print("/* losses_golden.h - made by make_losses.py: items and the gradient of their sum. */")
print(f"enum {{ LOSS_N = {N}, LOSS_P = {P}, LOSS_K = {K} }};")
print(f"static const int loss_target[] = {{{', '.join(str(int(t)) for t in TARGET.reshape(-1))}}};")
print("typedef struct loss_case {\n    const char *name, *settings;\n    int count;\n    double items[LOSS_N * LOSS_P];")
print("    double grads[LOSS_N * LOSS_P * LOSS_K];\n} loss_case;")
print("static const loss_case loss_cases[] = {")
for name, settings, f in CASES:
    x = LOGITS.clone().requires_grad_()
    items = f(x)
    items.sum().backward()
    flat = items.detach().reshape(-1).tolist()
    print(f'    {{"{name}", "{settings}", {len(flat)},')
    print("     {" + ", ".join(f"{v:.8g}" for v in flat) + "},")
    print("     {" + ", ".join(f"{v:.7g}" for v in x.grad.reshape(-1).tolist()) + "}},")
print("};")
