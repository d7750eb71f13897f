/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Who writes which tensor of a checkpoint when several ranks write: whole tensors, so that other tools read each file,
 * by bytes. The largest goes first, each to whoever has the least so far (Graham 1969, "Bounds on multiprocessing
 * timing anomalies": at most 4/3 of the best division): a function of the shapes alone, so every rank finds the same.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_DIVISION_H
#define WEFT_TRAINING_CHECKPOINT_DIVISION_H

#include "training/checkpoint/safetensors.h"

/**
 * Divide `count` tensors among `writers`. `loads` holds the bytes that each has to write already, and then all that it
 * has; `writer_of[i]` receives who writes tensor i. Of equal loads the first writer takes it. Errors: MEMORY.
 */
weft_status division_by_bytes(const struct named_tensor *tensors, size_t count, unsigned writers, uint64_t *loads,
                              unsigned *writer_of, struct error *error);

/** How many writers files of at least `least` bytes each leave: at least 1, at most `most`. */
unsigned division_writers(uint64_t bytes, uint64_t least, unsigned most);

#endif
