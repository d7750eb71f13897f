# SPDX-License-Identifier: Apache-2.0
"""The rank before hvd.init(), from the environment."""
from __future__ import annotations

import os
from typing import Tuple

# Set by horovodrun, weft run, Open MPI and MPICH.
_VARIABLES = (("HOROVOD_RANK", "HOROVOD_SIZE"), ("WEFT_RANK", "WEFT_RANKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
              ("PMI_RANK", "PMI_SIZE"))


def get_env_rank_and_size() -> Tuple[int, int]:
    """(rank, number of ranks) that the launcher gave this process; (0, 1) without a launcher."""
    for rank, size in _VARIABLES:
        values = os.environ.get(rank), os.environ.get(size)
        if values != (None, None):
            if None in values:
                raise RuntimeError(f"only one of {rank} and {size} is set; set both or neither")
            return int(values[0] or 0), int(values[1] or 0)
    return 0, 1
