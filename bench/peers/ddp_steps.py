# SPDX-License-Identifier: Apache-2.0
"""Training steps of the GPT of examples/python/ddp_gpt.py under DistributedDataParallel, over Weft or Gloo. Prints a line of JSON.

For bench/ddp, which sets what makes PyTorch fast here. A step: forward, backward with the gradients' all-reduce, clipping of the norm, AdamW,
on random tokens. Runs under weft run.
"""
import argparse
import importlib.util
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "python", "ddp_gpt.py")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("weft", "gloo"), required=True)
    parser.add_argument("--hook", choices=("none", "bf16", "fp16"), default="none", help="type in which gradients travel")
    parser.add_argument("--size", default="10m", help="of the model, as the example calls it")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a rank")
    parser.add_argument("--block", type=int, default=64, help="tokens of a sequence")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm", type=int, default=3)
    return parser.parse_args()


def load_example():
    spec = importlib.util.spec_from_file_location("ddp_gpt", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin(backend):
    if backend == "weft":
        import weft.torch  # pylint: disable=import-outside-toplevel,unused-import
    else:
        os.environ.update(RANK=os.environ["WEFT_RANK"], WORLD_SIZE=os.environ["WEFT_RANKS"])
    dist.init_process_group(backend)


def hook_of(name):
    if name == "bf16":
        import weft.torch  # pylint: disable=import-outside-toplevel
        return weft.torch.bf16_hook
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # pylint: disable=import-outside-toplevel
    return default_hooks.fp16_compress_hook


def product_rate():
    """GFLOP/s of a product of matrices, which shows whose kernels PyTorch has."""
    matrix, best = torch.randn(1024, 1024), 0.0
    for _ in range(3):
        began = time.perf_counter()
        matrix @ matrix  # pylint: disable=pointless-statement
        best = max(best, 2 * 1024 ** 3 / (time.perf_counter() - began) / 1e9)
    return best


def over_ranks(value, op=dist.ReduceOp.SUM):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op)
    return tensor.item()


def main():
    chosen = arguments()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # products with denormal numbers are slow
    begin(chosen.backend)
    example = load_example()
    layers, heads, width, vocabulary, block = example.SIZES[chosen.size]
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(example.GPT(layers, heads, width, vocabulary, block), gradient_as_bucket_view=True)
    if chosen.hook != "none":
        model.register_comm_hook(None, hook_of(chosen.hook))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(1000 + dist.get_rank())
    tokens = torch.randint(vocabulary, (chosen.batch, chosen.block + 1), generator=generator)
    seconds, busy, losses = [], 0.0, []
    for step in range(chosen.warm + chosen.steps):
        if step == chosen.warm:
            dist.barrier()
            busy = time.process_time()
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        loss = example.loss_of(model, tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
    busy = time.process_time() - busy
    result = {"step_ms": statistics.median(seconds[chosen.warm:]) * 1e3, "cpu_ms": over_ranks(busy) / chosen.steps * 1e3,
              "loss": over_ranks(losses[-1]) / dist.get_world_size(), "parameters": sum(weights.numel() for weights in model.parameters()),
              "torch": torch.__version__, "gflops": product_rate()}
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
