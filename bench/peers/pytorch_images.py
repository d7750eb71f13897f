#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of torchvision's image networks in PyTorch: forward, backward, SGD on random images. Prints a line of JSON.

For bench/image_steps, which sets what makes PyTorch fast here (the environment is listed in bench/train_steps).
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
import torchvision

NAMES = {"mobilenet-v2": "mobilenet_v2", "resnet-18": "resnet18", "resnet-50": "resnet50"}

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=NAMES, default="mobilenet-v2")
parser.add_argument("--image", type=int, default=224)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--warm", type=int, default=3)
chosen = parser.parse_args()

torch.set_num_threads(chosen.threads)
torch.manual_seed(1)
model = torchvision.models.__dict__[NAMES[chosen.model]]()
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0  # Weft's steps have none
images = torch.randn(chosen.batch, 3, chosen.image, chosen.image)
if chosen.channels_last:
    model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
targets = torch.randint(1000, (chosen.batch,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
seconds, processor = [], []
for _ in range(chosen.warm + chosen.steps):
    begin, processor_begin = time.perf_counter(), time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=chosen.precision == "bf16"):
        loss = F.cross_entropy(model(images), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    seconds.append(time.perf_counter() - begin)
    processor.append(time.process_time() - processor_begin)
print(json.dumps({"step_ms": statistics.median(seconds[chosen.warm:]) * 1e3,
                  "processor_ms": statistics.median(processor[chosen.warm:]) * 1e3, "loss": loss.item(), "torch": torch.__version__}))
