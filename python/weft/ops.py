# SPDX-License-Identifier: Apache-2.0
"""How contributions are combined: SUM, AVERAGE, PRODUCT, MIN, MAX, scaled_sum(), bitwise and logical operations."""
from __future__ import annotations

from typing import NamedTuple

from . import _native

_KINDS = {name: number for number, name in enumerate(_native.OPS)}


class Op(NamedTuple):
    """An operation: libweft's number of it, and the factor of a scaled sum."""

    kind: int
    factor: float = 1.0


SUM = Op(_KINDS["sum"])
AVERAGE = Op(_KINDS["average"])
PRODUCT = Op(_KINDS["product"])
MIN = Op(_KINDS["min"])
MAX = Op(_KINDS["max"])
BITWISE_AND = Op(_KINDS["bitwise-and"])
BITWISE_OR = Op(_KINDS["bitwise-or"])
BITWISE_XOR = Op(_KINDS["bitwise-xor"])
LOGICAL_AND = Op(_KINDS["logical-and"])
LOGICAL_OR = Op(_KINDS["logical-or"])
LOGICAL_XOR = Op(_KINDS["logical-xor"])


def scaled_sum(factor: float) -> Op:
    """The sum, then multiplied by `factor`; for floating-point types only."""
    return Op(_KINDS["scaled-sum"], factor)
