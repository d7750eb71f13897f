/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

#define LOGITS_OUTSIDE_TRAINING ((size_t)4 << 20) /* elements */

/*
 * A row of activations for each token. In training the logits of all tokens are kept and overwritten with their
 * gradients. Otherwise they are computed in parts.
 */
struct head_arrays {
    struct norm_kept norm;
    void *logits; /* rows without gaps: so all of oneDNN's kernels can multiply them */
    size_t logit_rows;
};

static void head_plan(const struct head *head, const struct layer_room *room, struct arena *kept,
                      struct head_arrays *arrays)
{
    const size_t rows = room->batch * room->sequence;
    norm_plan(&head->norm, room, kept, &arrays->norm);
    const size_t largest = tensor_part_largest(head->all, room->ranks); /* the same rows at a time on all ranks */
    arrays->logit_rows = LOGITS_OUTSIDE_TRAINING / largest + 1;
    if (room->training || arrays->logit_rows > rows)
        arrays->logit_rows = rows;
    arrays->logits = arena_take(kept, arrays->logit_rows * largest * room->activation);
}

static struct head_arrays head_arrays_of(const struct head *head, const struct pass *pass,
                                         const struct layer_places *places)
{
    struct head_arrays arrays;
    const struct layer_room room = pass_room(pass);
    head_plan(head, &room, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

/* From the input pass to the weights pass, besides the kept logits. */
static struct norm_sums head_sums_of(const struct head *head, const struct pass *pass,
                                     const struct layer_places *places)
{
    struct norm_sums sums;
    const struct layer_room room = pass_room(pass);
    norm_plan_sums(&head->norm, &room, &(struct arena){.base = places->deferred}, &sums);
    return sums;
}

static struct layer_memory head_memory(const struct layer *layer, const struct layer_room *room)
{
    const struct head *head = layer->settings;
    struct head_arrays arrays;
    struct norm_sums sums;
    struct arena kept = {0}, deferred = {0};
    head_plan(head, room, &kept, &arrays);
    const size_t class_sums = room->ranks > 1 ? room->ranks * arrays.logit_rows * sizeof(struct class_sums) : 0,
                 to_norm = room->training ? room->batch * room->sequence * head->norm.width * room->activation : 0;
    if (room->training)
        norm_plan_sums(&head->norm, room, &deferred, &sums);
    return (struct layer_memory){
        .kept = kept.used, .deferred = deferred.used, .scratch = class_sums > to_norm ? class_sums : to_norm};
}

static void head_divide(void *settings, size_t ranks, size_t rank)
{
    struct head *head = settings;
    linear_divide(&head->logits, ranks, rank);
    head->vocabulary = head->logits.outputs;
}

static double head_flops(const struct layer *layer, size_t sequence)
{
    const struct head *head = layer->settings;
    return 2 * (double)(head->vocabulary * head->norm.width);
}

/* Losses of some rows, from logits of this rank's classes, which become their gradients. */
static void head_losses(const struct head *head, const struct pass *pass, const struct head_arrays *arrays,
                        const int32_t *targets, double scale, struct class_sums *sums, double *losses)
{
    struct device *device = pass->device;
    const struct tensor_group *tensor = pass->tensor;
    const size_t rows = pass_rows(pass);
    if (!tensor) {
        device->cross_entropy(device, rows, head->vocabulary, head->vocabulary, targets, pass->smoothing, scale,
                              arrays->logits, losses);
        return;
    }
    const struct divided_classes shape = {.rows = rows,
                                          .classes = head->vocabulary,
                                          .all = head->all,
                                          .ranks = tensor->ranks,
                                          .stride = head->vocabulary,
                                          .targets = targets,
                                          .smoothing = pass->smoothing,
                                          .scale = scale};
    device->class_sums(device, &shape, arrays->logits, sums + tensor->rank * rows);
    tensor->gather(tensor->context, rows * sizeof *sums, sums);
    device->divided_cross_entropy(device, &shape, sums, arrays->logits, losses);
}

static void head_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                         const void *x, void *y)
{
    const struct head *head = layer->settings;
    const struct head_arrays arrays = head_arrays_of(head, pass, places);
    const size_t rows = pass_rows(pass);
    norm_forward(pass, &head->norm, x, &arrays.norm);
    if (!pass->targets) {
        linear_forward(pass, &head->logits, arrays.norm.out, y, head->vocabulary);
        return;
    }
    for (size_t first = 0; first < rows; first += arrays.logit_rows) {
        struct pass part = *pass;
        part.batch = 1;
        part.sequence = rows - first < arrays.logit_rows ? rows - first : arrays.logit_rows;
        linear_forward(&part, &head->logits, pass_activation_at(pass, arrays.norm.out, first * head->norm.width),
                       arrays.logits, head->vocabulary);
        head_losses(head, &part, &arrays, pass->targets + first, pass->prepare ? pass->loss_scale / (double)rows : 0,
                    places->scratch, pass->losses + first);
    }
}

static void head_backward_input(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                                const void *x, void *gradient)
{
    const struct head *head = layer->settings;
    const struct head_arrays arrays = head_arrays_of(head, pass, places);
    const struct norm_sums sums = head_sums_of(head, pass, places);
    linear_backward_input(pass, &head->logits, arrays.logits, head->vocabulary, false, places->scratch);
    norm_backward_input(pass, &head->norm, &arrays.norm, x, places->scratch, false, gradient, &sums);
}

static void head_backward_weights(const struct layer *layer, const struct pass *pass, const struct layer_places *places)
{
    const struct head *head = layer->settings;
    const struct head_arrays arrays = head_arrays_of(head, pass, places);
    const struct norm_sums sums = head_sums_of(head, pass, places);
    linear_backward_weights(pass, &head->logits, arrays.norm.out, arrays.logits, head->vocabulary);
    norm_backward_weights(pass, &head->norm, &sums);
}

static const struct layer_kind head_kind = {
    .name = "head",
    .memory = head_memory,
    .divide = head_divide,
    .flops = head_flops,
    .forward = head_forward,
    .backward_input = head_backward_input,
    .backward_weights = head_backward_weights,
};

weft_status head_add(struct model_description *description, const struct head *head, double deviation,
                     const char *norm_gain, const char *norm_bias, const char *matrix, size_t table,
                     struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &head_kind, 0, head, sizeof *head, &place, error, "head");
    if (status != WEFT_OK)
        return status;
    struct head *own = place;
    own->all = own->vocabulary;
    own->logits = (struct linear){.inputs = own->norm.width, .outputs = own->vocabulary, .outputs_first = true};
    status = norm_add(description, &own->norm, "", norm_gain, norm_bias, error);
    if (status == WEFT_OK)
        status = linear_add(description, &own->logits, deviation, "", matrix, NULL, error);
    if (status == WEFT_OK && !matrix) {
        own->logits.weight = table;
        description_tie(description, table);
    }
    return status;
}
