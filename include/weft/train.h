/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/train.h: data-parallel training for any program. Name your parameters, say when each gradient is ready, step.
 *
 * It does the rest: gradients fused into buckets and summed over the ranks while the backward pass goes on, the
 * average, clipping, the optimizer (in shards if wanted), the same start everywhere, the learning rate scaled,
 * checkpoints that rank 0 writes. `weft train` is built on this very header. Link with -lweft-train -lweft (pkg-config:
 * weft-train).
 *
 *     weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
 *     config.optimizer = WEFT_OPTIMIZER_ADAMW;
 *     weft_training_open(context, weft_world(context), &config, &training);
 *     int weight = weft_training_parameter(training, &(weft_parameter){.name = "weight", .shape = {64, 10}});
 *     int bias = weft_training_parameter(training, &(weft_parameter){.name = "bias", .shape = {10}});
 *     weft_training_start(training);                          lays out memory; the ranks compare their names
 *     float *w = weft_training_values(training, weight), *to_w = weft_training_gradient(training, weight);
 *     ... set the initial values (rank 0's are what counts) ...
 *     weft_training_share(training);                          every rank has rank 0's values
 *     while (weft_training_steps(training) < 1000) {
 *         ... clear the gradients; forward; backward: as soon as to_w is complete ...
 *         weft_training_ready(training, weight);
 *         ... and so on, in any order ...
 *         weft_training_step(training, 1e-3, &result);
 *     }
 *     weft_training_close(training);
 *
 * examples/next_byte.c is a whole program; docs/tutorials/own-training.md walks through it.
 *
 * ## Gradients
 *
 * A gradient's place is the program's to write from the first micro-batch on, and again as soon as
 * weft_training_accumulate() or weft_training_step() has returned. It is zero only before the first micro-batch.
 * Later it holds what Weft left there (sums of micro-batches and ranks), so each micro-batch must write every element:
 * either overwrite, or clear to 0 before adding. Otherwise old sums are added to the new gradient, without an error.
 * After weft_training_ready() the place is Weft's until the micro-batch ends. With WEFT_OPTIMIZER_OWN, the averaged and
 * clipped gradient is there after the step.
 *
 * ## Order
 *
 * Parameters may be registered in any order, which may differ between ranks: they are matched by name. Gradients may
 * become ready in any order, which may differ between ranks and steps. Where the order differs from what the buckets
 * were laid out for, the ranks agree on a better one after the step; it changes when bytes move, never the result. It
 * is fastest if parameters are registered in forward order and become ready in the opposite one: then neighbors in
 * memory are summed in one go.
 *
 * ## The same bits
 *
 * A global batch is a number of micro-batches. Gradients of micro-batches are added in one canonical order
 * (weft/weft.h), so that the same micro-batches give the same weights, bit for bit, on any number of ranks, with any
 * number of threads, and with the optimizer sharded or not. The number of micro-batches must be a multiple of the
 * number of ranks, and the number of ranks or of micro-batches a rank a power of two; weft_training_start() refuses
 * others.
 *
 * Weft's part (sums, clipping, optimizers) has the same bits on every x86-64 processor. A program has to do its own:
 * micro-batch number weft_training_micro_batch() must have the same samples, and the same gradients, whichever rank
 * computes it. Libraries that choose kernels by the processor (oneDNN, BLAS) give other gradients on ranks with another
 * instruction set: hold them to one that all ranks have.
 *
 * ## Errors
 *
 * As in weft/weft.h: a status, and a message in weft_message(context). Where ranks disagree (a parameter that some
 * lack, another shape, a gradient that was not made ready), every rank gets the same message, which names the
 * parameter and the ranks.
 *
 * ## Threads
 *
 * A training belongs to one thread at a time. Calls marked collective are to be made by all ranks in the same order.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How weights follow gradients. With g the averaged and clipped gradient, p the values, w the weight decay. */
typedef enum weft_optimizer {
    WEFT_OPTIMIZER_OWN,   /**< the program's own: a step leaves g in place of the gradients, and p alone */
    WEFT_OPTIMIZER_ADAMW, /**< Loshchilov and Hutter 2019, "Decoupled weight decay regularization" */
    WEFT_OPTIMIZER_SGD,   /**< m = momentum m + g + w p;  p = p - rate m */
    WEFT_OPTIMIZER_LAMB,  /**< You et al. 2020, "Large batch optimization for deep learning" */
    WEFT_OPTIMIZER_LARS,  /**< You et al. 2017, "Large batch training of convolutional networks" */
} weft_optimizer;

/** How the learning rate follows the number of ranks. */
typedef enum weft_rate_scaling {
    WEFT_RATE_AS_GIVEN, /**< not at all: right where the global batch does not grow with the ranks */
    WEFT_RATE_LINEAR,   /**< times the ranks (Goyal et al. 2017, "Accurate, large minibatch SGD") */
    WEFT_RATE_ROOT,     /**< times the square root of the ranks, as suits Adam */
} weft_rate_scaling;

/** The configuration of a training, the same on every rank. Begin with WEFT_TRAINING_CONFIG_DEFAULT. Fields are only
 * ever added at the end. */
typedef struct weft_training_config {
    size_t size;                    /**< sizeof(weft_training_config) */
    int micro_batches;              /**< in a global batch, over all ranks; 0: one a rank */
    weft_optimizer optimizer;       /**< default: the program's own */
    double beta1, beta2, epsilon;   /**< AdamW, LAMB; defaults 0.9, 0.999, 1e-8 */
    double momentum;                /**< SGD, LARS; default 0.9 */
    double trust;                   /**< LARS; default 1e-3 */
    double weight_decay;            /**< of parameters of two dimensions and more; default 0 */
    double clip;                    /**< largest norm of the whole gradient; 0: no clipping */
    weft_rate_scaling rate_scaling; /**< default: as given */
    int shard_optimizer;     /**< 1: each rank keeps a share of the optimizer's state (ZeRO-1); not for LAMB, LARS */
    size_t bucket_bytes;     /**< gradient bytes fused into one all-reduce; default 1 MiB */
    int threads;             /**< compute threads of the optimizer; default 1 */
    weft_type gradient_type; /**< WEFT_BF16: gradients are rounded to bf16 at every leaf and sum of the canonical tree,
                                on one rank too, so that half the bytes move; default WEFT_F32 */
} weft_training_config;
#define WEFT_TRAINING_CONFIG_DEFAULT                                                                                   \
    {                                                                                                                  \
        sizeof(weft_training_config), 0, WEFT_OPTIMIZER_OWN, 0.9, 0.999, 1e-8, 0.9, 1e-3, 0, 0, WEFT_RATE_AS_GIVEN, 0, \
            (size_t)1 << 20, 1, WEFT_F32                                                                               \
    }

#define WEFT_PARAMETER_DIMENSIONS 4
#define WEFT_PARAMETER_NAME_BYTES 64

/** One array of f32 values that is trained. */
typedef struct weft_parameter {
    const char *name;                        /**< different from all others; copied; shorter than 64 bytes */
    size_t shape[WEFT_PARAMETER_DIMENSIONS]; /**< row-major; the first 0 ends it */
    int no_decay;                            /**< 1: without weight decay, whatever its dimensions */
    int frozen;         /**< 1: stays as it is; its gradient must be made ready, but is not summed */
    double rate_factor; /**< of the learning rate, for this parameter; 0 means 1, what is below 0 means 0 */
} weft_parameter;

#define WEFT_TRAINING_NOTES 14

/** What a step did; the same on every rank but for the seconds. */
typedef struct weft_training_result {
    uint64_t step;                     /**< steps done, this one included */
    double gradient_norm;              /**< of the average, before clipping */
    double rate;                       /**< learning rate, scaling included */
    double notes[WEFT_TRAINING_NOTES]; /**< means over the global batch of what weft_training_note() was given */
    double wait_seconds;               /**< that this rank has waited for others */
} weft_training_result;

typedef struct weft_training weft_training;

/** Begin a training over the ranks of `comm`. Collective. Close it before the context. */
WEFT_API weft_status weft_training_open(weft_context *context, weft_comm *comm, const weft_training_config *config,
                                        weft_training **training);

/** Free everything, values and gradients included. Collective while the context is well. NULL is allowed. */
WEFT_API void weft_training_close(weft_training *training);

/** Register a parameter, before the start. Returns its number, from 0 in order of registration on this rank, or -1 with
 * a message. */
WEFT_API int weft_training_parameter(weft_training *training, const weft_parameter *parameter);

/**
 * All parameters are registered: compare names and shapes with the other ranks, and lay out values, gradients and the
 * optimizer's state, all zero. Collective. WEFT_ERROR_MISMATCH names a parameter that ranks lack, and these ranks.
 */
WEFT_API weft_status weft_training_start(weft_training *training);

/** The values of a parameter, and the place of its gradient, of one micro-batch at a time; from the start until close,
 * in memory of weft_alloc(). Every micro-batch has to write the whole gradient: Weft does not clear it. */
WEFT_API float *weft_training_values(weft_training *training, int parameter);
WEFT_API float *weft_training_gradient(weft_training *training, int parameter);

/** Every rank gets rank 0's values. Collective; once, when rank 0 has set them. */
WEFT_API weft_status weft_training_share(weft_training *training);

/* ---- steps ---- */

/** Micro-batches that each rank computes in a step. */
WEFT_API int weft_training_micro_batches(const weft_training *training);

/**
 * The micro-batch that this rank computes now, numbered over the whole run: step x micro-batches of a global batch +
 * number in it. Which samples it has should follow from this number alone.
 */
WEFT_API uint64_t weft_training_micro_batch(const weft_training *training);

/** The gradient of `parameter` for the micro-batch under way is complete; it must not be touched until the next one. */
WEFT_API weft_status weft_training_ready(weft_training *training, int parameter);

/** A number of the micro-batch under way (its loss, its right answers) that is averaged along with the gradients;
 * `which` is below WEFT_TRAINING_NOTES. 0 where nothing is noted. */
WEFT_API weft_status weft_training_note(weft_training *training, int which, double value);

/** The micro-batch under way is not this rank's last of the step: take its gradients in. (The last one is ended by the
 * step.) The places of gradients are not cleared. Collective. */
WEFT_API weft_status weft_training_accumulate(weft_training *training);

/**
 * Sum and average the gradients over the global batch, clip, take the optimizer's step. Collective. `result` may be
 * NULL.
 *
 * Errors, the same on every rank and with all values as they were: WEFT_ERROR_MISMATCH where a gradient was not ready
 * (parameter and ranks are named), WEFT_ERROR_DATA where the gradient or a note is not finite; `result` is set then,
 * too.
 */
WEFT_API weft_status weft_training_step(weft_training *training, double rate, weft_training_result *result);

/** Steps done. */
WEFT_API uint64_t weft_training_steps(const weft_training *training);

/* ---- checkpoints ---- */

/**
 * Write values, optimizer state and step below `directory`, whole or not at all, and remove the oldest checkpoints beyond
 * `keep` (0: keep all). Rank 0 writes; safetensors, as docs/tutorials/checkpoints.md tells. Collective.
 */
WEFT_API weft_status weft_training_save(weft_training *training, const char *directory, unsigned keep);

/**
 * Go on from the newest checkpoint below `directory`, which rank 0 reads: values, optimizer state and step, on any number
 * of ranks. *found is false, and nothing is changed, where there is none. Collective; after the start, instead of
 * weft_training_share().
 */
WEFT_API weft_status weft_training_load(weft_training *training, const char *directory, bool *found);

/* ---- all in one array ---- */

/**
 * The places as they lie: parameters in rank 0's order of registration, each at a multiple of 16 elements (64 bytes),
 * the gaps 0. Of the moments a rank has elements [first, first + count): all, unless the optimizer is sharded.
 */
typedef struct weft_training_arrays {
    size_t elements;
    float *values, *gradients;
    size_t first, count;
    float *first_moments, *second_moments; /**< NULL: the optimizer has none */
} weft_training_arrays;

WEFT_API weft_status weft_training_get_arrays(weft_training *training, weft_training_arrays *arrays);

/** Keep a copy of all values rounded to bf16 in `copy` (`elements` of them; NULL: no more): each step brings it up to
 * date. */
WEFT_API weft_status weft_training_keep_bf16(weft_training *training, uint16_t *copy);

#ifdef __cplusplus
}
#endif

#endif
