/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

static struct layer_memory embedding_memory(const struct layer *layer, const struct layer_room *room)
{
    const struct embedding *embedding = layer->settings;
    const size_t bytes = room->batch * room->sequence * embedding->width * room->element;
    return (struct layer_memory){.deferred = room->training ? bytes : 0, .scratch = room->divides_rows ? bytes : 0};
}

static void embedding_divide(void *settings, size_t ranks, size_t rank)
{
    struct embedding *embedding = settings;
    embedding->vocabulary = tensor_part_count(embedding->vocabulary, ranks, rank);
}

static double embedding_flops(const struct layer *layer, size_t sequence)
{
    return 0;
}

static void embedding_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                              const void *x, void *y)
{
    const struct embedding *embedding = layer->settings;
    const bool adds_positions = embedding->positions != NO_PARAMETER && (!pass->tensor || pass->tensor->rank == 0);
    const void *positions = adds_positions ? pass_parameter(pass, embedding->positions) : NULL;
    if (!y) /* nothing is kept */
        return;
    struct device *device = pass->device;
    const size_t width = embedding->width, rows = pass_own_rows(pass);
    void *all = pass_divides_rows(pass) ? places->scratch : y;
    device->embedding_forward(device, pass->batch, pass->sequence, width, pass->first, pass->tokens,
                              pass_parameter(pass, embedding->table), positions, all);
    pass_sum_rows(pass, device->type, width, all);
    if (all != y)
        device->copy(device, y, pass_at(pass, all, pass_own_first(pass) * width),
                     rows * width * weft_type_size(device->type));
    const struct dropout dropout = pass_dropout(pass, layer);
    if (dropout.share > 0)
        device->dropout(device, &dropout, rows, width, y);
}

/* All gradients are of weights: defer the rows' gradient. */
static void embedding_backward_input(const struct layer *layer, const struct pass *pass,
                                     const struct layer_places *places, const void *x, void *gradient)
{
    struct device *device = pass->device;
    const size_t rows = pass_own_rows(pass), width = layer->width;
    const struct dropout dropout = pass_dropout(pass, layer);
    void *own = pass_at(pass, places->deferred, pass_own_first(pass) * width);
    device->copy(device, own, gradient, rows * width * weft_type_size(device->type));
    if (dropout.share > 0)
        device->dropout(device, &dropout, rows, width, own);
    pass_gather_rows(pass, device->type, width, places->deferred);
}

/* Rows of positions that no sequence reached have gradient 0. */
static void embedding_backward_weights(const struct layer *layer, const struct pass *pass,
                                       const struct layer_places *places)
{
    const struct embedding *embedding = layer->settings;
    struct device *device = pass->device;
    const size_t width = embedding->width;
    void *table = pass_gradient(pass, embedding->table), *positions = NULL;
    if (embedding->positions != NO_PARAMETER)
        positions = pass_gradient(pass, embedding->positions);
    device->fill(device, (pass->table_rows ? pass->table_row_count : embedding->vocabulary) * width, 0, table);
    device->embedding_backward(device, pass->batch, pass->sequence, width,
                               pass->table_rows ? pass->table_rows : pass->tokens, places->deferred, table, positions);
    if (positions && pass->sequence < embedding->context)
        device->fill(device, (embedding->context - pass->sequence) * width, 0,
                     pass_at(pass, positions, pass->sequence * width));
}

static const struct layer_kind embedding_kind = {
    .name = "embedding",
    .reads_values = true,
    .memory = embedding_memory,
    .divide = embedding_divide,
    .flops = embedding_flops,
    .forward = embedding_forward,
    .backward_input = embedding_backward_input,
    .backward_weights = embedding_backward_weights,
};

weft_status embedding_add(struct model_description *description, const struct embedding *embedding, double deviation,
                          const char *table, const char *positions, size_t *table_number, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &embedding_kind, embedding->width, embedding,
                                               sizeof *embedding, &place, error, "embedding");
    if (status != WEFT_OK)
        return status;
    struct embedding *own = place;
    const struct initial initial = {.deviation = deviation};
    status =
        description_add_parameter(description, own->vocabulary, own->width, initial, "", table, &own->table, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, own->context, own->width, initial, "", positions,
                                           &own->positions, error);
    if (status == WEFT_OK)
        description_divide(description, own->table,
                           &(struct model_division){.segments = 1, .lengths = {own->vocabulary}});
    *table_number = own->table;
    return status;
}
