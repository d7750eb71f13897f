/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of the hash over tensors, whose layout checkpoint.h states, so that tensors in files and in memory share
 * it. */
#ifndef WEFT_TRAINING_CHECKPOINT_INTERNAL_TENSOR_HASH_H
#define WEFT_TRAINING_CHECKPOINT_INTERNAL_TENSOR_HASH_H

#include "training/checkpoint/checkpoint.h"

/** Begin; then for each tensor in the order of names describe it once and give its pieces in order; then sha256_end().
 */
weft_status tensor_hash_begin(struct sha256 *hash, struct error *error);
void tensor_hash_describe(struct sha256 *hash, const struct named_tensor *tensor);
void tensor_hash_elements(struct sha256 *hash, const struct named_tensor *tensor);

#endif
