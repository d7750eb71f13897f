/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

static bool embedding_is_normed(const struct embedding *embedding)
{
    return embedding->norm.gain != NO_PARAMETER;
}

/* What is kept where the sums of rows are normalized. */
struct embedding_arrays {
    void *sums; /* this rank's rows of sums */
    void *means, *reciprocals;
};

struct embedding_scratch {
    void *all;  /* of all rows, where the ranks divide them */
    void *more; /* of all rows: what is added for segments; then the norm's output that nothing reads */
};

struct embedding_deferred {
    void *to_sums; /* gradient of all rows */
    struct norm_sums norm;
};

static size_t embedding_bytes(const struct embedding *embedding, const struct layer_room *room)
{
    return room->batch * room->sequence * embedding->width * room->element;
}

static void embedding_plan(const struct embedding *embedding, const struct layer_room *room, struct arena *arena,
                           struct embedding_arrays *arrays)
{
    const size_t column = room->batch * room->sequence * room->element;
    if (!embedding_is_normed(embedding))
        return;
    arrays->sums = arena_take(arena, embedding_bytes(embedding, room) / (room->divides_rows ? room->ranks : 1));
    arrays->means = arena_take(arena, column);
    arrays->reciprocals = arena_take(arena, column);
}

static void embedding_plan_scratch(const struct embedding *embedding, const struct layer_room *room,
                                   struct arena *arena, struct embedding_scratch *scratch)
{
    const size_t bytes = embedding_bytes(embedding, room);
    scratch->all = room->divides_rows ? arena_take(arena, bytes) : NULL;
    scratch->more = embedding_is_normed(embedding) ? arena_take(arena, bytes) : NULL;
}

static void embedding_plan_deferred(const struct embedding *embedding, const struct layer_room *room,
                                    struct arena *arena, struct embedding_deferred *deferred)
{
    if (!room->training)
        return;
    deferred->to_sums = arena_take(arena, embedding_bytes(embedding, room));
    if (embedding_is_normed(embedding))
        norm_plan_sums(&embedding->norm, room, arena, &deferred->norm);
}

static struct embedding_arrays embedding_arrays_of(const struct embedding *embedding, const struct pass *pass,
                                                   const struct layer_places *places)
{
    struct embedding_arrays arrays = {0};
    const struct layer_room room = pass_room(pass);
    embedding_plan(embedding, &room, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

static struct embedding_deferred embedding_deferred_of(const struct embedding *embedding, const struct pass *pass,
                                                       const struct layer_places *places)
{
    struct embedding_deferred deferred = {0};
    const struct layer_room room = pass_room(pass);
    embedding_plan_deferred(embedding, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct layer_memory embedding_memory(const struct layer *layer, const struct layer_room *room)
{
    const struct embedding *embedding = layer->settings;
    struct embedding_arrays arrays;
    struct embedding_scratch places;
    struct embedding_deferred gradients;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    embedding_plan(embedding, room, &kept, &arrays);
    embedding_plan_deferred(embedding, room, &deferred, &gradients);
    embedding_plan_scratch(embedding, room, &scratch, &places);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
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

/* Sums of table rows, of all rows. One rank adds those of tables that all have. */
static void embedding_sum(const struct embedding *embedding, const struct pass *pass, void *more, void *all)
{
    struct device *device = pass->device;
    const bool adds = !pass->tensor || pass->tensor->rank == 0;
    const size_t width = embedding->width;
    const void *positions =
        adds && embedding->positions != NO_PARAMETER ? pass_parameter(pass, embedding->positions) : NULL;
    device->embedding_forward(device, pass->batch, pass->sequence, width, pass->first, pass->tokens,
                              pass_parameter(pass, embedding->table), positions, all);
    if (adds && embedding->segments != NO_PARAMETER) {
        device->embedding_forward(device, pass->batch, pass->sequence, width, 0, pass->segments,
                                  pass_parameter(pass, embedding->segments), NULL, more);
        device->add(device, pass_rows(pass) * width, all, more, all);
    }
    pass_sum_rows(pass, device->type, width, all);
}

static void embedding_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                              const void *x, void *y)
{
    const struct embedding *embedding = layer->settings;
    const struct embedding_arrays arrays = embedding_arrays_of(embedding, pass, places);
    const struct layer_room room = pass_room(pass);
    const bool is_normed = embedding_is_normed(embedding);
    struct embedding_scratch scratch;
    if (!y && !is_normed) /* nothing is kept */
        return;
    embedding_plan_scratch(embedding, &room, &(struct arena){.base = places->scratch}, &scratch);
    struct device *device = pass->device;
    const size_t width = embedding->width, rows = pass_own_rows(pass);
    void *sums = is_normed ? arrays.sums : y, *all = pass_divides_rows(pass) ? scratch.all : sums;
    embedding_sum(embedding, pass, scratch.more, all);
    if (all != sums)
        device->copy(device, sums, pass_at(pass, all, pass_own_first(pass) * width),
                     rows * width * weft_type_size(device->type));
    if (is_normed)
        device->stream_norm_forward(
            device, rows, width, embedding->norm.epsilon, sums, pass_parameter(pass, embedding->norm.gain),
            pass_parameter(pass, embedding->norm.bias), y ? y : scratch.more, arrays.means, arrays.reciprocals);
    const struct dropout dropout = pass_dropout(pass, layer);
    if (y && dropout.share > 0)
        device->dropout(device, &dropout, rows, width, y);
}

/* All gradients are of weights: defer the rows' gradient. */
static void embedding_backward_input(const struct layer *layer, const struct pass *pass,
                                     const struct layer_places *places, const void *x, void *gradient)
{
    const struct embedding *embedding = layer->settings;
    const struct embedding_deferred deferred = embedding_deferred_of(embedding, pass, places);
    struct device *device = pass->device;
    const size_t rows = pass_own_rows(pass), width = layer->width;
    const struct dropout dropout = pass_dropout(pass, layer);
    void *own = pass_at(pass, deferred.to_sums, pass_own_first(pass) * width);
    device->copy(device, own, gradient, rows * width * weft_type_size(device->type));
    if (dropout.share > 0)
        device->dropout(device, &dropout, rows, width, own);
    if (embedding_is_normed(embedding)) {
        const struct embedding_arrays arrays = embedding_arrays_of(embedding, pass, places);
        device->stream_norm_backward(device, rows, width, own, arrays.sums, pass_parameter(pass, embedding->norm.gain),
                                     arrays.means, arrays.reciprocals, false, own, deferred.norm.gain,
                                     deferred.norm.bias);
        norm_sums_join(pass, &embedding->norm, &deferred.norm);
    }
    pass_gather_rows(pass, device->type, width, deferred.to_sums);
}

/* Rows of positions that no sequence reached have gradient 0. */
static void embedding_backward_weights(const struct layer *layer, const struct pass *pass,
                                       const struct layer_places *places)
{
    const struct embedding *embedding = layer->settings;
    const struct embedding_deferred deferred = embedding_deferred_of(embedding, pass, places);
    struct device *device = pass->device;
    const size_t width = embedding->width;
    void *table = pass_gradient(pass, embedding->table), *positions = NULL;
    if (embedding->positions != NO_PARAMETER)
        positions = pass_gradient(pass, embedding->positions);
    device->fill(device, (pass->table_rows ? pass->table_row_count : embedding->vocabulary) * width, 0, table);
    device->embedding_backward(device, pass->batch, pass->sequence, width,
                               pass->table_rows ? pass->table_rows : pass->tokens, deferred.to_sums, table, positions);
    if (positions && pass->sequence < embedding->context)
        device->fill(device, (embedding->context - pass->sequence) * width, 0,
                     pass_at(pass, positions, pass->sequence * width));
    if (embedding->segments != NO_PARAMETER) {
        void *segments = pass_gradient(pass, embedding->segments);
        device->fill(device, EMBEDDING_SEGMENTS * width, 0, segments);
        device->embedding_backward(device, pass->batch, pass->sequence, width, pass->segments, deferred.to_sums,
                                   segments, NULL);
    }
    if (embedding_is_normed(embedding))
        norm_backward_weights(pass, &embedding->norm, &deferred.norm);
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
                          const struct embedding_names *names, size_t *table_number, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &embedding_kind, embedding->width, embedding,
                                               sizeof *embedding, &place, error, "embedding");
    if (status != WEFT_OK)
        return status;
    struct embedding *own = place;
    const struct {
        const char *name;
        size_t rows, *number;
    } tables[] = {{names->table, own->vocabulary, &own->table},
                  {names->positions, own->context, &own->positions},
                  {names->segments, EMBEDDING_SEGMENTS, &own->segments}};
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(tables); i++)
        status =
            description_add_parameter(description, tables[i].rows, own->width, (struct initial){.deviation = deviation},
                                      "", tables[i].name, tables[i].number, error);
    own->norm = (struct norm){.width = own->width, .epsilon = own->norm_epsilon};
    if (status == WEFT_OK)
        status = norm_add(description, &own->norm, "", names->norm_gain, names->norm_bias, error);
    if (status == WEFT_OK)
        description_divide(description, own->table,
                           &(struct model_division){.segments = 1, .lengths = {own->vocabulary}});
    *table_number = own->table;
    return status;
}
