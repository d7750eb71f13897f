# SPDX-License-Identifier: Apache-2.0
"""Buffers: the memory of NumPy arrays, PyTorch tensors and DLPack objects, without copies.

A buffer is the address of contiguous elements of one of libweft's types in the host's memory. It keeps the object that owns the memory
alive.
"""
from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple, Tuple

from . import _native
from .errors import ArgumentError

NUMBERS = {name: number for number, name in enumerate(_native.TYPES)}
_ARRAY_TYPES = {"f4": "f32", "f8": "f64", "f2": "f16", "i1": "i8", "u1": "u8", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64", "b1": "bool"}
_TORCH_TYPES = {"torch.uint32": "u32", "torch.uint64": "u64", "torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.int8": "i8",
                "torch.uint8": "u8", "torch.int32": "i32", "torch.int64": "i64", "torch.bool": "bool"}
_DLPACK_TYPES = {(2, 32): "f32", (2, 64): "f64", (2, 16): "f16", (4, 16): "bf16", (0, 8): "i8", (1, 8): "u8", (0, 32): "i32", (1, 32): "u32",
                 (0, 64): "i64", (1, 64): "u64", (6, 8): "bool"}
_DLPACK_HOST = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost


class Buffer(NamedTuple):
    """`count` elements of the type with number `type`, from `address` on. `shape` is that of the array."""

    address: int
    count: int
    type: int
    shape: Tuple[int, ...]
    owner: Any


def _refuse(what: str, problem: str, remedy: str) -> ArgumentError:
    return ArgumentError(f"{what} {problem}; {remedy}")


def _is_packed(shape: Tuple[int, ...], strides: Tuple[int, ...], step: int) -> bool:
    """Whether elements of `step` units with these strides lie one after the other, in row-major order."""
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 0:
            return True
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _of_array(array: Any, what: str, written: bool) -> Buffer:
    interface = array.__array_interface__
    kind, shape = interface["typestr"], tuple(interface["shape"])
    name = _ARRAY_TYPES.get(kind[1:])
    if name is None or kind[0] == ">":
        raise _refuse(what, f"has elements of type '{kind}', which libweft lacks", "convert it, for example by astype('f4')")
    strides = interface.get("strides")
    if strides is not None and not _is_packed(shape, strides, int(kind[2:])):
        raise _refuse(what, "is not contiguous", "pass numpy.ascontiguousarray() of an input, and a contiguous array as an output")
    address, read_only = interface["data"]
    if written and (read_only or not hasattr(array, "__setitem__") and hasattr(array, "dtype")):
        raise _refuse(what, "is read-only", "pass an array that may be written; a NumPy scalar may not")
    return Buffer(address, math.prod(shape), NUMBERS[name], shape, (array, interface))  # a scalar's memory is the interface's


def _of_tensor(tensor: Any, what: str) -> Buffer:
    name = _TORCH_TYPES.get(str(tensor.dtype))
    if name is None:
        raise _refuse(what, f"has elements of type {tensor.dtype}, which libweft lacks", "convert it, for example by to(torch.float32)")
    if tensor.device.type != "cpu":
        raise _refuse(what, f"is on the device '{tensor.device}'", "this build of Weft reaches only the host's memory: pass tensor.cpu()")
    if not tensor.is_contiguous():
        raise _refuse(what, "is not contiguous", "pass tensor.contiguous() of an input, and a contiguous tensor as an output")
    return Buffer(tensor.data_ptr(), tensor.numel(), NUMBERS[name], tuple(tensor.shape), tensor)


class _Tensor(ctypes.Structure):
    """DLTensor of DLPack 0.x, which is where DLManagedTensor begins."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(given: Any, what: str) -> Buffer:
    device = given.__dlpack_device__()[0]
    if device not in _DLPACK_HOST:
        raise _refuse(what, f"is on a device (DLPack type {int(device)})", "this build of Weft reaches only the host's memory: copy it there")
    capsule = given.__dlpack__()  # it owns a reference, and lets go of it with the capsule, since nobody consumes it
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.dimensions))
    name = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise _refuse(what, f"has elements of DLPack type {tensor.code} with {tensor.bits} bits, which libweft lacks", "convert it")
    if tensor.strides and not _is_packed(shape, tuple(tensor.strides[i] for i in range(tensor.dimensions)), 1):
        raise _refuse(what, "is not contiguous", "copy it into contiguous memory first")
    return Buffer((tensor.data or 0) + tensor.byte_offset, math.prod(shape), NUMBERS[name], shape, (given, capsule))


def buffer_of(given: Any, what: str, written: bool = False) -> Buffer:
    """The memory of `given`: an array with __array_interface__, a tensor of PyTorch, or an object with __dlpack__().

    `what` names the argument in messages; `written`: the operation writes to it.
    Raises ArgumentError if its type, device or layout is not acceptable.
    """
    if hasattr(given, "__array_interface__"):
        return _of_array(given, what, written)
    if hasattr(given, "data_ptr") and hasattr(given, "is_contiguous"):
        if written and getattr(given, "requires_grad", False):
            raise _refuse(what, "requires gradients, which know nothing of what is written to it", "pass its detach() or data")
        return _of_tensor(given, what)
    if hasattr(given, "__dlpack__"):
        return _of_dlpack(given, what)
    raise _refuse(what, f"is of type {type(given).__name__}", "pass a NumPy array, a tensor or an object with __dlpack__()")


def _is_foreign(given: Any) -> bool:
    """Whether only DLPack reaches it."""
    return not (hasattr(given, "__array_interface__") or hasattr(given, "data_ptr")) and hasattr(given, "__dlpack__")


def contiguous(given: Any) -> Any:
    """`given`, or a contiguous copy of it."""
    if _is_foreign(given) and given.__dlpack_device__()[0] in _DLPACK_HOST:
        import numpy
        given = numpy.from_dlpack(given)
    if hasattr(given, "data_ptr") and hasattr(given, "contiguous"):
        return given.contiguous()
    interface = getattr(given, "__array_interface__", None)
    if interface is None or interface.get("strides") is None:
        return given
    import numpy
    return numpy.ascontiguousarray(given)


def empty_like(given: Any, shape: Tuple[int, ...]) -> Any:
    """A new array or tensor of this shape, of the type and library of `given`."""
    if hasattr(given, "new_empty"):
        return given.new_empty(shape)
    import numpy
    return numpy.empty(shape, numpy.asarray(given).dtype)
