/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of BERT: micro-batches of random samples with padding, and some predictions that are not used. */
#ifndef WEFT_TESTS_BERT_SUPPORT_H
#define WEFT_TESTS_BERT_SUPPORT_H

#include "base/random.h"
#include "training/model/model.h"

#define BERT_TOKENS_MOST 64 /* in a micro-batch */
#define BERT_UNUSED      9  /* draws of a target, besides the tokens, that make one which is not used */

struct bert_sample_arrays {
    int32_t tokens[BERT_TOKENS_MOST], segments[BERT_TOKENS_MOST], lengths[BERT_TOKENS_MOST],
        positions[BERT_TOKENS_MOST], targets[BERT_TOKENS_MOST], labels[BERT_TOKENS_MOST];
};

static inline void fill_below(int32_t *numbers, size_t count, uint64_t stream, size_t below)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = (int32_t)random_below(stream, i, below);
}

/** Fill those arrays that are not NULL: as bert_batch() of pytorch_networks.py from the same stream. */
static inline void bert_arrays_fill(const struct model_arrays *arrays, uint64_t stream, size_t batch, size_t sequence,
                                    size_t vocabulary, size_t classes)
{
    const size_t predictions = model_masked_predictions(sequence);
    if (arrays->tokens)
        fill_below(arrays->tokens, batch * sequence, stream, vocabulary);
    if (arrays->segments)
        fill_below(arrays->segments, batch * sequence, stream + 4, 2);
    if (arrays->labels)
        fill_below(arrays->labels, batch, stream + 5, classes ? classes : 2);
    if (arrays->targets)
        fill_below(arrays->targets, batch * predictions, stream + 3, vocabulary + BERT_UNUSED);
    for (size_t i = 0; arrays->targets && i < batch * predictions; i++)
        if (arrays->targets[i] >= (int32_t)vocabulary)
            arrays->targets[i] = -1;
    for (size_t b = 0; b < batch; b++) {
        const size_t length = 3 + (size_t)random_below(stream + 1, b, sequence - 2);
        if (arrays->lengths)
            arrays->lengths[b] = (int32_t)length;
        if (arrays->positions)
            fill_below(arrays->positions + b * predictions, predictions, stream + 2 + 10 * b, length);
    }
}

/** All arrays of a micro-batch. `classes` 0: to pre-train. */
static inline struct model_batch bert_batch_make(struct bert_sample_arrays *arrays, uint64_t stream, size_t batch,
                                                 size_t sequence, size_t vocabulary, size_t classes)
{
    const struct model_arrays all = {.tokens = arrays->tokens,
                                     .segments = arrays->segments,
                                     .lengths = arrays->lengths,
                                     .labels = arrays->labels,
                                     .positions = classes ? NULL : arrays->positions,
                                     .targets = classes ? NULL : arrays->targets};
    struct model_batch made = {0};
    bert_arrays_fill(&all, stream, batch, sequence, vocabulary, classes);
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        made.inputs[input] = all.of[input];
    return made;
}

#endif
