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

/** As bert_batch() of pytorch_networks.py makes it from the same stream. `classes` 0: to pre-train. */
static inline struct model_batch bert_batch_make(struct bert_sample_arrays *arrays, uint64_t stream, size_t batch,
                                                 size_t sequence, size_t vocabulary, size_t classes)
{
    const size_t predictions = model_masked_predictions(sequence);
    fill_below(arrays->tokens, batch * sequence, stream, vocabulary);
    fill_below(arrays->lengths, batch, stream + 1, sequence - 2);
    fill_below(arrays->targets, batch * predictions, stream + 3, vocabulary + BERT_UNUSED);
    fill_below(arrays->segments, batch * sequence, stream + 4, 2);
    fill_below(arrays->labels, batch, stream + 5, classes ? classes : 2);
    for (size_t b = 0; b < batch; b++) {
        arrays->lengths[b] += 3;
        fill_below(arrays->positions + b * predictions, predictions, stream + 2 + 10 * b, (size_t)arrays->lengths[b]);
    }
    for (size_t i = 0; i < batch * predictions; i++)
        if (arrays->targets[i] >= (int32_t)vocabulary)
            arrays->targets[i] = -1;
    return (struct model_batch){.tokens = arrays->tokens,
                                .segments = arrays->segments,
                                .lengths = arrays->lengths,
                                .labels = arrays->labels,
                                .positions = classes ? NULL : arrays->positions,
                                .targets = classes ? NULL : arrays->targets};
}

#endif
