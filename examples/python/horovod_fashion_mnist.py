# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns Fashion-MNIST with Horovod's API: on Weft's ranks, or unchanged on those of Horovod.

    apt install dataset-fashion-mnist
    horovodrun -np 2 python3 examples/python/horovod_fashion_mnist.py
"""
import argparse
import gzip
import os
import time

import numpy
import torch
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DistributedSampler

import horovod.torch as hvd

try:
    from weft import progress, report  # curves on the platform's pages
except ImportError:
    def report(name, value, step): ...
    def progress(done, total): ...


class Network(torch.nn.Module):
    """Two convolutions and two dense layers: 28 x 28 pixels to 10 classes."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = torch.nn.Linear(32 * 7 * 7, 128)
        self.last = torch.nn.Linear(128, 10)

    def forward(self, images):  # (batch, 1, 28, 28)
        x = F.max_pool2d(F.relu(self.first(images)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.last(F.relu(self.hidden(x.flatten(1))))


def load(directory, part):
    """Images of mean 0 and their classes."""
    contents = []
    for name, header in ((f"{part}-images-idx3-ubyte.gz", 16), (f"{part}-labels-idx1-ubyte.gz", 8)):
        try:
            with gzip.open(os.path.join(directory, name)) as file:
                contents.append(numpy.frombuffer(file.read(), "u1", offset=header))
        except OSError as error:
            raise SystemExit(f"Fashion-MNIST cannot be read: {error}; install Debian's package dataset-fashion-mnist, or name the directory of "
                             f"its four files with --data") from None
    images, classes = contents
    return torch.from_numpy((images.reshape(-1, 1, 28, 28) / 255 - 0.286).astype("f4")), torch.from_numpy(classes.astype("i8"))


def test_accuracy(network, images, classes):
    """Each rank takes a part of the test images."""
    own = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        right = sum((network(part).argmax(1) == target).sum()
                    for part, target in zip(images[own].split(500), classes[own].split(500)))
    return hvd.allreduce(right.double(), op=hvd.Sum, name="right").item() / len(images)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="directory of the four files")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="end after so many steps (0: after all epochs)")
    parser.add_argument("--batch", type=int, default=64, help="images per rank and step")
    parser.add_argument("--limit", type=int, default=60000, help="use only the first so many training images")
    parser.add_argument("--rate", type=float, default=0.02, help="learning rate of one rank")
    parser.add_argument("--checkpoint", help="write the network to this file after each epoch")
    return parser.parse_args()


def main():
    args = arguments()
    hvd.init()                                                                          # 1. initialize
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))            # 2. this rank's share of the host
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    torch.set_flush_denormal(True)  # products with denormal numbers are slow
    torch.manual_seed(1 + hvd.rank())

    images, classes = load(args.data, "train")
    images, classes = images[:args.limit], classes[:args.limit]
    test = load(args.data, "t10k")
    network = Network()
    rate = args.rate * hvd.size()                                                       # 3. more ranks, larger steps, after a warm-up
    sampler = DistributedSampler(range(len(images)), num_replicas=hvd.size(), rank=hvd.rank())  # 4. each rank has its share of the data
    batches = BatchSampler(sampler, args.batch, drop_last=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())    # 5. average the gradients
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)                         # 6. begin alike
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    steps, step, began = args.epochs * len(batches), 0, time.monotonic()
    steps = min(steps, args.steps or steps)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for indices in batches:
            if step == steps:
                break
            for group in optimizer.param_groups:
                share = min(1.0, (step + 1) / len(batches))  # linear during the first epoch
                group["lr"] = args.rate + (rate - args.rate) * share
            optimizer.zero_grad()
            loss = F.cross_entropy(network(images[indices]), classes[indices])
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0 or step == steps:
                mean = hvd.allreduce(loss.detach(), name="loss").item()
                if hvd.rank() == 0:
                    report("train/loss", mean, step)
                    progress(step, steps)
                    print(f"step {step:5d}/{steps}  loss {mean:.4f}  {step * args.batch * hvd.size() / (time.monotonic() - began):7.0f} images/s",
                          flush=True)
        accuracy = test_accuracy(network, *test)
        if hvd.rank() == 0:                                                             # 7. only one rank writes and prints
            report("test/accuracy", accuracy, step)
            print(f"epoch {epoch + 1}: test accuracy {accuracy:.4f}", flush=True)
            if args.checkpoint:
                torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, args.checkpoint)
        if step == steps:
            break
    hvd.shutdown()


if __name__ == "__main__":
    main()
