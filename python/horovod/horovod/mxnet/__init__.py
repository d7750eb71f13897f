# SPDX-License-Identifier: Apache-2.0
"""Not available: this Horovod, which works on Weft, is for PyTorch."""
raise ImportError("horovod.mxnet is not available: this Horovod works on Weft, and is for PyTorch; use horovod.torch, or install Horovod itself in an environment of its own")
