#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes golden/images_pytorch.txt of model_images_pytorch_test.c with PyTorch and torchvision: loss and gradients of small
image networks, running statistics after a step, and the losses of steps of SGD, all in double precision: in single precision
the MobileNets here lose a digit with every step.

Run: tests/unit/pytorch_images.py > tests/unit/golden/images_pytorch.txt (python3-torchvision).
"""
import math

import torch
from torch import nn
from torchvision.models.mobilenetv2 import MobileNetV2, _make_divisible
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.ops.misc import Conv2dNormActivation

from pytorch_networks import bits, normal, uniform

MULTIPLIER, CLASSES, BATCH, SMOOTHING = 0.125, 5, 3, 0.1
STEPS, STEP_BATCH, RATE, MOMENTUM, DECAY, CLIP = 20, 8, 0.002, 0.9, 1e-3, 1.0


class MobileNetV1(nn.Module):
    """From the paper's table 1, built as torchvision builds MobileNetV2."""

    def __init__(self, channels, small):
        super().__init__()
        keep = small
        inputs = _make_divisible(32 * MULTIPLIER, 8)
        layers = [Conv2dNormActivation(channels, inputs, stride=1 if small else 2, activation_layer=nn.ReLU6)]
        for outputs, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + 5 * [(512, 1)] + [(1024, 2), (1024, 1)]:
            outputs = _make_divisible(outputs * MULTIPLIER, 8)
            if keep and stride == 2:
                keep, stride = False, 1
            layers.append(nn.Sequential(
                Conv2dNormActivation(inputs, inputs, stride=stride, groups=inputs, activation_layer=nn.ReLU6),
                Conv2dNormActivation(inputs, outputs, kernel_size=1, activation_layer=nn.ReLU6)))
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0), nn.Linear(inputs, CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def mobilenet_v2(channels, small):
    stages = [[1, 16, 1, 1], [6, 24, 2, 1 if small else 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]
    model = MobileNetV2(CLASSES, MULTIPLIER, stages, dropout=0.0)
    first = model.features[0][0]
    model.features[0][0] = nn.Conv2d(channels, first.out_channels, 3, 1 if small else 2, 1, bias=False)
    return model


class NarrowResNet(ResNet):
    """torchvision's, with fewer channels."""

    def __setattr__(self, name, value):
        if name == "inplanes" and not hasattr(self, "conv1"):
            value = int(value * MULTIPLIER)
        super().__setattr__(name, value)

    def _make_layer(self, block, planes, *rest, **others):
        return super()._make_layer(block, int(planes * MULTIPLIER), *rest, **others)


def resnet(block, counts, channels, small):
    model = NarrowResNet(block, counts)
    model.conv1 = nn.Conv2d(channels, int(64 * MULTIPLIER), *((3, 1, 1) if small else (7, 2, 3)), bias=False)
    if small:
        model.maxpool = nn.Identity()
    model.fc = nn.Linear(int(512 * MULTIPLIER) * block.expansion, CLASSES)
    return model


NETWORKS = {
    "mobilenet-v1 64 3": lambda: MobileNetV1(3, False),
    "mobilenet-v1 16 1": lambda: MobileNetV1(1, True),
    "mobilenet-v2 64 3": lambda: mobilenet_v2(3, False),
    "mobilenet-v2 16 1": lambda: mobilenet_v2(1, True),
    "resnet-18 64 3": lambda: resnet(BasicBlock, [2, 2, 2, 2], 3, False),
    "resnet-18 16 1": lambda: resnet(BasicBlock, [2, 2, 2, 2], 1, True),
    "resnet-50 64 3": lambda: resnet(Bottleneck, [3, 4, 6, 3], 3, False),
}


def tensors_of(model):
    return {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if not name.endswith("num_batches_tracked")}


def set_weights(model):
    """Stream i makes the values of tensor i, as set_weights() of model_images_pytorch_test.c does."""
    with torch.no_grad():
        for stream, (name, tensor) in enumerate(tensors_of(model).items()):
            count = tensor.numel()
            values = [normal(stream, i) for i in range(count)]
            if tensor.dim() > 1:
                scale = 1.5 / math.sqrt(count / tensor.shape[0])
                values = [scale * value for value in values]
            elif name.endswith("running_var"):
                values = [0.5 + 0.3 * abs(value) for value in values]
            else:
                mean = 1.0 if name.endswith(".weight") else 0.0
                values = [mean + 0.2 * value for value in values]
            tensor.copy_(torch.tensor(values, dtype=torch.float64).view(tensor.shape))


def make_batch(stream, count, size, channels, dtype):
    """NHWC in the stream's order, as the C test has it; rounded to single precision."""
    pixels = [normal(stream, i) for i in range(count * size * size * channels)]
    pixels = torch.tensor(pixels).float().view(count, size, size, channels).permute(0, 3, 1, 2).to(dtype)
    targets = torch.tensor([(bits(stream + 1, i) * CLASSES) >> 64 for i in range(2 * count)]).view(count, 2)
    first = torch.tensor([math.floor(uniform(stream + 2, i) * 64) / 64 for i in range(count)])  # shares add up exactly
    return pixels, targets, torch.stack([first, 1 - first], 1).to(dtype)


def loss_of(logits, targets, shares, smoothing):
    expected = torch.zeros_like(logits).scatter_add_(1, targets, shares)
    expected = expected * (1 - smoothing) + smoothing / CLASSES
    return -(expected * logits.log_softmax(1)).sum(1).mean()


def norm_and_wave(tensor):
    tensor = tensor.detach().flatten().double()
    wave = torch.cos(torch.arange(len(tensor), dtype=torch.float64))
    return f"{tensor.norm().item():.15g} {(tensor * wave).sum().item():.15g}"


def print_gradients(make, size, channels):
    batch = make_batch(1000, BATCH, size, channels, torch.float64)
    model = make().double()
    set_weights(model)
    with torch.no_grad():
        print(f"evaluated {loss_of(model.eval()(batch[0]), *batch[1:], 0.0).item():.15g}")
    loss = loss_of(model(batch[0]), *batch[1:], SMOOTHING)  # frozen batch norms
    loss.backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    print(f"frozen {loss.item():.15g} {gradients.norm().item():.15g}")
    model.zero_grad()
    loss = loss_of(model.train()(batch[0]), *batch[1:], SMOOTHING)
    loss.backward()
    print(f"loss {loss.item():.15g}")
    for name, tensor in tensors_of(model).items():
        print(f"{name} {norm_and_wave(tensor.grad if hasattr(tensor.grad, 'shape') else tensor)}")


def print_steps(make, size, channels):
    model = make().double()
    set_weights(model)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}],
                                lr=RATE, momentum=MOMENTUM)
    batches = [make_batch(2000 + 10 * i, STEP_BATCH, size, channels, torch.float64) for i in range(2)]
    losses = []
    for step in range(STEPS):
        loss = loss_of(model(batches[step % 2][0]), *batches[step % 2][1:], SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(f"{loss.item():.10g}")
    print("steps " + " ".join(losses))
    statistics = torch.cat([tensor.flatten() for name, tensor in tensors_of(model).items() if "running" in name])
    print(f"statistics {norm_and_wave(statistics)}")


torch.set_num_threads(1)
for network, make in NETWORKS.items():
    size, channels = (int(word) for word in network.split()[1:])
    print(f"network {network}")
    print_gradients(make, size, channels)
    print_steps(make, size, channels)
