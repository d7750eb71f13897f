/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/work.h"

#include "training/simulate/internal/work_record.h"

#include <stdlib.h>
#include <string.h>

struct model_work {
    const struct model_description *description;
    double row_bytes; /* of an element of all rows of a rank between layers */
    size_t *numbers;  /* of each layer and pass: of its kind */
    struct layer_work *kinds;
    size_t kind_count, kind_room;
};

/* Layers that others are compared with: more kinds in one network are recorded one by one. */
#define WORK_FIRSTS 16

static bool works_are_equal(const struct layer_work *a, const struct layer_work *b)
{
    if (a->precision != b->precision || a->product_count != b->product_count || a->bytes != b->bytes ||
        a->kernels != b->kernels || a->exchange_count != b->exchange_count ||
        memcmp(a->products, b->products, a->product_count * sizeof *a->products) != 0)
        return false;
    for (uint32_t i = 0; i < a->exchange_count; i++)
        if (a->exchanges[i].collective != b->exchanges[i].collective || a->exchanges[i].bytes != b->exchanges[i].bytes)
            return false;
    return true;
}

static weft_status kind_number(struct model_work *work, const struct layer_work *one, size_t *number,
                               struct error *error)
{
    weft_status status = WEFT_OK;
    for (*number = 0; *number < work->kind_count; (*number)++)
        if (works_are_equal(&work->kinds[*number], one))
            return WEFT_OK;
    status = ARRAY_RESERVE(work->kinds, work->kind_room, work->kind_count + 1, "the work of layers", error);
    if (status == WEFT_OK)
        work->kinds[work->kind_count++] = *one;
    return status;
}

static weft_status record_layer(struct model_work *work, struct work_recorder *recorder, size_t layer,
                                struct error *error)
{
    struct layer_work passes[WORK_PASSES];
    weft_status status = work_recorder_layer(recorder, layer, passes, error);
    for (size_t pass = 0; status == WEFT_OK && pass < WORK_PASSES; pass++)
        status = kind_number(work, &passes[pass], &work->numbers[layer * WORK_PASSES + pass], error);
    return status;
}

/* The first layer that is like each one. `recorded` is set for these. */
static void find_first_layers(const struct model_description *description, const struct work_settings *settings,
                              size_t *alike, bool *recorded)
{
    bool again[WORK_FIRSTS];
    size_t firsts[WORK_FIRSTS], count = 0;
    for (size_t i = 0; i < description->layer_count; i++) {
        const bool recomputed = model_recomputes_layer(description, settings->recompute, settings->recompute_layers, i);
        size_t first = 0;
        while (first < count && (again[first] != recomputed || !model_layers_are_alike(description, firsts[first], i)))
            first++;
        alike[i] = first < count ? firsts[first] : i;
        recorded[i] = first == count;
        if (first == count && count < WORK_FIRSTS) {
            again[count] = recomputed;
            firsts[count++] = i;
        }
    }
}

static weft_status record_layers(struct model_work *work, const struct work_settings *settings, struct error *error)
{
    const size_t layers = work->description->layer_count;
    struct work_recorder recorder = {0};
    size_t *alike = calloc(layers, sizeof *alike);
    bool *recorded = calloc(layers, sizeof *recorded);
    weft_status status = WEFT_OK;
    if (alike && recorded) {
        find_first_layers(work->description, settings, alike, recorded);
        status = work_recorder_open(&recorder, work->description, recorded, settings, error);
    } else {
        status = error_memory(error, layers * sizeof *alike, "the work of a network");
    }
    for (size_t i = 0; status == WEFT_OK && i < layers; i++)
        if (recorded[i])
            status = record_layer(work, &recorder, i, error);
        else
            memcpy(&work->numbers[i * WORK_PASSES], &work->numbers[alike[i] * WORK_PASSES],
                   WORK_PASSES * sizeof *work->numbers);
    work_recorder_close(&recorder);
    free(alike);
    free(recorded);
    return status;
}

weft_status model_work_open(const struct model_description *description, const struct work_settings *settings,
                            struct model_work **result, struct error *error)
{
    const size_t numbers = description->layer_count * WORK_PASSES,
                 parts = settings->divides_rows ? description->tensor_ranks : 1;
    struct model_work *work = calloc(1, sizeof *work);
    if (!work)
        return error_memory(error, sizeof *work, "the work of a network");
    *work = (struct model_work){.description = description,
                                .row_bytes = (double)(settings->batch * settings->sequence) / (double)parts *
                                             (double)weft_type_size(settings->implementation->type),
                                .numbers = calloc(numbers, sizeof *work->numbers)};
    weft_status status = work->numbers ? record_layers(work, settings, error)
                                       : error_memory(error, numbers * sizeof *work->numbers, "the work of a network");
    if (status != WEFT_OK) {
        model_work_close(work);
        return status;
    }
    *result = work;
    return WEFT_OK;
}

void model_work_close(struct model_work *work)
{
    if (!work)
        return;
    free(work->numbers);
    free(work->kinds);
    free(work);
}

size_t model_work_kinds(const struct model_work *work)
{
    return work->kind_count;
}

const struct model_description *model_work_description(const struct model_work *work)
{
    return work->description;
}

const struct layer_work *model_work_of(const struct model_work *work, size_t layer, enum work_pass pass)
{
    return &work->kinds[work->numbers[layer * WORK_PASSES + pass]];
}

double model_work_output_bytes(const struct model_work *work, size_t layer)
{
    return work->row_bytes * (double)model_layer_width(work->description, layer);
}

double layer_work_flops(const struct layer_work *work)
{
    double flops = 0;
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct work_product *product = &work->products[i];
        flops += 2 * product->rows * product->columns * product->inner * product->batch * product->count;
    }
    return flops;
}

/* ---- work that is not a layer's ---- */

static struct layer_work memory_pass(const struct implementation *implementation, double bytes)
{
    return (struct layer_work){.precision = implementation->precision, .bytes = bytes, .kernels = bytes > 0 ? 1 : 0};
}

struct layer_work work_accumulate(const struct implementation *implementation, double elements)
{
    return memory_pass(implementation, elements * implementation->accumulation_bytes);
}

struct layer_work work_norm(const struct implementation *implementation, double elements)
{
    return memory_pass(implementation, elements * implementation->gradient_bytes);
}

struct layer_work work_step(const struct implementation *implementation, enum optimizer_kind optimizer, double elements)
{
    if (!implementation->runnable)
        return memory_pass(implementation, elements * implementation->update_traffic_bytes);
    const struct optimizer_traffic traffic = optimizer_traffic_of(optimizer);
    const size_t type = weft_type_size(implementation->type), activations = weft_type_size(implementation->activations);
    const bool copies = implementation->activations != implementation->type;
    const double arrays = traffic.arrays + (copies && traffic.casts);
    struct layer_work work =
        memory_pass(implementation, elements * (arrays * (double)type + (copies ? (double)activations : 0)));
    if (elements > 0)
        work.kernels = traffic.passes + (copies && traffic.casts);
    return work;
}
