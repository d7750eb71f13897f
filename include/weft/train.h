/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/train.h: data-parallel training for any program. Name your parameters, say when each gradient is ready, step.
 *
 * Weft does the rest. It fuses gradients into buckets and sums them over the ranks while the backward pass goes on. It
 * averages and clips them, runs the optimizer, gives all ranks the same initial values, scales the learning rate, and
 * writes checkpoints from rank 0. On request, ranks keep only shares of optimizer state, gradients and values (ZeRO).
 * Link with -lweft-train -lweft (pkg-config: weft-train).
 *
 *     weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
 *     config.optimizer = WEFT_OPTIMIZER_ADAMW;
 *     weft_training_open(context, weft_world(context), &config, &training);
 *     int weight = weft_training_parameter(training,
 *                                          &(weft_parameter){.name = "weight", .shape = {64, 10}});
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
 * The program may write a gradient's array from the first micro-batch on, and again as soon as
 * weft_training_accumulate() or weft_training_step() has returned. The array is zero only before the first micro-batch.
 * Later it holds sums of micro-batches and ranks that Weft left there, so each micro-batch must write every element:
 * either overwrite it, or clear it to 0 before adding. Otherwise old sums are added to the new gradient, without an
 * error. From weft_training_ready() until the micro-batch ends, the array belongs to Weft. With WEFT_OPTIMIZER_OWN, it
 * holds the averaged and clipped gradient after the step. Under ZeRO-2 and 3 the arrays do not stay: see below.
 *
 * ## Order
 *
 * Parameters may be registered in any order, which may differ between ranks: they are matched by name. Gradients may
 * become ready in any order, which may differ between ranks and steps. Neighboring parameters form buckets, which are
 * summed when all their gradients are ready, in one order on all ranks. If a bucket has to wait for one before it, the
 * ranks agree on a better order after the step. This changes when bytes move, never the result. It is fastest to
 * register parameters in forward order and make them ready in the opposite order.
 *
 * ## The same bits
 *
 * A global batch is a number of micro-batches. Gradients of micro-batches are added in one canonical order
 * (weft/weft.h), so that the same micro-batches give the same weights, bit for bit, on any number of ranks up to the
 * number of micro-batches, with any number of threads, and with any `zero`. Some ranks compute one micro-batch more than
 * others if they cannot be divided equally. Sums are fastest where every rank computes the same power of two.
 *
 * Weft's part (sums, clipping, optimizers) has the same bits on every x86-64 processor. The rest is up to the program:
 * micro-batch number weft_training_micro_batch() must have the same samples, and the same gradients, whichever rank
 * computes it. Libraries that choose kernels by the processor (oneDNN, BLAS) give different gradients on ranks with
 * different instruction sets: restrict them to one that all ranks have.
 *
 * ## Less memory (ZeRO)
 *
 * Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward training trillion parameter models". With `zero` of the
 * configuration, each rank keeps only a share of
 *
 *     1   the optimizer's state
 *     2   and of summed gradients. A rank has whole gradients of one micro-batch only, for as long as they are written and
 *         sent. Get each array in each micro-batch, when its gradient is about to be computed; it is the program's until
 *         weft_training_ready(). Each micro-batch is summed over the ranks at once: communication grows with their number.
 *     3   and of values. They are there between weft_training_gather() and weft_training_release():
 *
 *             for each layer, forward: gather its parameters, compute, release
 *             for each layer, backward: gather, get the gradients' arrays, compute, make them ready, release
 *
 * Where some ranks compute one micro-batch more than others, those others gather and release for it, too, before
 * weft_training_step(), and compute nothing: all ranks gather the same parameters in the same order.
 *
 * The initial values under ZeRO-3: gather some parameters, set them on rank 0, weft_training_share(), release; then the
 * next ones. Large parameters are gathered and handed out one by one, small ones with their neighbors.
 *
 * On one rank, nothing differs from `zero` 0. A program that is written for ZeRO-3 runs with any.
 *
 * ## When ranks are lost, join or leave
 *
 * Under weft run --min-ranks, a training over weft_world() survives the loss of ranks, takes in ranks that --restarts
 * or weft scale starts, and lets go of those that weft scale releases. The program then is a loop:
 *
 *     weft_status status = weft_training_start(training);
 *     while (weft_world(context)) {                           NULL: this rank has left
 *         if (status != WEFT_OK || weft_training_waiting(training)) {
 *             if ((status = weft_training_recover(training)) != WEFT_OK)
 *                 return fail(weft_message(context));
 *         } else if (weft_training_is_new(training)) {
 *             status = ... set the initial values, weft_training_share() ...
 *         } else if (weft_training_steps(training) < 1000) {
 *             status = ... a step, with arrays and numbers of micro-batches as they are now ...
 *         } else if ((status = weft_barrier(weft_world(context))) == WEFT_OK) {
 *             break;                                          all ranks have done the last step
 *         }
 *     }
 *
 * The weights are those of a run that lost no rank, bit for bit. examples/elastic.c is a whole program.
 *
 * ## Errors
 *
 * As in weft/weft.h: a status, and a message in weft_message(context). If ranks disagree (a missing parameter, different
 * shapes, a gradient that was not made ready), every rank gets the same message, which names the parameter and the
 * ranks. The `training` of a call must not be NULL, except for weft_training_close().
 *
 * ## Threads
 *
 * Only one thread at a time may use a training. All ranks make calls marked collective in the same order.
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

/** The configuration of a training, the same on every rank. Start from WEFT_TRAINING_CONFIG_DEFAULT. Fields are only
 * ever added at the end. */
typedef struct weft_training_config {
    size_t size;                    /**< sizeof(weft_training_config) */
    int micro_batches;              /**< in a global batch, over all ranks; 0: one per rank */
    weft_optimizer optimizer;       /**< default: the program's own */
    double beta1, beta2, epsilon;   /**< AdamW, LAMB; defaults 0.9, 0.999, 1e-8 */
    double momentum;                /**< SGD, LARS; default 0.9 */
    double trust;                   /**< LARS; default 1e-3 */
    double weight_decay;            /**< of parameters of two dimensions and more; default 0 */
    double clip;                    /**< largest norm of the whole gradient; 0: no clipping */
    weft_rate_scaling rate_scaling; /**< default: as given */
    int shard_optimizer;            /**< 1: as `zero` 1 */
    size_t bucket_bytes;            /**< gradient bytes summed as one; default 1 MiB */
    int threads;                    /**< compute threads of the optimizer; default 1 */
    weft_type gradient_type; /**< WEFT_BF16: gradients are rounded to bf16 at every leaf and sum of the canonical tree,
                                on one rank too, so that half the bytes move; default WEFT_F32 */
    int zero;       /**< 0 to 3: what ranks keep only shares of (see above); above 1 not for a program's own optimizer;
                 default 0 */
    int copy_every; /**< with `zero`: after every so many steps each rank copies its part of the state to another one, so
                       that a lost rank costs at most as many steps; memory as for twice the state of its part and of
                       another; 0: none, a loss goes back to the last checkpoint; default 0. A copy moves while the next
                       step computes, so weft_grow() may be called only after a step with weft_training_waiting(), and a
                       program with several trainings leaves it 0 */
} weft_training_config;
#define WEFT_TRAINING_CONFIG_DEFAULT                                                                                   \
    {                                                                                                                  \
        sizeof(weft_training_config), 0, WEFT_OPTIMIZER_OWN, 0.9, 0.999, 1e-8, 0.9, 1e-3, 0, 0, WEFT_RATE_AS_GIVEN, 0, \
            (size_t)1 << 20, 1, WEFT_F32, 0, 0                                                                         \
    }

#define WEFT_PARAMETER_DIMENSIONS 4
#define WEFT_PARAMETER_NAME_BYTES 64

/** One array of f32 values that is trained. */
typedef struct weft_parameter {
    const char *name;                        /**< unique; copied; 1 to 63 bytes */
    size_t shape[WEFT_PARAMETER_DIMENSIONS]; /**< row-major; the first 0 ends it */
    int no_decay;                            /**< 1: without weight decay, whatever its dimensions */
    int frozen; /**< 1: values do not change; the gradient must be made ready, but is not summed */
    double
        rate_factor; /**< multiplies the learning rate of this parameter, at most 1000; 0 means 1, negative means 0 */
} weft_parameter;

#define WEFT_TRAINING_NOTES 14

/** What a step did; the same on every rank except for the seconds. */
typedef struct weft_training_result {
    uint64_t step;                     /**< steps done, this one included */
    double gradient_norm;              /**< norm of the averaged gradient, before clipping */
    double rate;                       /**< learning rate, scaling included */
    double notes[WEFT_TRAINING_NOTES]; /**< means over the global batch of the values given to weft_training_note() */
    double wait_seconds;               /**< time that this rank has waited for others */
} weft_training_result;

typedef struct weft_training weft_training;

/* ---- setting up ---- */

/**
 * Make a training over the ranks of `comm`.
 *
 * Every rank of `comm` calls it. `config` may be NULL, which means WEFT_TRAINING_CONFIG_DEFAULT, and is needed only
 * during the call. End it with weft_training_close(), before the communicator and the context.
 *
 * Errors: WEFT_ERROR_ARGUMENT if a number of `config` is out of range, the optimizer cannot be sharded, or a pointer is
 * NULL (if `context` is, without a message); WEFT_ERROR_MEMORY; WEFT_ERROR_SYSTEM if threads cannot be started.
 */
WEFT_API weft_status weft_training_open(weft_context *context, weft_comm *comm, const weft_training_config *config,
                                        weft_training **training);

/** Free a training with its values and gradients. Collective while the context is whole. NULL is allowed. */
WEFT_API void weft_training_close(weft_training *training);

/**
 * Register a parameter, before weft_training_start().
 *
 * Returns its number: 0, 1, ... in order of registration on this rank. `parameter` and its name are copied.
 *
 * Errors: -1, with a message in weft_message(), if the name is empty, too long or already registered, the shape is empty
 * or too large, rate_factor is above 1000, the training has started, or memory ran out.
 */
WEFT_API int weft_training_parameter(weft_training *training, const weft_parameter *parameter);

/**
 * Compare the registered parameters with the other ranks, and lay out values, gradients and optimizer state, all zero.
 *
 * Collective. Parameters cannot be registered after it. On a rank that has joined a running job, while the others are
 * in weft_training_recover(), it also brings their values, optimizer state and step.
 *
 * Errors: WEFT_ERROR_MISMATCH names a parameter that some ranks lack or have with another shape, and these ranks;
 * WEFT_ERROR_STATE if there is no parameter, or the training has started; WEFT_ERROR_ARGUMENT if there are fewer
 * micro-batches than ranks; WEFT_ERROR_MEMORY. All ranks get an error if one does. Also those of weft_allreduce().
 */
WEFT_API weft_status weft_training_start(weft_training *training);

/**
 * The values of a parameter: f32, in the shape of its registration, row-major.
 *
 * `parameter` is the number that weft_training_parameter() returned. The array is in memory of weft_alloc(), belongs
 * to the training and stays where it is until weft_training_recover() or weft_training_close(). Under ZeRO-3 it stays
 * from weft_training_gather() to weft_training_release() or weft_training_step(); what the program writes to it is
 * lost without weft_training_share().
 *
 * Errors: NULL, without a message, before weft_training_start(), for a number that is no parameter, or under ZeRO-3 if
 * the values are not gathered.
 */
WEFT_API float *weft_training_values(weft_training *training, int parameter);

/**
 * The array for the gradient of a parameter, of one micro-batch at a time, in the shape of its values.
 *
 * Every micro-batch has to write all of it; Weft does not clear it. The array is in memory of weft_alloc(), belongs to
 * the training and stays where it is until weft_training_recover() or weft_training_close(). Under ZeRO-2 and 3 it
 * stays until weft_training_ready(): ask for it in each micro-batch.
 *
 * Errors: NULL before weft_training_start() or for a number that is no parameter; under ZeRO-2 and 3 also if the gradient
 * is ready already, or without memory. There is a message in the last case only.
 */
WEFT_API float *weft_training_gradient(weft_training *training, int parameter);

/**
 * Copy rank 0's values to every rank.
 *
 * Collective. Call it once, after rank 0 has set its initial values. Under ZeRO-3 it copies the values that are gathered,
 * and every rank keeps its share of them: call it as often as needed.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(), and those of weft_broadcast().
 */
WEFT_API weft_status weft_training_share(weft_training *training);

/**
 * Gather the values of a parameter from the shares of all ranks, for weft_training_values().
 *
 * Collective: under ZeRO-3, all ranks gather the same parameters in the same order. Parameters may be gathered several
 * times; then the last release counts. With a lower `zero`, it does nothing.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(); WEFT_ERROR_ARGUMENT for a number that is no parameter;
 * WEFT_ERROR_MEMORY. Also those of weft_allgatherv().
 */
WEFT_API weft_status weft_training_gather(weft_training *training, int parameter);

/**
 * Give up the gathered values of a parameter; the memory is free for others.
 *
 * Local, but on all ranks in the same order with gathers. weft_training_step() releases everything that is gathered when
 * it has new values. Releasing what is not gathered does nothing.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(); WEFT_ERROR_ARGUMENT for a number that is no parameter.
 */
WEFT_API weft_status weft_training_release(weft_training *training, int parameter);

/* ---- steps ---- */

/** The number of micro-batches that this rank computes in a step; others may compute one more or one fewer. Known from
 * weft_training_start() on. */
WEFT_API int weft_training_micro_batches(const weft_training *training);

/**
 * The number of the micro-batch that this rank computes now.
 *
 * Micro-batches are numbered over the whole run: step x micro-batches of a global batch + number in the batch. Choose
 * the samples of a micro-batch by this number alone; then they do not depend on the number of ranks.
 */
WEFT_API uint64_t weft_training_micro_batch(const weft_training *training);

/**
 * Declare the gradient of `parameter` complete for the current micro-batch.
 *
 * Weft may sum it from now on, so the program must not touch the array until the micro-batch ends. Returns at once.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(), or if it was ready already in this micro-batch;
 * WEFT_ERROR_ARGUMENT for a number that is no parameter.
 */
WEFT_API weft_status weft_training_ready(weft_training *training, int parameter);

/**
 * Give a number of the current micro-batch, such as its loss, to be averaged along with the gradients.
 *
 * `which` is from 0 to WEFT_TRAINING_NOTES - 1. weft_training_step() puts the mean over the global batch into
 * notes[which] of its result. A micro-batch without one counts as 0. The value is rounded to f32.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(); WEFT_ERROR_ARGUMENT for another `which`.
 */
WEFT_API weft_status weft_training_note(weft_training *training, int which, double value);

/**
 * End a micro-batch that is not this rank's last of the step, and add its gradients to those before.
 *
 * Ranks with different numbers of micro-batches call it a different number of times. weft_training_step() ends the last
 * one. The gradient arrays are not cleared.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(), or if it is the last one; also those of weft_allreduce().
 */
WEFT_API weft_status weft_training_accumulate(weft_training *training);

/**
 * End a step: average the gradients over the global batch, clip them, and let the optimizer update the values.
 *
 * Collective. `rate` is the learning rate, before the scaling that the configuration asks for. `result` may be NULL.
 *
 * Errors: WEFT_ERROR_MISMATCH if a gradient was not ready (the message names parameter and ranks), WEFT_ERROR_DATA if the
 * gradient or a note is not finite: the same on every rank, with all values unchanged and `*result` set.
 * WEFT_ERROR_STATE before weft_training_start(), or if micro-batches of this step are missing. Also those of
 * weft_allreduce().
 */
WEFT_API weft_status weft_training_step(weft_training *training, double rate, weft_training_result *result);

/** The number of steps done, including those before the checkpoint that was loaded. */
WEFT_API uint64_t weft_training_steps(const weft_training *training);

/* ---- when ranks are lost, join or leave ---- */

/**
 * Go on with the ranks that there are now.
 *
 * Call it on every rank if a call has failed because a rank was lost, or if weft_training_waiting() is not 0. It
 * changes weft_world(), by weft_shrink() or weft_grow(), unless the program has called one of these. Then it lays the
 * training out for the ranks of the new world, and brings values, optimizer state and step of the rank that has
 * completed most steps to all, newcomers included: these are in weft_training_start(). Survivors are at most one step
 * apart. Micro-batches of an unfinished step are discarded. If further ranks are lost meanwhile, it begins again.
 *
 * Afterwards the program goes on at weft_training_steps(), with its new share of micro-batches. It gets all arrays
 * again, calls weft_training_keep_bf16() again, and gathers again (ZeRO-3). The number of micro-batches in a global
 * batch and the scale of the learning rate stay those of the ranks that the job began with. If no rank is left that
 * has completed a step or loaded a checkpoint, the training is new again: see weft_training_is_new().
 *
 * On a rank that weft scale has released, it returns WEFT_OK, and weft_world() is NULL: call weft_training_close() and
 * weft_finalize().
 *
 * With `zero`, a lost rank takes its part of the state along. With `copy_every` another rank, on another node where
 * nodes have equally many, has a copy, and all go back to the step of that copy. Without it, if that rank is lost as
 * well, or if there is a newer one, all go back to the checkpoint that this training has saved or loaded last; rank 0 of
 * the new world must see its directory, and other checkpoints there are ignored. Without `zero` the same happens in one
 * case: all ranks that had completed a step are lost while they bring it to newcomers.
 *
 * Ranks that join or leave lose nothing with `zero`, if this call changes the world: before, each rank copies its part
 * of the state to another one, which needs memory for twice its part. If the program has called weft_grow() itself, or
 * this call of another training has, the parts of ranks that have left are lost as with lost ranks.
 *
 * Collective over the ranks of the new world.
 *
 * Errors: if no rank is lost and weft_training_waiting() is 0, the error of the last call that failed, again; without one,
 * WEFT_ERROR_STATE. WEFT_ERROR_MISMATCH if ranks made different calls, again. WEFT_ERROR_STATE also with
 * WEFT_OPTIMIZER_OWN, whose state Weft does not know, or over another communicator than weft_world(): then the world has
 * changed, and the program may close this training and open another one.
 * WEFT_ERROR_ARGUMENT if there are fewer micro-batches than ranks; WEFT_ERROR_DATA if the state is lost and there is no
 * checkpoint, or it is damaged. Also those of weft_shrink() and weft_training_start().
 */
WEFT_API weft_status weft_training_recover(weft_training *training);

/**
 * The number of ranks that wait to join or are to leave, as of the last step: the same on all ranks.
 *
 * Unless it is 0, call weft_training_recover() before the next step. The number travels with the norm of the gradient;
 * it costs no extra message. Always 0 over another communicator than weft_world().
 */
WEFT_API int weft_training_waiting(const weft_training *training);

/**
 * Whether the values are still to be set: before the first weft_training_share(), weft_training_load() that found a
 * checkpoint, or step.
 *
 * The same on all ranks after weft_training_start() and weft_training_recover(). False on a rank that has joined a
 * training under way. True again after weft_training_recover() if no rank is left that has completed a step or loaded
 * a checkpoint.
 */
WEFT_API bool weft_training_is_new(const weft_training *training);

/* ---- checkpoints ---- */

/**
 * Write a checkpoint: values, optimizer state and step.
 *
 * Collective. Rank 0 writes a directory step-NNNNNNNN below `directory`, whole or not at all, then removes the oldest
 * checkpoints beyond `keep`; 0 keeps all. The files are safetensors; docs/tutorials/checkpoints.md describes them.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(); WEFT_ERROR_SYSTEM if rank 0 cannot write; WEFT_ERROR_MEMORY. All
 * ranks get an error if one does. Also those of weft_allreduce().
 */
WEFT_API weft_status weft_training_save(weft_training *training, const char *directory, unsigned keep);

/**
 * Resume from the newest checkpoint below `directory`, written on any number of ranks.
 *
 * Collective; call it after weft_training_start(), instead of weft_training_share(). Rank 0 finds and verifies it. Ranks
 * that see the same directory read values and optimizer state themselves; rank 0 sends them to the others. If there is no
 * checkpoint, `*found` is false and nothing changes.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(); WEFT_ERROR_DATA if the checkpoint is damaged, or has other
 * parameters or another optimizer; WEFT_ERROR_SYSTEM if it cannot be read; WEFT_ERROR_MEMORY. All ranks get an error if
 * one does. Also those of weft_broadcast().
 */
WEFT_API weft_status weft_training_load(weft_training *training, const char *directory, bool *found);

/* ---- all in one array ---- */

/**
 * All parameters in memory: in rank 0's order of registration, each at a multiple of 16 elements (64 bytes), gaps 0.
 * This rank has the optimizer's moments of elements [first, first + count): all, unless the optimizer is sharded. Then the
 * last ranks may have fewer than others or none (`count` 0). Under ZeRO-2 and 3 there is no array of gradients or moments,
 * and under ZeRO-3 none of values; some gaps are larger then.
 */
typedef struct weft_training_arrays {
    size_t elements;
    float *values, *gradients; /**< NULL: there is no such array */
    size_t first, count;
    float *first_moments, *second_moments; /**< NULL: the optimizer or this rank has none, or they are not in one array */
} weft_training_arrays;

/**
 * Fill in `*arrays`, the arrays of all parameters together. They belong to the training.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start().
 */
WEFT_API weft_status weft_training_get_arrays(weft_training *training, weft_training_arrays *arrays);

/**
 * Keep a copy of all values rounded to bf16, which each step updates.
 *
 * `copy` has room for `elements` of weft_training_get_arrays() and belongs to the caller, who keeps it until the training
 * is closed; it is filled at once. NULL ends it.
 *
 * Errors: WEFT_ERROR_STATE before weft_training_start(), or under ZeRO-3, where no rank has all values.
 */
WEFT_API weft_status weft_training_keep_bf16(weft_training *training, uint16_t *copy);

#ifdef __cplusplus
}
#endif

#endif
