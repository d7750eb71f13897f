/* SPDX-License-Identifier: Apache-2.0 */
/* Recording the passes of a network's layers on a counting device. */
#include "training/simulate/internal/work_record.h"

#include "training/tensor/profiled.h"

#include <math.h>

/* ---- what kernels and collectives report ---- */

/* Kernels so far, and bytes of those that are limited by memory; attention is counted where it is recorded. */
struct recorder_totals {
    double bytes, kernels;
};

static struct recorder_totals recorded_totals(const struct work_recorder *recorder)
{
    const struct profiled_count *counts = profiled_counts(recorder->device);
    struct recorder_totals totals = {0};
    for (int k = 0; k < PROFILED_KERNELS; k++) {
        totals.kernels += (double)counts[k].calls;
        if (k != PROFILED_MATMUL && k != PROFILED_ATTENTION_FORWARD && k != PROFILED_ATTENTION_BACKWARD)
            totals.bytes += counts[k].bytes;
    }
    return totals;
}

/* Whether the kernel or collective that reports now is to be recorded. */
static bool is_recorded(const struct work_recorder *recorder)
{
    return recorded_totals(recorder).kernels - recorder->first < recorder->limit;
}

/* Add `more` to a product of the same shape, or average both. */
static void merge_product(struct work_product *product, const struct work_product *more)
{
    const double count = product->count + more->count, plane = product->columns * product->inner * product->batch,
                 volume = product->rows * plane * product->count +
                          more->rows * more->columns * more->inner * more->batch * more->count;
    product->bytes = (product->bytes * product->count + more->bytes * more->count) / count;
    product->rows = volume / plane / count;
    product->count = count;
}

static void record_product(struct layer_work *work, const struct work_product *product)
{
    for (uint32_t i = 0; i < work->product_count; i++) {
        struct work_product *other = &work->products[i];
        if (other->rows == product->rows && other->columns == product->columns && other->inner == product->inner &&
            other->batch == product->batch && other->bytes == product->bytes) {
            other->count += product->count;
            return;
        }
    }
    if (work->product_count < WORK_PRODUCTS_MOST)
        work->products[work->product_count++] = *product;
    else
        merge_product(&work->products[WORK_PRODUCTS_MOST - 1], product);
}

static void recorder_product(void *context, const struct matmul *product, double bytes)
{
    struct work_recorder *recorder = context;
    if (is_recorded(recorder))
        record_product(recorder->work, &(struct work_product){.rows = (double)product->rows,
                                                              .columns = (double)product->columns,
                                                              .inner = (double)product->inner,
                                                              .batch = 1,
                                                              .count = 1,
                                                              .bytes = bytes});
}

/*
 * The products of attention: forward scores = q k' and out = p v; backward the gradients of p, v, q and k, and the scores
 * again where they are not stored. A kernel that skips masked scores computes half of them.
 */
static void record_attention(const struct work_recorder *recorder, struct layer_work *work,
                             const struct attention *shape, bool backward, double bytes)
{
    const struct implementation *implementation = recorder->settings->implementation;
    const bool stores = implementation->stores_scores;
    const double heads = (double)(shape->batch * shape->heads), rows = (double)shape->sequence,
                 seen = implementation->skips_masked && shape->causal ? (rows + 1) / 2 : rows,
                 width = (double)shape->head_width, scores = heads * rows * seen,
                 element = (double)weft_type_size(implementation->activations);
    const bool to_scores[] = {true, false, true, false, true}; /* q k', p v and their gradients' products */
    const uint32_t products = !backward ? 2 : stores ? 4 : 5;
    for (uint32_t i = 0; i < products; i++)
        record_product(work, &(struct work_product){.rows = rows,
                                                    .columns = to_scores[i] ? seen : width,
                                                    .inner = to_scores[i] ? width : seen,
                                                    .batch = heads,
                                                    .count = 1,
                                                    .bytes = stores ? (scores + 2 * heads * rows * width) * element
                                                                    : bytes / products});
    if (!stores)
        return;
    work->kernels += products - 1; /* one is counted by the device */
    /* Softmax with scale and mask reads and writes scores, and backward reads its output, too. Dropout of
     * probabilities also writes and reads a mask of a byte for each. */
    work->bytes += scores * element * (backward ? 3 : 2);
    work->kernels++;
    if (implementation->score_dropout == 0)
        return;
    work->bytes += scores * (2 * element + 1);
    work->kernels++;
}

static void recorder_attention(void *context, const struct attention *shape, bool backward, double bytes)
{
    struct work_recorder *recorder = context;
    if (is_recorded(recorder))
        record_attention(recorder, recorder->work, shape, backward, bytes);
    if (!backward) {
        recorder->core.kernels = 1;
        record_attention(recorder, &recorder->core, shape, false, bytes);
    }
}

static void record_exchange(struct work_recorder *recorder, enum collective collective, double bytes)
{
    struct layer_work *work = recorder->work;
    if (!is_recorded(recorder))
        return;
    if (work->exchange_count < WORK_EXCHANGES_MOST)
        work->exchanges[work->exchange_count++] = (struct work_exchange){collective, bytes};
    else
        recorder->overflowed = true;
}

static void recorder_sum(void *context, weft_type type, size_t count, void *array)
{
    record_exchange(context, COLLECTIVE_ALLREDUCE, (double)(count * weft_type_size(type)));
}

static void recorder_sum_part(void *context, weft_type type, size_t count, void *array)
{
    const struct work_recorder *recorder = context;
    record_exchange(context, COLLECTIVE_REDUCE_SCATTER, (double)(count * weft_type_size(type) * recorder->group.ranks));
}

static void recorder_gather(void *context, size_t bytes, void *array)
{
    const struct work_recorder *recorder = context;
    record_exchange(context, COLLECTIVE_ALLGATHER, (double)(bytes * recorder->group.ranks));
}

/* ---- opening ---- */

static weft_status open_model(struct work_recorder *recorder, enum model_recompute recompute, struct model **model,
                              struct error *error)
{
    const struct work_settings *settings = recorder->settings;
    const struct model_options options = {.batch = settings->batch,
                                          .sequence = settings->sequence,
                                          .training = true,
                                          .recompute = recompute,
                                          .recompute_layers = settings->recompute_layers,
                                          .dropout = settings->dropout,
                                          .layers = recorder->layers,
                                          .slots = 1,
                                          .tensor = recorder->group.ranks > 1 ? &recorder->group : NULL};
    return model_open(recorder->description, recorder->device, &options, model, error);
}

weft_status work_recorder_open(struct work_recorder *recorder, const struct model_description *description,
                               const bool *layers, const struct work_settings *settings, struct error *error)
{
    const struct implementation *implementation = settings->implementation;
    *recorder = (struct work_recorder){
        .description = description,
        .layers = layers,
        .settings = settings,
        .group = {.ranks = description->tensor_ranks,
                  .rank = description->tensor_rank,
                  .divides_rows = settings->divides_rows && description->tensor_ranks > 1,
                  .context = recorder,
                  .sum = recorder_sum,
                  .sum_part = recorder_sum_part,
                  .gather = recorder_gather},
    };
    weft_status status = profiled_open_counting(
        implementation->type, implementation->activations,
        &(struct profiled_watcher){.context = recorder, .product = recorder_product, .attention = recorder_attention},
        &recorder->device, error);
    if (status == WEFT_OK)
        status = open_model(recorder, MODEL_RECOMPUTE_NOTHING, &recorder->plain, error);
    if (status == WEFT_OK && settings->recompute != MODEL_RECOMPUTE_NOTHING)
        status = open_model(recorder, settings->recompute, &recorder->recomputing, error);
    if (status != WEFT_OK)
        return status;
    const size_t rows = settings->batch * settings->sequence, element = weft_type_size(implementation->type);
    recorder->flat = recorder->device->allocate(recorder->device, description->gradient_elements * element + 64,
                                                "the work of a network", error);
    recorder->rows = recorder->device->allocate(recorder->device, rows * description->widest * element + 64,
                                                "the work of a network", error);
    return recorder->flat && recorder->rows ? WEFT_OK : WEFT_ERROR_MEMORY;
}

void work_recorder_close(struct work_recorder *recorder)
{
    if (!recorder->device)
        return;
    model_close(recorder->plain);
    model_close(recorder->recomputing);
    recorder->device->release(recorder->device, recorder->flat);
    recorder->device->release(recorder->device, recorder->rows);
    recorder->device->close(recorder->device);
}

/* ---- passes ---- */

/* Record the products and collectives of the first `limit` kernels of a pass, and the bytes and kernels of all of it.
 * Returns the number of kernels that the device has counted. */
static double record_pass(struct work_recorder *recorder, struct model *model, size_t layer, enum work_pass pass,
                          double limit, struct layer_work *work)
{
    const struct layer_arrays arrays = model_layer_arrays(recorder->description, recorder->device, layer,
                                                          recorder->flat, recorder->flat, recorder->flat);
    const bool is_last = layer + 1 == recorder->description->layer_count;
    const struct layer_call call = {
        .layer = layer, .x = layer ? recorder->rows : NULL, .y = is_last ? NULL : recorder->rows, .arrays = &arrays};
    const struct recorder_totals before = recorded_totals(recorder);
    *work = (struct layer_work){.precision = recorder->settings->implementation->precision};
    recorder->work = work;
    recorder->first = before.kernels;
    recorder->limit = limit;
    if (pass == WORK_FORWARD)
        model_layer_forward(model, &call, true);
    else if (pass == WORK_BACKWARD_INPUT)
        model_layer_backward_input(model, &call, recorder->rows);
    else
        model_layer_backward_weights(model, &call);
    const struct recorder_totals after = recorded_totals(recorder);
    work->bytes += after.bytes - before.bytes;
    work->kernels += after.kernels - before.kernels;
    return after.kernels - before.kernels;
}

/* What a pass for inputs computes again, in *again. Weft's layers do that first, so it is what the whole pass does before
 * its last `rest` kernels, those that it has without recomputation. */
static void record_recomputation(struct work_recorder *recorder, size_t layer, double rest,
                                 const struct layer_work work[WORK_PASSES], const struct layer_work *core,
                                 struct layer_work *again)
{
    const struct work_settings *settings = recorder->settings;
    struct layer_work whole;
    const double kernels =
        record_pass(recorder, recorder->recomputing, layer, WORK_BACKWARD_INPUT, INFINITY, &whole) - rest;
    if (kernels == 0)
        return;
    if (settings->recompute == MODEL_RECOMPUTE_ALL && settings->implementation->recomputes_outputs)
        *again = work[WORK_FORWARD];
    else if (settings->recompute == MODEL_RECOMPUTE_ATTENTION && settings->implementation->recomputes_core_only)
        *again = *core;
    else {
        record_pass(recorder, recorder->recomputing, layer, WORK_BACKWARD_INPUT, kernels, again);
        again->kernels = whole.kernels - work[WORK_BACKWARD_INPUT].kernels;
        again->bytes = whole.bytes - work[WORK_BACKWARD_INPUT].bytes;
    }
}

weft_status work_recorder_layer(struct work_recorder *recorder, size_t layer, struct layer_work work[WORK_PASSES],
                                struct error *error)
{
    const struct layer_work nothing = {.precision = recorder->settings->implementation->precision};
    recorder->core = nothing;
    record_pass(recorder, recorder->plain, layer, WORK_FORWARD, INFINITY, &work[WORK_FORWARD]);
    const struct layer_work core = recorder->core;
    const double rest =
        record_pass(recorder, recorder->plain, layer, WORK_BACKWARD_INPUT, INFINITY, &work[WORK_BACKWARD_INPUT]);
    record_pass(recorder, recorder->plain, layer, WORK_BACKWARD_WEIGHTS, INFINITY, &work[WORK_BACKWARD_WEIGHTS]);
    work[WORK_RECOMPUTE] = nothing;
    if (recorder->recomputing)
        record_recomputation(recorder, layer, rest, work, &core, &work[WORK_RECOMPUTE]);
    for (int pass = 0; pass < WORK_PASSES; pass++)
        work[pass].kernels *= recorder->settings->implementation->launches;
    if (recorder->overflowed)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "layer %s has more than %d collectives in a pass, too many to simulate",
                         model_layer_name(recorder->description, layer), WORK_EXCHANGES_MOST);
    return WEFT_OK;
}
