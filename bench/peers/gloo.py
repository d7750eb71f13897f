#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of `weft bench` that PyTorch brings: Gloo's all-reduce, timed by the same rule (src/cli/bench_measure.h).

    gloo.py RANKS MIN MAX FACTOR        starts RANKS processes; sizes in bytes; prints a line of JSON for each size
"""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

BATCH_SECONDS, BATCHES, CALLS_MOST, TRIALS, TRIAL_CALLS, ALTERNATE_BYTES = 0.01, 11, 20000, 3, 20, 16 << 20


def mean(value, ranks):
    box = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(box)
    return box.item() / ranks


def run_calls(sets, calls, ranks):
    dist.barrier()
    cpu, begin = time.process_time(), time.perf_counter()
    for call in range(calls):
        dist.all_reduce(sets[call % len(sets)])
    seconds = (time.perf_counter() - begin) / calls
    cpu = (time.process_time() - cpu) / calls
    return mean(seconds, ranks), mean(cpu, ranks)


def measure(rank, ranks, size):
    """Gloo works in place; the values are zeros, so that sums of sums stay numbers."""
    sets = [torch.zeros(size // 4) for _ in range(2 if size >= ALTERNATE_BYTES else 1)]
    check = torch.full((size // 4,), float(rank + 1))
    dist.all_reduce(check)
    errors = int((check != ranks * (ranks + 1) / 2).sum())
    fastest = min(run_calls(sets, len(sets), ranks)[0] for _ in range(TRIALS))
    if fastest * TRIAL_CALLS < BATCH_SECONDS:
        fastest = min(run_calls(sets, TRIAL_CALLS, ranks)[0] for _ in range(TRIALS))
    calls = max(len(sets), min(CALLS_MOST, int(BATCH_SECONDS / fastest)))
    batches = [run_calls(sets, calls, ranks) for _ in range(BATCHES)]
    seconds = statistics.median(batch[0] for batch in batches)
    if rank == 0:
        bandwidth = size / seconds * 1e-9
        print(json.dumps({"collective": "allreduce", "ranks": ranks, "buffers": "ordinary", "in_place": True, "bytes": size,
                          "count": size // 4, "type": "f32", "op": "sum", "algorithm": "gloo", "time_us": seconds * 1e6,
                          "algbw_gbps": bandwidth, "busbw_gbps": bandwidth * 2 * (ranks - 1) / ranks,
                          "cpu_us": statistics.median(batch[1] for batch in batches) * 1e6, "calls": calls * BATCHES,
                          "errors": errors}), flush=True)


def rank_main(rank, ranks, least, most, factor, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    size = least
    while size <= most:
        measure(rank, ranks, size)
        size *= factor
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, least, most, factor = map(int, sys.argv[1:5])
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(rank_main, (ranks, least, most, factor, os.path.join(folder, "store")), nprocs=ranks)
