/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Evaluation on held-out data: during training, and of given weights (`weft eval`). The sequences are divided over the
 * ranks; the loss has the same bits on any number of them, with micro-batches of the same size and the same kernel set.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_EVALUATOR_H
#define WEFT_TRAINING_TRAIN_LOOP_EVALUATOR_H

#include "training/data/dataset.h"
#include "training/parallel/agreement.h"
#include "training/train/state/pretrained.h"

#include <stdatomic.h>
#include <stdio.h>

/* ---- during training ---- */

struct evaluation {
    weft_context *context;
    weft_comm *comm;
    struct model *model;
    const struct dataset *dataset;
    uint64_t first;            /**< the first held-out sequence */
    uint32_t micro_batches;    /**< in the evaluation */
    int32_t *tokens, *targets; /**< room for one micro-batch; borrowed */
    const atomic_int *stop;    /**< non-zero on any rank: stop; NULL on all ranks: never */
};

/**
 * Mean loss over `micro_batches` of the held-out part, from sequence `first` on. Collective. All ranks check `stop`
 * together before each of their micro-batches. If they stop, *stopped (may be NULL without a `stop`) is true and
 * *loss is unchanged on all of them.
 */
weft_status evaluation_run(const struct evaluation *evaluation, const float *parameters, double *loss, bool *stopped,
                           struct error *error);

/* ---- weft eval ---- */

/** The same on every rank, except `pretrained`. */
struct evaluator_config {
    struct model_shape shape;
    const struct pretrained *pretrained; /**< on rank 0; NULL elsewhere */
    const char *from;                    /**< path of `pretrained` */
    const char *tokenizer;               /**< as in train_config */
    const char *data;
    int64_t sequence;      /**< tokens in a sequence; 0: the model's context */
    int64_t sequences;     /**< held-out sequences to evaluate; 0: all */
    int64_t micro_batch;   /**< sequences in one forward pass */
    int64_t threads;       /**< compute threads a rank */
    weft_type activations; /**< and products: WEFT_F32, WEFT_BF16 or WEFT_F16 */
    int kernels;           /**< how the instruction set is chosen: see enum kernel_rule */
};

struct evaluator_result {
    double loss; /**< mean over the tokens, natural logarithm */
    uint64_t sequences, tokens;
    double bytes_per_token; /**< of the held-out text; 0: not known */
    uint64_t sequence;      /**< tokens in one */
    size_t weights;         /**< of the model */
    double load_seconds;    /**< to read the weights and broadcast them */
    double seconds;         /**< of the evaluation */
    const char *kernels;    /**< name of the kernel set */
    char data[256];         /**< dataset_describe() */
};

/**
 * Collective; fails on all ranks or on none (*speaks as in training/parallel/agreement.h), unless a rank is lost.
 * Every rank gets the result. Errors: those of pretrained_read() and dataset_batch(); DATA for a loss that is infinite
 * or NaN.
 */
weft_status evaluator_run(const struct evaluator_config *config, weft_context *context, weft_comm *comm,
                          struct evaluator_result *result, bool *speaks, struct error *error);

#endif
