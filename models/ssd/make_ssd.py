"""SSD in PyTorch, for test_ssd.c: a narrow net's weights, output, losses, gradients and what it finds.

    python3 make_ssd.py ssd_golden.safetensors

Written from the paper (Liu et al., arXiv 1512.02325) and the table of SSD300; blocks are torchvision's, everything
is computed in double. Needs torch, torchvision and safetensors."""
import itertools
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torchvision.models.resnet import BasicBlock
from torchvision.ops import batched_nms, box_convert, box_iou

WIDTH, LEVELS, CLASSES, SIZE = 4, 4, 4, 96


class Ssd(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTH
        self.conv1 = nn.Conv2d(3, w, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(w)
        self.layer1 = self.stage(w, w, 1)
        self.layer2 = self.stage(w, 2 * w, 2)
        self.layer3 = self.stage(2 * w, 4 * w, 1)
        channels = [4 * w]
        self.extra = nn.Sequential()
        for middle, out, stride, pad in [(4, 8, 2, 1), (4, 8, 2, 1), (2, 4, 2, 1), (2, 4, 1, 0), (2, 4, 1, 0)][: LEVELS - 1]:
            self.extra.append(
                nn.Sequential(
                    nn.Conv2d(channels[-1], middle * w, 1),
                    nn.ReLU(),
                    nn.Conv2d(middle * w, out * w, 3, stride, pad),
                    nn.ReLU(),
                )
            )
            channels.append(out * w)
        n = [4] + [6] * (LEVELS - 3) + [4, 4]
        self.loc = nn.Sequential(*[nn.Conv2d(c, k * 4, 3, 1, 1) for c, k in zip(channels, n)])
        self.conf = nn.Sequential(*[nn.Conv2d(c, k * CLASSES, 3, 1, 1) for c, k in zip(channels, n)])

    def stage(self, i, o, stride):
        down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride > 1 or i != o else None
        return nn.Sequential(BasicBlock(i, o, stride, down), BasicBlock(o, o))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer3(self.layer2(self.layer1(x)))
        rows = []
        self.sides = []
        for level in range(LEVELS):
            if level:
                x = self.extra[level - 1](x)
            self.sides.append(x.shape[2])

            def flat(y, each):
                return y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, each)

            rows.append(torch.cat([flat(self.loc[level](x), 4), flat(self.conf[level](x), CLASSES)], 2))
        return torch.cat(rows, 1)


def default_boxes(sides):
    scales = [0.07] + [0.15 + 0.9 * k / (LEVELS - 1) for k in range(LEVELS)]
    out = []
    for level, side in enumerate(sides):
        step = 8 * 2**level / SIZE if level <= 3 and side > 3 else 1 / side
        s, t = scales[level], scales[level + 1]
        shapes = [(s, s), (math.sqrt(s * t),) * 2]
        for ratio in [2] if level == 0 or level >= LEVELS - 2 else [2, 3]:
            root = math.sqrt(ratio)
            shapes += [(s * root, s / root), (s / root, s * root)]
        for i, j in itertools.product(range(side), repeat=2):
            out += [((j + 0.5) * step, (i + 0.5) * step, w, h) for w, h in shapes]
    return torch.tensor(out, dtype=torch.float64).clamp(0, 1).float().double()


def match(priors, boxes):
    """Index of the box each default box stands for, or -1: greedy by overlap, then by threshold."""
    iou = box_iou(boxes, box_convert(priors, "cxcywh", "xyxy"))
    stands = torch.full((len(priors),), -1)
    left = iou.clone()
    for _ in range(len(boxes)):
        best = left.argmax()
        box, prior = divmod(best.item(), len(priors))
        if left[box, prior] <= 0:
            break
        stands[prior] = box
        left[box] = -1
        left[:, prior] = -1
    value, which = iou.max(0)
    others = (stands < 0) & (value > 0.5)
    stands[others] = which[others]
    return stands


def image_loss(output, priors, target):
    rows = target[(target[:, 4] > 0) & (target[:, 5] == 0)]
    if len(rows) == 0:
        return output.sum() * 0, torch.full((len(priors),), -1)
    stands = match(priors, rows[:, :4])
    positive = stands >= 0
    labels = torch.where(positive, rows[stands.clamp(min=0), 4].long(), 0)
    box = box_convert(rows[stands[positive], :4], "xyxy", "cxcywh")
    prior = priors[positive]
    offsets = torch.cat([(box[:, :2] - prior[:, :2]) / prior[:, 2:] / 0.1, (box[:, 2:] / prior[:, 2:]).log() / 0.2], 1)
    count = positive.sum()
    entropy = F.cross_entropy(output[:, 4:], labels, reduction="none")
    hard = entropy[~positive].sort(descending=True).values[: 3 * count]
    loss = F.smooth_l1_loss(output[positive, :4], offsets, reduction="sum") + entropy[positive].sum() + hard.sum()
    return loss / count, stands


def detect(output, priors):
    offsets, p = output[:, :4], output[:, 4:].softmax(1)
    centre = priors[:, :2] + offsets[:, :2] * 0.1 * priors[:, 2:]
    side = priors[:, 2:] * (offsets[:, 2:] * 0.2).exp()
    boxes = box_convert(torch.cat([centre, side], 1), "cxcywh", "xyxy").clamp(0, 1)
    found = []
    for label in range(1, CLASSES):
        keep = (p[:, label] > 0.05).nonzero()[:, 0]
        keep = keep[p[keep, label].argsort(descending=True)[:200]]
        keep = keep[batched_nms(boxes[keep], p[keep, label], torch.zeros(len(keep)), 0.5)]
        found.append(torch.cat([boxes[keep], p[keep, label, None], torch.full((len(keep), 1), label)], 1))
    found = torch.cat(found)
    return found[found[:, 4].argsort(descending=True)[:200]]


def draw(name, count):
    """Numbers in [-0.5, 0.5): FNV-1a of the name, then a hash of hash and index; as in test_ssd.c."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    i = np.arange(count, dtype=np.uint64)
    x = (i * 2654435761 & 0xFFFFFFFF) ^ np.uint64(h)
    x = x * 2246822519 & 0xFFFFFFFF
    x ^= x >> np.uint64(15)
    x = x * 3266489917 & 0xFFFFFFFF
    return torch.tensor((x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5)


net = Ssd().double()
for name, p in net.named_parameters():
    u = draw(name, p.numel()).reshape(p.shape)
    if p.dim() > 1:
        u = u * (4 / math.sqrt(p[0].numel()))
    else:
        u = 1 + 0.2 * u if name.endswith("weight") else 0.2 * u
    p.data = u.float().double()
images = draw("images", 3 * SIZE * SIZE * 3).reshape(3, SIZE, SIZE, 3).permute(0, 3, 1, 2)
target = torch.zeros(3, 5, 6).double()
target[:, :, 4] = -1
target[0, 0] = torch.tensor([0.3, 0.28, 0.72, 0.7, 1, 0])
target[0, 1] = torch.tensor([0.31, 0.29, 0.71, 0.72, 2, 0])
target[0, 2] = torch.tensor([0.6, 0.1, 0.68, 0.17, 3, 0])
target[0, 3] = torch.tensor([0.0, 0.0, 1.0, 1.0, 2, 1])
target[1, 1] = torch.tensor([0.05, 0.05, 0.95, 0.9, 2, 0])
target[1, 4] = torch.tensor([0.7, 0.6, 0.9, 0.99, 1, 0])
target = target.float().double()
output = net(images)
priors = default_boxes(net.sides)
losses, stands = zip(*[image_loss(o, priors, t) for o, t in zip(output, target)])
items = torch.stack(losses)
items.mean().backward()
found = detect(output[0].detach(), priors)
# Of a gradient, every k-th number, so that about 500 stay.
result = {"grads/" + name: p.grad.flatten()[:: max(1, p.numel() // 500)] for name, p in net.named_parameters()}
result.update(target=target, priors=priors, items=items.detach(), output=output[0].detach(), found=found)
result = {name: value.float().contiguous() for name, value in result.items()}
result["stands"] = torch.stack(stands).int()
save_file(result, sys.argv[1])
print(net.sides, len(priors), items.tolist(), [int((s >= 0).sum()) for s in stands], len(found))
