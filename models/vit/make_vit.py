"""Small Vision Transformers of timm and torchvision and what they compute, for test_vit.c.

    python3 make_vit.py    # writes vit_timm, vit_mean, vit_post and vit_torchvision .safetensors here

Each file holds the weights under the program's own names, "input" [N,H,W,C], "targets", "logits", and
for the mean cross-entropy the gradient of every parameter as "grad/" and the name that timm has for it.
vit_timm also has "resampled": its positions on a grid of 5 x 2, and "logits_large" of a larger image.

Needs torch, torchvision, timm and safetensors."""
import os
import re

import timm
import torch
import torchvision
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed

here = os.path.dirname(os.path.abspath(__file__))


def timm_name(name):
    """The name that timm has for a parameter of torchvision's."""
    for old, new in [(r"^class_token", "cls_token"), (r"^encoder\.pos_embedding", "pos_embed"),
                     (r"^conv_proj", "patch_embed.proj"), (r"^encoder\.ln", "norm"), (r"^heads\.head", "head"),
                     (r"^encoder\.layers\.encoder_layer_", "blocks."), (r"ln_(\d)", r"norm\1"),
                     (r"self_attention\.in_proj_", "attn.qkv."), (r"self_attention\.out_proj", "attn.proj"),
                     (r"mlp\.0", "mlp.fc1"), (r"mlp\.3", "mlp.fc2")]:
        name = re.sub(old, new, name)
    return name


def fill(net, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in net.named_parameters():
            norm = value.dim() == 1 and name.endswith("weight")
            value.copy_(torch.randn(value.shape, generator=generator) * 0.3 + (1.0 if norm else 0.0))


def post(block):
    def forward(x, *args, **kwargs):
        x = block.norm1(x + block.attn(x))
        return block.norm2(x + block.mlp(x))
    return forward


def golden(name, net, height, width, seed, more=None):
    fill(net, seed)
    net = net.eval()
    out = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.Generator().manual_seed(seed + 100)
    x = torch.randn((3, height, width, 3), generator=generator)
    targets = torch.tensor([1, 4, 0])
    net = net.double()
    logits = net(x.double().permute(0, 3, 1, 2))
    torch.nn.functional.cross_entropy(logits, targets).backward()
    out |= {"input": x, "targets": targets.int(), "logits": logits.detach().float()}
    for key, value in net.named_parameters():
        out["grad/" + timm_name(key)] = value.grad.float().clone()
    if more:
        out |= more(net)
    out = {k: v.contiguous() for k, v in out.items()}
    save_file(out, f"{here}/{name}.safetensors")
    print(name, logits[0].tolist())


def large(net):
    table = resample_abs_pos_embed(net.pos_embed.detach(), new_size=[5, 2], old_size=[4, 3])
    generator = torch.Generator().manual_seed(7)
    x = torch.randn((2, 20, 8, 3), generator=generator)
    net.set_input_size(img_size=(20, 8))
    with torch.no_grad():
        logits = net(x.double().permute(0, 3, 1, 2))
    return {"resampled": table.float(), "input_large": x, "logits_large": logits.float()}


small = dict(patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=5)
vit = timm.models.vision_transformer.VisionTransformer
golden("vit_timm", vit(img_size=(16, 12), **small), 16, 12, 1, large)
golden("vit_mean", vit(img_size=16, class_token=False, global_pool="avg", qkv_bias=False, **small), 16, 16, 2)
net = vit(img_size=16, **small)
net.norm = torch.nn.Identity()
for b in net.blocks:
    b.forward = post(b)
golden("vit_post", net, 16, 16, 3)
golden("vit_torchvision", torchvision.models.VisionTransformer(
    image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=64, num_classes=5), 16, 16, 4)
