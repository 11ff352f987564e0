"""One training step of U-Net and DeepLabv3 by PyTorch, for test_segmentation_golden.c.

    python3 make_segmentation.py > segmentation_golden.h

The nets are written out here (torchvision's own for the head "torchvision"). Weights are a formula of
(name, index) that script and test share. Of each gradient its length and its product with a formula are
kept, which no wrong element leaves alone. Needs torch and torchvision."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


def draw(name, count):
    """Numbers in [-0.5, 0.5): FNV-1a of the name, then a hash of hash and index."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    i = np.arange(count, dtype=np.uint64)
    x = (i * 2654435761 & 0xFFFFFFFF) ^ np.uint64(h)
    x = x * 2246822519 & 0xFFFFFFFF
    x ^= x >> np.uint64(15)
    x = x * 3266489917 & 0xFFFFFFFF
    return (x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5


def fill(name, tensor):
    u = draw(name, tensor.numel())
    if tensor.dim() >= 2:
        u = u * (4.0 / np.sqrt(tensor[0].numel()))
    elif name.endswith("bn3.weight"):  # small branches keep 16 blocks well-conditioned
        u = 0.2 + 0.2 * u
    elif name.endswith("weight"):
        u = 1.0 + 0.2 * u
    elif name.endswith("running_var"):
        u = 1.0 + 0.5 * u
    else:
        u = 0.2 * u
    return torch.tensor(u.astype(np.float32)).reshape(tensor.shape)


# ---- U-Net ----

class Down(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(o)
        self.short = stride > 1 or i != o
        if self.short:
            self.conv3 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
            self.norm3 = nn.BatchNorm2d(o)

    def forward(self, x):
        y = F.leaky_relu(self.norm1(self.conv1(x)), 0.01)
        y = self.norm2(self.conv2(y))
        return F.leaky_relu(y + (self.norm3(self.conv3(x)) if self.short else x), 0.01)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.transp_conv = nn.ConvTranspose2d(i, o, 2, 2)
        self.conv1 = nn.Conv2d(2 * o, o, 3, 1, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(o)

    def forward(self, x, skip):
        x = torch.cat([self.transp_conv(x), skip], 1)
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.01)
        return F.leaky_relu(self.norm2(self.conv2(x)), 0.01)


class UNet(nn.Module):
    def __init__(self, channels, classes, filters, most, depth):
        super().__init__()
        f = [min(filters << i, most) for i in range(depth)]
        self.input_block = Down(channels, f[0], 1)
        self.downsamples = nn.ModuleList(Down(f[i - 1], f[i], 2) for i in range(1, depth))
        self.upsamples = nn.ModuleList(Up(f[i], f[i - 1]) for i in range(depth - 1, 0, -1))
        self.output_block = nn.Conv2d(f[0], classes, 1)

    def forward(self, x):
        h, w = x.shape[2:]
        m = 2 ** len(self.downsamples)
        x = F.pad(x, (0, -w % m, 0, -h % m))
        levels = [self.input_block(x)]
        for down in self.downsamples:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up in self.upsamples:
            x = up(x, levels.pop())
        return self.output_block(x)[:, :, :h, :w]


# ---- DeepLab ----

def conv(i, o, k=1, dilation=1, groups=1):
    return [nn.Conv2d(i, o, k, 1, k // 2 * dilation, dilation, groups, bias=False), nn.BatchNorm2d(o),
            nn.ReLU()]


def separable(i, o, dilation=1):
    return conv(i, i, 3, dilation, i) + conv(i, o)


class Block(nn.Module):
    def __init__(self, i, planes, stride, dilation, bottleneck):
        super().__init__()
        o = 4 * planes if bottleneck else planes
        if bottleneck:
            self.conv1, self.bn1 = nn.Conv2d(i, planes, 1, bias=False), nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride, dilation[0], dilation[0], bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv3, self.bn3 = nn.Conv2d(planes, o, 1, bias=False), nn.BatchNorm2d(o)
        else:
            self.conv1 = nn.Conv2d(i, planes, 3, stride, dilation[0], dilation[0], bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, dilation[1], dilation[1], bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride > 1 or i != o:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        self.bottleneck = bottleneck

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Backbone(nn.Module):
    def __init__(self, channels, width, blocks, bottleneck):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        i = width
        for s in range(4):
            stage = []
            for b in range(blocks[s]):
                dilation = (1, 1) if s < 2 else (1 if b == 0 else 2, 2) if s == 2 else (2 if b == 0 else 4, 4)
                stage.append(Block(i, width << s, 2 if s == 1 and b == 0 else 1, dilation, bottleneck))
                i = (width << s) * (4 if bottleneck else 1)
            setattr(self, f"layer{s + 1}", nn.Sequential(*stage))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        first = self.layer1(x)
        return first, self.layer4(self.layer3(self.layer2(first)))


class Pooling(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        for k, part in enumerate(conv(i, o)):
            self.add_module(str(k + 1), part)

    def forward(self, x):
        y = F.adaptive_avg_pool2d(x, 1)
        for part in self.children():
            y = part(y)
        return F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=False)


class Aspp(nn.Module):
    def __init__(self, i, o, is_separable):
        super().__init__()
        self.convs = nn.ModuleList([nn.Sequential(*conv(i, o))])
        for d in (12, 24, 36):
            self.convs.append(nn.Sequential(*(separable(i, o, d) if is_separable else conv(i, o, 3, d))))
        self.convs.append(Pooling(i, o))

    def forward(self, x):
        return torch.cat([c(x) for c in self.convs], 1)


class Plus(nn.Module):
    def __init__(self, first, last, width, few, classes):
        super().__init__()
        self.aspp = Aspp(last, width, True)
        self.bottleneck = nn.Sequential(*separable(5 * width, width))
        self.c1 = nn.Sequential(*conv(first, few))
        self.sep1 = nn.Sequential(*separable(width + few, width))
        self.sep2 = nn.Sequential(*separable(width, width))
        self.conv_seg = nn.Conv2d(width, classes, 1)

    def forward(self, first, last):
        x = self.bottleneck(self.aspp(last))
        x = F.interpolate(x, first.shape[2:], mode="bilinear", align_corners=False)
        return self.conv_seg(self.sep2(self.sep1(torch.cat([x, self.c1(first)], 1))))


class Plain(nn.Module):
    def __init__(self, last, width, classes):
        super().__init__()
        parts = {"0": Aspp(last, width, False), "1": nn.Conv2d(5 * width, width, 3, padding=1, bias=False),
                 "2": nn.BatchNorm2d(width), "4": nn.Conv2d(width, classes, 1)}
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, first, last):
        a, b, c, d = self.children()
        return d(F.relu(c(b(a(last)))))


class DeepLab(nn.Module):
    def __init__(self, classes, plus):
        super().__init__()
        if plus:
            self.backbone = Backbone(3, 4, [3, 4, 6, 3], True)
            self.classifier = Plus(16, 128, 32, 3, classes)
        else:
            self.backbone = Backbone(3, 8, [2, 2, 2, 2], False)
            self.classifier = Plain(64, 16, classes)

    def forward(self, x):
        y = self.classifier(*self.backbone(x))
        return F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=False)


class Torchvision(nn.Module):
    def __init__(self, classes):
        super().__init__()
        net = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None,
                                                                 num_classes=classes, aux_loss=False)
        net.classifier[0].project[3].p = 0.0
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]

    def named_state(self):
        return self.net


def data(height, width, classes, dtype):
    x = torch.tensor(draw("input", 2 * height * width * 3).astype(np.float32)).to(dtype)
    x = 2 * x.reshape(2, height, width, 3).permute(0, 3, 1, 2)
    target = torch.tensor([i * 7 % (classes + 1) - 1 for i in range(2 * height * width)])
    return x, target.reshape(2, height, width)


def measures(inner, net, height, width, classes, dtype):
    """Loss, and (name, length, product) of each gradient, in training; running statistics stay."""
    x, target = data(height, width, classes, dtype)
    before = {name: t.clone() for name, t in inner.state_dict().items()}
    inner.zero_grad()
    net.train()
    loss = F.cross_entropy(net(x), target, ignore_index=-1)
    loss.backward()
    rows = []
    for name, p in inner.named_parameters():
        g = p.grad.reshape(-1).double().numpy()
        rows.append((name, np.sqrt((g * g).sum()), (g * draw("grad/" + name, g.size)).sum()))
    inner.load_state_dict(before)
    return loss.item(), rows


def emit(label, net, height, width, classes):
    inner = getattr(net, "net", net)
    state = {name: (t if name.endswith("num_batches_tracked") else fill(name, t))
             for name, t in inner.state_dict().items()}
    inner.load_state_dict(state, strict=True)
    single = measures(inner, net, height, width, classes, torch.float32)
    net = net.double()
    x = data(height, width, classes, torch.float64)[0]
    with torch.no_grad():
        logits = net.eval()(x).permute(0, 2, 3, 1).reshape(-1)
    picks = [int(i) for i in np.linspace(0, logits.numel() - 1, 24)]
    double = measures(inner, net, height, width, classes, torch.float64)
    print(f"static const double {label}_logits[] = {{")
    for i in picks:
        print(f"    {logits[i].item():.9g},")
    print("};")
    print(f"static const double {label}_loss = {double[0]:.10g};")
    error = max(abs(a - b) / d[1] for s, d in zip(single[1], double[1]) for a, b in zip(s[1:], d[1:]))
    print(f"static const double {label}_error = {error:.2g}; /* of PyTorch's own gradients in single precision */")
    print(f"static const net_grad {label}_grads[] = {{")
    for name, length, product in double[1]:
        print(f'    {{"{name}", {length:.7g}, {product:.7g}}},')
    print("};")


print("/* segmentation_golden.h - made by make_segmentation.py: logits in evaluation, loss in training and")
print(" * of each gradient its length and its product with a formula. */")
print("typedef struct net_grad {\n    const char *name;\n    double length, product;\n} net_grad;")
emit("unet", UNet(3, 5, 4, 16, 4), 20, 27, 5)
emit("plus", DeepLab(5, True), 41, 36, 5)
emit("plain", DeepLab(5, False), 41, 36, 5)
emit("torchvision", Torchvision(5), 33, 40, 5)
