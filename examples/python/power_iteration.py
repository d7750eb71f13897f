# SPDX-License-Identifier: Apache-2.0
"""The largest eigenvalue of a matrix whose rows are divided among the ranks, by power iteration.

    weft run -n 4 -- python3 examples/python/power_iteration.py
"""
import numpy

import weft

SIZE, STEPS, TOLERANCE = 1200, 200, 1e-10


def own_rows(rank, ranks):
    """This rank's rows of a symmetric matrix that is never stored as a whole."""
    rows = numpy.arange(rank * SIZE // ranks, (rank + 1) * SIZE // ranks)
    return 1 / (1 + numpy.abs(rows[:, None] - numpy.arange(SIZE)[None, :])), rows


def main():
    world = weft.init()
    matrix, rows = own_rows(world.rank, world.size)
    counts = [(r + 1) * SIZE // world.size - r * SIZE // world.size for r in range(world.size)]
    vector = weft.empty(SIZE, "f8")  # all ranks of a host read and write it without a copy
    vector[:] = 1 / numpy.sqrt(SIZE)
    before = 0.0
    for step in range(1, STEPS + 1):
        product = matrix @ vector
        # The parts of both sums come from all ranks: x A x, and the squared length of A x.
        value, square = world.allreduce(numpy.array([vector[rows] @ product, product @ product]))
        world.allgatherv(product / numpy.sqrt(square), counts, vector)
        weft.report("eigenvalue", value, step)
        if abs(value - before) <= TOLERANCE * abs(value):
            break
        before = value
    if world.rank == 0:
        print(f"largest eigenvalue {value:.6f} after {step} steps on {world.size} ranks")


main()
