/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Samples of random numbers within the bounds of a network's inputs, without end and without a pattern: for measuring
 * speed. Texts have no padding, images have no second class. Sample n has the numbers that n and the seed give.
 */
#ifndef WEFT_TRAINING_DATA_RANDOM_SOURCE_H
#define WEFT_TRAINING_DATA_RANDOM_SOURCE_H

#include "training/data/source.h"

/** Errors: MEMORY. */
weft_status random_source_open(const struct model_inputs *inputs, uint64_t seed, struct sample_source **source,
                               struct error *error);

#endif
