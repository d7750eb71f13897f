/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Evaluation of given weights on held-out data (`weft eval`). The sequences are divided over the ranks; the loss has the
 * same bits on any number of them, with micro-batches of the same size and the same kernel set. Evaluations during
 * training are the executor's (training/parallel/execute/executor.h).
 */
#ifndef WEFT_TRAINING_TRAIN_INFERENCE_EVALUATOR_H
#define WEFT_TRAINING_TRAIN_INFERENCE_EVALUATOR_H

#include "training/parallel/agreement.h"
#include "training/train/state/pretrained.h"

#include <stdio.h>

/** The same on every rank, except `pretrained`. */
struct evaluator_config {
    struct model_shape shape;
    const struct pretrained *pretrained; /**< on rank 0; NULL elsewhere */
    const char *from;                    /**< path of `pretrained` */
    const char *tokenizer;               /**< as in train_config */
    const char *data;
    bool skip;             /**< images that cannot be decoded, instead of an error */
    int64_t sequence;      /**< tokens in a sequence; 0: the model's context */
    int64_t sequences;     /**< held-out sequences to evaluate; 0: all */
    int64_t micro_batch;   /**< sequences in one forward pass */
    int64_t threads;       /**< compute threads a rank */
    weft_type activations; /**< and products: WEFT_F32, WEFT_BF16 or WEFT_F16 */
    int kernels;           /**< how the instruction set is chosen: see enum kernel_rule */
};

struct evaluator_result {
    double loss;     /**< mean over the predictions, natural logarithm */
    double accuracy; /**< share of them that are right; NAN of networks that do not classify */
    uint64_t sequences, tokens;
    double bytes_per_token; /**< of the held-out text; 0: not known */
    uint64_t sequence;      /**< tokens in one */
    bool reads_images;      /**< a sequence is an image */
    size_t weights;         /**< of the model */
    double load_seconds;    /**< to read the weights and broadcast them */
    double seconds;         /**< of the evaluation */
    const char *kernels;    /**< name of the kernel set */
    char data[256];         /**< sample_source_describe() */
};

/**
 * Collective; fails on all ranks or on none (*speaks as in training/parallel/agreement.h), unless a rank is lost.
 * Every rank gets the result. Errors: those of pretrained_read() and of the data; DATA for a loss that is infinite
 * or NaN.
 */
weft_status evaluator_run(const struct evaluator_config *config, weft_context *context, weft_comm *comm,
                          struct evaluator_result *result, bool *speaks, struct error *error);

#endif
