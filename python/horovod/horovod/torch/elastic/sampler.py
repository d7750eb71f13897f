# SPDX-License-Identifier: Apache-2.0
"""A sampler that divides what is left of an epoch among the ranks that are left."""
from __future__ import annotations

import random
from typing import Any, Dict, Iterator, List, Sized

import torch

from ..mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Indices of a data set for this rank, a part of those that no rank has processed in this epoch.

    Put it into the TorchState. Call record_batch() after each batch, and set_epoch() at the end of an epoch. `seed` is equal on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0  # by all ranks in this epoch
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: nothing is processed, and the order is another one."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """This rank, and at the same time each other one, has processed a batch."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """What ranks must agree on."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Go on from there, with the present ranks."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divide what is left among the present ranks."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices: List[int] = order[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        # The last indices are repeated from the beginning, since every rank gets the same number.
        count = len(self.remaining_indices)
        return iter([self.remaining_indices[place % count] for place in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self) -> int:
        return self.num_samples
