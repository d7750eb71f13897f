#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of `weft bench` that PyTorch brings: Gloo's collectives, in place, timed by the same rule (src/cli/measure/bench_timing.h).

    gloo.py RANKS COLLECTIVE MIN MAX FACTOR        starts RANKS processes; sizes in bytes; prints a line of JSON for each size

COLLECTIVE is allreduce, allgather, broadcast, reduce or barrier: Gloo has no others in PyTorch 1.13.
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

BATCH_SECONDS, BATCHES, BATCHES_LEAST, SIZE_SECONDS, CALLS_MOST = 0.01, 11, 3, 0.25, 20000
TRIALS, TRIAL_CALLS, ALTERNATE_BYTES = 3, 20, 16 << 20

# How each is called on a tensor of the whole of the larger side; allgather's blocks are views of it.
CALLS = {
    "allreduce": lambda whole, blocks, rank: dist.all_reduce(whole),
    "allgather": lambda whole, blocks, rank: dist.all_gather(blocks, blocks[rank]),
    "broadcast": lambda whole, blocks, rank: dist.broadcast(whole, 0),
    "reduce": lambda whole, blocks, rank: dist.reduce(whole, 0),
    "barrier": lambda whole, blocks, rank: dist.barrier(),
}
# Bus bandwidth's factor, by the number of ranks.
FACTORS = {
    "allreduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "allgather": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1,
    "reduce": lambda ranks: 1,
    "barrier": lambda ranks: 0,
}


def mean(values, ranks):
    box = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(box)
    return [value / ranks for value in box.tolist()]


def run_calls(call, sets, calls, rank, ranks):
    dist.barrier()
    cpu, begin = time.process_time(), time.perf_counter()
    for i in range(calls):
        call(*sets[i % len(sets)], rank)
    return mean([(time.perf_counter() - begin) / calls, (time.process_time() - cpu) / calls], ranks)


def wrong_elements(collective, call, count, rank, ranks):
    """What the collective makes of each rank's number + 1 everywhere."""
    whole = torch.full((count,), float(rank + 1))
    blocks = list(whole.chunk(ranks))
    call(whole, blocks, rank)
    if collective == "allgather":
        return sum(int((block != index + 1).sum()) for index, block in enumerate(blocks))
    if collective == "barrier" or (collective == "reduce" and rank != 0):
        return 0
    return int((whole != (1 if collective == "broadcast" else ranks * (ranks + 1) / 2)).sum())


def measure(collective, rank, ranks, size):
    """Gloo works in place; the values are zeros, so that sums of sums stay numbers."""
    call, count = CALLS[collective], size // 4
    errors = wrong_elements(collective, call, count, rank, ranks) if count else 0
    wholes = [torch.zeros(count) for _ in range(2 if size >= ALTERNATE_BYTES else 1)]
    sets = [(whole, list(whole.chunk(ranks)) if count else []) for whole in wholes]
    fastest = min(run_calls(call, sets, len(sets), rank, ranks)[0] for _ in range(TRIALS))
    if fastest * TRIAL_CALLS < BATCH_SECONDS:
        fastest = min(run_calls(call, sets, TRIAL_CALLS, rank, ranks)[0] for _ in range(TRIALS))
    calls = max(len(sets), min(CALLS_MOST, int(BATCH_SECONDS / fastest)))
    batch_count = max(BATCHES_LEAST, min(BATCHES, int(SIZE_SECONDS / (fastest * calls))))
    batches = [run_calls(call, sets, calls, rank, ranks) for _ in range(batch_count)]
    seconds = statistics.median(batch[0] for batch in batches)
    if rank == 0:
        bandwidth = size / seconds * 1e-9
        print(json.dumps({"collective": collective, "ranks": ranks, "buffers": "ordinary", "in_place": True, "bytes": size,
                          "count": count, "type": "f32", "op": "sum", "algorithm": "gloo", "time_us": seconds * 1e6,
                          "algbw_gbps": bandwidth, "busbw_gbps": bandwidth * FACTORS[collective](ranks),
                          "cpu_us": statistics.median(batch[1] for batch in batches) * 1e6, "calls": calls * batch_count,
                          "errors": errors}), flush=True)


def rank_main(rank, collective, ranks, least, most, factor, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    size = 0 if collective == "barrier" else max(least, 4 * ranks) if collective == "allgather" else least
    while size <= most:
        measure(collective, rank, ranks, size)
        size = size * factor or most + 1
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    collective = sys.argv[2]
    ranks, least, most, factor = int(sys.argv[1]), *map(int, sys.argv[3:6])
    with tempfile.TemporaryDirectory() as directory:
        processes.spawn(rank_main, (collective, ranks, least, most, factor, os.path.join(directory, "store")), nprocs=ranks)
