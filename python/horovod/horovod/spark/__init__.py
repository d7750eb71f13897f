# SPDX-License-Identifier: Apache-2.0
"""Not available: this Horovod, which works on Weft, is for PyTorch."""
raise ImportError("horovod.spark is not available: this Horovod works on Weft, and is for PyTorch; start programs with horovodrun or `weft run`, or install Horovod itself in an environment of its own")
