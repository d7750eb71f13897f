/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A source of random samples for any kind of network, to measure speed: integers within their bounds, samples without
 * padding, normal numbers for pixels, and shares of 1 and 0. Sample number n is a function of (seed, split, n) alone.
 *
 * dataset_open_random() makes those of language models.
 */
#ifndef WEFT_TRAINING_DATA_RANDOM_SOURCE_H
#define WEFT_TRAINING_DATA_RANDOM_SOURCE_H

#include "training/data/source.h"

/** Open a source of what `inputs` says, which is copied; close it with sample_source_close(). Any number of threads may
 * read it. Errors: MEMORY. */
weft_status random_source_open(const struct model_inputs *inputs, uint64_t seed, struct sample_source **source,
                               struct error *error);

#endif
