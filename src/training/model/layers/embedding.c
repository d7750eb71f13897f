/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

static struct layer_memory embedding_memory(const struct layer *layer, const struct layer_room *room)
{
    return (struct layer_memory){0};
}

static double embedding_flops(const struct layer *layer, size_t sequence)
{
    return 0;
}

static void embedding_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                              const void *x, void *y)
{
    const struct embedding *embedding = layer->settings;
    const void *positions =
        embedding->positions == NO_PARAMETER ? NULL : pass_tensor(pass, pass->parameters, embedding->positions);
    pass->device->embedding_forward(pass->device, pass->batch, pass->sequence, embedding->width, pass->first,
                                    pass->tokens, pass_tensor(pass, pass->parameters, embedding->table), positions, y);
    const struct dropout dropout = pass_dropout(pass, layer);
    if (dropout.share > 0)
        pass->device->dropout(pass->device, &dropout, pass_rows(pass), embedding->width, y);
}

/* A tied table already holds the head's gradient. Rows of positions that no sequence reached have gradient 0. */
static void embedding_backward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                               const void *x, void *gradient)
{
    const struct embedding *embedding = layer->settings;
    struct device *device = pass->device;
    const size_t width = embedding->width;
    void *table = pass_tensor(pass, pass->gradients, embedding->table), *positions = NULL;
    if (embedding->positions != NO_PARAMETER)
        positions = pass_tensor(pass, pass->gradients, embedding->positions);
    if (!embedding->tied)
        device->fill(device, embedding->vocabulary * width, 0, table);
    const struct dropout dropout = pass_dropout(pass, layer);
    if (dropout.share > 0)
        device->dropout(device, &dropout, pass_rows(pass), width, gradient);
    device->embedding_backward(device, pass->batch, pass->sequence, width, pass->tokens, gradient, table, positions);
    if (positions && pass->sequence < embedding->context)
        device->fill(device, (embedding->context - pass->sequence) * width, 0,
                     pass_at(pass, positions, pass->sequence * width));
}

static const struct layer_kind embedding_kind = {
    .name = "embedding",
    .memory = embedding_memory,
    .flops = embedding_flops,
    .forward = embedding_forward,
    .backward = embedding_backward,
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
    *table_number = own->table;
    return status;
}
