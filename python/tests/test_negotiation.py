# SPDX-License-Identifier: Apache-2.0
"""Operations by name: in different orders, of every kind; what is refused; what happens at the end."""
import numpy
import pytest

import weft
from weft.negotiation import Negotiator


def rank_orders():
    world = weft.init()
    rank, size = world.rank, world.size
    negotiator = Negotiator(world, cache=5)
    for step in range(6):
        gradients = [numpy.full((n + 1, 3), rank + n + step, "f4") for n in range(8)]
        order = range(8) if rank % 2 == 0 else reversed(range(8))
        operations = {n: negotiator.submit("allreduce", f"layer{n}", [(gradients[n], gradients[n])]) for n in order}
        for n in range(8):
            operations[n].wait()
            assert operations[n].done and (gradients[n] == size * (n + step) + size * (size - 1) // 2).all()
    total = numpy.empty((2, 2))
    negotiator.submit("allreduce", "scaled", [(numpy.full((2, 2), 3.0), total)], op="average", prescale=2, postscale=0.5, waits=True).wait()
    assert (total == 3).all()
    rows = numpy.full((rank, 2), rank, "i4")
    gathered = negotiator.submit("allgather", "rows", [(rows, None)])
    gathered.wait()
    result = numpy.empty((sum(range(size)), 2), "i4")
    assert gathered.rows == [tuple(range(size))]
    gathered.copy_result(0, result)
    assert result[:, 0].tolist() == [r for r in range(size) for _ in range(r)]
    with pytest.raises(weft.ArgumentError, match="the result 6 of the type"):
        gathered.copy_result(0, numpy.empty(5, "i4"))
    exchanged = negotiator.submit("alltoall", "exchange", [(numpy.repeat(numpy.arange(size, dtype="f8"), rank + 1), None)], splits=[rank + 1] * size)
    exchanged.wait()
    assert exchanged.rows == [tuple(r + 1 for r in range(size))]
    join = negotiator.submit("join", "join", ())
    join.wait()
    assert 0 <= join.last_joined < size
    negotiator.close()
    with pytest.raises(weft.StateError, match="closed"):
        negotiator.submit("barrier", "late", ())


def test_orders(job):
    job(rank_orders, ranks=3)


def rank_refusals():
    world = weft.init()
    negotiator = Negotiator(world)
    values = numpy.ones(4, "f4")
    for arguments, settings, words in [(("allreduces", "x", [(values, values)]), {}, "there is no operation 'allreduces'"),
                                       (("allreduce", "x", [(values, numpy.ones(4))]), {}, "the output is of type f64, the input of type f32"),
                                       (("allreduce", "", [(values, values)]), {}, "needs a name"),
                                       (("alltoall", "x", [(values, None)]), {"splits": [1, 1]}, "the splits add up to less than the tensor's 4"),
                                       (("alltoall", "x", [(values, None)]), {"splits": [4]}, "an entry for each of the 2 ranks"),
                                       (("allreduce", "x", [(values, values[:2])]), {}, "the output has 2 elements; the operation gives 4"),
                                       (("reduce_scatter", "x", [(values, values)]), {}, "the output has 4 elements; the operation gives 2"),
                                       (("broadcast", "x", [(values, values)]), {"root": 2}, "no root 2")]:
        with pytest.raises(weft.ArgumentError, match=words):
            negotiator.submit(*arguments, **settings)
    with pytest.raises(weft.MismatchError, match="rank 0 calls allreduce of f32 .4. .sum., rank 1 calls allreduce of f32 .4. .max."):
        negotiator.submit("allreduce", "bad", [(values, values)], op="max" if world.rank else "sum").wait()
    negotiator.submit("barrier", "good", ()).wait()
    with pytest.raises(weft.StateError, match="exclude each other"):
        with world.context.group():
            pass
    fixed = numpy.ones(4, "f4")
    fixed.flags.writeable = False
    with pytest.raises(weft.ArgumentError, match="read-only"):
        negotiator.submit("allreduce", "fixed", [(fixed, fixed)])
    if world.rank == 0:  # never submitted by rank 1, which leaves: its negotiator is closed at the end
        with pytest.raises(weft.StateError, match="closed"):
            negotiator.submit("allreduce", "alone", [(values, values)]).wait()


def test_refusals(job):
    job(rank_refusals)
