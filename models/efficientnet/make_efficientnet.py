"""Small EfficientNets of torchvision and timm and what they compute, for test_efficientnet.c.

    python3 make_efficientnet.py   # writes efficientnet_torchvision and efficientnet_timm .safetensors here

Both: weights (bf16, exactly) under the program's own names, "input" [N,H,W,C], "logits" in evaluation. torchvision's also:
"targets" and, for the mean cross-entropy with the statistics of the batch, "grad/NAME" of every parameter.

Needs torch, torchvision, timm and safetensors."""
import os
from functools import partial

import torch
from safetensors.torch import save_file
from timm.models.efficientnet import _gen_efficientnet
from torchvision.models.efficientnet import EfficientNet, MBConvConfig

here = os.path.dirname(os.path.abspath(__file__))


def fill(net, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in list(net.named_parameters()) + list(net.named_buffers()):
            if not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=generator)
            if value.dim() > 1:
                value.copy_(noise * (2.0 / value[0].numel()) ** 0.5)
            elif name.endswith("running_var") or (name.endswith("weight") and value.dim() == 1):
                value.copy_(1.0 + 0.3 * noise.clamp(-2, 2))
            else:
                value.copy_(0.2 * noise)
            value.copy_(value.bfloat16())


def image(seed):
    return torch.randn((4, 64, 32, 3), generator=torch.Generator().manual_seed(seed))


def write(name, net, seed, train):
    fill(net, seed)
    out = {k: v.bfloat16() for k, v in net.state_dict().items() if v.is_floating_point()}
    x = image(seed)
    net = net.double().eval()
    with torch.no_grad():
        out |= {"input": x, "logits": net(x.double().permute(0, 3, 1, 2)).float()}
    if train:
        targets = torch.tensor([1, 4, 0, 2])
        torch.nn.functional.cross_entropy(net.train()(x.double().permute(0, 3, 1, 2)), targets).backward()
        out["targets"] = targets.int()
        for key, value in net.named_parameters():
            out["grad/" + key] = value.grad.float()
    save_file({k: v.contiguous() for k, v in out.items()}, f"{here}/{name}.safetensors")
    print(name, out["logits"][0].tolist())


block = partial(MBConvConfig, width_mult=0.05, depth_mult=0.25)
rows = [block(1, 3, 1, 32, 16, 1), block(6, 3, 2, 16, 24, 2), block(6, 5, 2, 24, 40, 2), block(6, 3, 2, 40, 80, 3),
        block(6, 5, 1, 80, 112, 3), block(6, 5, 2, 112, 192, 4), block(6, 3, 1, 192, 320, 1)]
write("efficientnet_torchvision", EfficientNet(rows, dropout=0.0, stochastic_depth_prob=0.0, num_classes=5), 1, True)
write("efficientnet_timm", _gen_efficientnet("efficientnet_b0", channel_multiplier=0.05, depth_multiplier=0.4,
                                             num_classes=5), 2, False)
