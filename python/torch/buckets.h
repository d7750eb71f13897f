/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gradient buckets in memory that the other ranks of the host reach without a copy.
 *
 * DistributedDataParallel allocates a bucket once and uses it in every step. Its memory is exchanged under the tensor, and
 * under all views of it, when the bucket is first reduced: they refer to one storage, which holds the address.
 */
#ifndef WEFT_TORCH_BUCKETS_H
#define WEFT_TORCH_BUCKETS_H

#include <ATen/core/Tensor.h>
#include <weft/weft.h>

namespace weft_torch
{

/**
 * Move the memory of a tensor that is reduced, if it is a bucket of the DDP reducer: large, a storage by itself that
 * PyTorch has allocated, and never seen by Python (so no NumPy array or pointer refers to the memory).
 */
void buckets_take(weft_context *context, const at::Tensor &tensor);

/** The same for a tensor that the caller knows to be a bucket, although Python has seen it. */
void buckets_take_seen(weft_context *context, const at::Tensor &tensor);

/** Before the job is left: give the buckets ordinary memory again. */
void buckets_give_back();

/** How many bytes of buckets are in such memory now. */
size_t buckets_bytes();

} // namespace weft_torch

#endif
