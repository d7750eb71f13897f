# SPDX-License-Identifier: Apache-2.0
"""Images a second that PyTorch's DataLoader reads, decoded and augmented by torchvision: ImageNet's usual transforms.

    torchvision_loading.py DIRECTORY WORKERS SECONDS
"""
import json
import multiprocessing
import os
import sys
import time

import torch
import torchvision
from torchvision import transforms

BATCH = 64


def processor_seconds():
    """Of this process and its workers, which go on."""
    used = time.process_time()
    for worker in multiprocessing.active_children():
        with open(f"/proc/{worker.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def batches(loader):
    while True:
        yield from loader


def main():
    directory, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    images = torchvision.datasets.ImageFolder(directory, transform)
    loader = torch.utils.data.DataLoader(images, BATCH, shuffle=True, num_workers=workers, drop_last=True,
                                         persistent_workers=workers > 0)
    source = batches(loader)
    for _ in range(4):
        next(source)
    begin, used, count = time.monotonic(), processor_seconds(), 0
    while time.monotonic() - begin < seconds:
        pixels, _ = next(source)
        count += len(pixels)
    print(json.dumps({"images_per_second": count / (time.monotonic() - begin),
                      "images_per_processor_second": count / (processor_seconds() - used)}))


main()
