# SPDX-License-Identifier: Apache-2.0
"""All-reduces of torch tensors by name, on 2 ranks: through horovod.torch, whichever package provides it, or torch.distributed with Gloo.
Prints a line of JSON: microseconds of each case.

For bench/horovod. Cases: synchronous all-reduces of plain tensors and, with the package weft, of tensors in registered memory; 160 gradients
of 100 KB that are submitted together. From 16 MiB on two tensors take turns, so that none is found in a cache.
"""
import argparse
import json
import os
import statistics
import time

import torch

SIZES = (4, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
GRADIENTS, GRADIENT_BYTES = 160, 100_000


class Horovod:
    """A program of Horovod's."""

    def __init__(self):
        import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()

    def reduce(self, tensor, name):
        self.hvd.allreduce_(tensor, name=name, op=self.hvd.Sum)

    def start(self, tensor, name):
        handle = self.hvd.allreduce_async_(tensor, name=name, op=self.hvd.Sum)
        return lambda: self.hvd.synchronize(handle)


class Gloo:
    """What stock Horovod without MPI stands on, in PyTorch: without names and without negotiation."""

    def __init__(self):
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        os.environ.update(RANK=os.environ["WEFT_RANK"], WORLD_SIZE=os.environ["WEFT_RANKS"])
        dist.init_process_group("gloo")
        self.dist, self.rank, self.size = dist, dist.get_rank(), dist.get_world_size()

    def reduce(self, tensor, name):
        del name
        self.dist.all_reduce(tensor)

    def start(self, tensor, name):
        del name
        return self.dist.all_reduce(tensor, async_op=True).wait


def registered(count):
    import weft  # pylint: disable=import-outside-toplevel
    return torch.from_numpy(weft.empty(count))


def check(tensor, calls, size):
    if tensor[0].item() != float(size) ** calls:
        raise SystemExit(f"an all-reduce gives {tensor[0].item()} after {calls} calls")


def time_of(library, name, tensors, calls):
    """Median time of a call, in microseconds. Contents are written again before each batch."""
    times = []
    for batch in range(7):
        for tensor in tensors:
            tensor.fill_(1)
            library.reduce(tensor, name)
            tensor.fill_(1)
        began = time.perf_counter()
        for call in range(calls):
            library.reduce(tensors[call % len(tensors)], name)
        times.append((time.perf_counter() - began) / calls * 1e6)
        check(tensors[0], (calls + len(tensors) - 1) // len(tensors), library.size)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("horovod", "gloo"))
    parser.add_argument("--registered", action="store_true", help="also tensors in Weft's memory")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    library = Horovod() if chosen.library == "horovod" else Gloo()
    result = {}
    for size in SIZES:
        calls = 20 if size <= 1 << 20 else 6
        sets = 2 if size >= 16 << 20 else 1
        result[str(size)] = time_of(library, f"plain.{size}", [torch.ones(size // 4) for _ in range(sets)], calls)
        if chosen.registered:
            result[f"{size} registered"] = time_of(library, f"registered.{size}", [registered(size // 4) for _ in range(sets)], calls)
    gradients = [torch.ones(GRADIENT_BYTES // 4) for _ in range(GRADIENTS)]
    times = []
    for _ in range(9):
        began = time.perf_counter()
        for wait in [library.start(gradient, f"gradient.{number}") for number, gradient in enumerate(gradients)]:
            wait()
        times.append((time.perf_counter() - began) * 1e6)
    result["gradients"] = statistics.median(times)
    if library.rank == 0:
        print(json.dumps(result), flush=True)


main()
