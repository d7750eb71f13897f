# SPDX-License-Identifier: Apache-2.0
"""The operations of horovod.torch, a file for each; horovod.torch.mpi_ops has them all."""
