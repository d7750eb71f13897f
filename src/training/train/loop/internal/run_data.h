/* SPDX-License-Identifier: Apache-2.0 */
/** The samples of a run or an evaluation: which source reads --data depends on the kind of network. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RUN_DATA_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RUN_DATA_H

#include "training/data/source.h"
#include "training/model/model.h"
#include "training/train/text/text.h"

struct run_data_options {
    const char *data;        /**< a path, or "random" */
    uint64_t sequence;       /**< tokens of a sample */
    uint64_t seed;           /**< of order and random numbers */
    const struct text *text; /**< of tokens; its tokenizer is needed until run_data_open() returns */
};

/** Open the samples that the network of `description` reads. *bytes_per_token is set where the data is text. Errors:
 * those of the source; ARGUMENT where the network cannot read such data. */
weft_status run_data_open(const struct run_data_options *options, const struct model_description *description,
                          struct sample_source **source, double *bytes_per_token, struct error *error);

#endif
