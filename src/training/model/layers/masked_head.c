/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"
#include "training/tensor/class_sums.h"

/*
 * A row for each prediction, of activations unless noted. The logits become their gradients.
 */
struct masked_head_arrays {
    struct pooler_arrays pooler;
    void *chosen, *hidden, *active; /* kept */
    void *wide_active;              /* kept: elements of the device's type */
    struct norm_kept norm;          /* kept */
    void *logits;                   /* kept */
    void *to_hidden, *hidden_bias;  /* deferred; gradients */
    struct norm_sums sums;          /* deferred */
    void *to_norm, *to_chosen;      /* scratch */
    void *to_active;                /* scratch: elements of the device's type */
    void *all;                      /* scratch: the micro-batch's rows or their gradients, where ranks divide them */
};

static void masked_head_plan(const struct masked_head *head, const struct layer_room *room, struct arena *kept,
                             struct arena *deferred, struct arena *scratch, struct masked_head_arrays *arrays)
{
    struct layer_room chosen = *room;
    chosen.sequence = model_masked_predictions(room->sequence);
    chosen.divides_rows = false;
    const size_t width = head->norm.width, rows = chosen.batch * chosen.sequence;
    const size_t narrow = rows * width * room->activation, wide = rows * width * room->element;
    *arrays = (struct masked_head_arrays){0};
    pooler_plan(&head->pooler, room, kept, deferred, scratch, &arrays->pooler);
    arrays->chosen = arena_take(kept, narrow);
    arrays->hidden = arena_take(kept, narrow);
    arrays->active = arena_take(kept, narrow);
    arrays->wide_active = wide == narrow ? arrays->active : arena_take(kept, wide);
    norm_plan(&head->norm, &chosen, kept, &arrays->norm);
    arrays->logits = arena_take(kept, rows * tensor_part_largest(head->all, room->ranks) * room->activation);
    arrays->all = room->divides_rows ? arena_take(scratch, room->batch * room->sequence * width * room->element) : NULL;
    if (!room->training)
        return;
    arrays->to_hidden = arena_take(deferred, narrow);
    arrays->hidden_bias = arena_take(deferred, width * room->element);
    norm_plan_sums(&head->norm, &chosen, deferred, &arrays->sums);
    arrays->to_norm = arrays->to_chosen = arena_take(scratch, narrow);
    arrays->to_active = arena_take(scratch, wide);
}

static struct masked_head_arrays masked_head_arrays_of(const struct masked_head *head, const struct pass *pass,
                                                       const struct layer_places *places)
{
    struct masked_head_arrays arrays;
    const struct layer_room room = pass_room(pass);
    masked_head_plan(head, &room, &(struct arena){.base = places->kept}, &(struct arena){.base = places->deferred},
                     &(struct arena){.base = places->scratch}, &arrays);
    return arrays;
}

static struct layer_memory masked_head_memory(const struct layer *layer, const struct layer_room *room)
{
    struct masked_head_arrays arrays;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    masked_head_plan(layer->settings, room, &kept, &deferred, &scratch, &arrays);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

static void masked_head_divide(void *settings, size_t ranks, size_t rank)
{
    struct masked_head *head = settings;
    linear_divide(&head->logits, ranks, rank);
    head->vocabulary = head->logits.outputs;
}

static double masked_head_flops(const struct layer *layer, size_t sequence)
{
    const struct masked_head *head = layer->settings;
    const size_t width = head->norm.width;
    const double chosen = 2 * (double)(model_masked_predictions(sequence) * width * (width + head->vocabulary));
    return (chosen + pooler_flops(&head->pooler)) / (double)sequence;
}

/* ---- losses: those of predictions, those of the pooler, and the sums of predictions of each tensor rank ---- */

static size_t sums_doubles(size_t predictions, size_t ranks)
{
    return predictions * ranks * sizeof(struct class_sums) / sizeof(double);
}

static size_t masked_head_loss_count(const struct layer *layer, const struct layer_room *room)
{
    const size_t predictions = room->batch * model_masked_predictions(room->sequence);
    return predictions + pooler_loss_count(room->batch) + sums_doubles(predictions, room->ranks);
}

static double masked_head_loss(const struct layer *layer, const struct pass *pass, const double *losses)
{
    const size_t predictions = pass->batch * model_masked_predictions(pass->sequence);
    double sum = 0;
    for (size_t i = 0; i < predictions; i++)
        sum += losses[i];
    const double mean = pass->target_count ? sum / (double)pass->target_count : 0;
    return mean + pooler_loss(losses + predictions, pass->batch);
}

static double masked_head_accuracy(const struct layer *layer, const struct pass *pass, const double *losses)
{
    const size_t predictions = pass->batch * model_masked_predictions(pass->sequence);
    const struct class_sums *sums = (const struct class_sums *)(losses + predictions + pooler_loss_count(pass->batch));
    const struct divided_classes shape = {.rows = predictions, .ranks = pass->description->tensor_ranks};
    size_t right = 0;
    for (size_t i = 0; i < predictions; i++) {
        const struct class_sums all = class_sums_join(&shape, sums, i);
        right += class_sums_are_right(&all);
    }
    return pass->target_count ? (double)right / (double)pass->target_count : 0;
}

static void masked_head_losses(const struct masked_head *head, const struct pass *pass,
                               const struct masked_head_arrays *arrays)
{
    struct device *device = pass->device;
    const struct tensor_group *tensor = pass->tensor;
    const size_t rows = pass->batch * model_masked_predictions(pass->sequence), rank = tensor ? tensor->rank : 0;
    const double targets = (double)(pass->target_count ? pass->target_count : 1);
    double *of_samples = pass->losses + rows;
    struct class_sums *sums = (struct class_sums *)(of_samples + pooler_loss_count(pass->batch));
    const struct divided_classes shape = {.rows = rows,
                                          .classes = head->vocabulary,
                                          .all = head->all,
                                          .ranks = tensor ? tensor->ranks : 1,
                                          .stride = head->vocabulary,
                                          .targets = pass->targets,
                                          .smoothing = pass->smoothing,
                                          .scale = pass->prepare ? pass->loss_scale / targets : 0};
    device->class_sums(device, &shape, arrays->logits, sums + rank * rows);
    if (tensor)
        tensor->gather(tensor->context, rows * sizeof *sums, sums);
    device->divided_cross_entropy(device, &shape, sums, arrays->logits, pass->losses);
    pooler_losses(&head->pooler, pass, &arrays->pooler, of_samples);
}

/* ---- passes ---- */

static struct row_choice chosen_rows(const struct masked_head *head, const struct pass *pass)
{
    return (struct row_choice){.batch = pass->batch,
                               .sequence = pass->sequence,
                               .width = head->norm.width,
                               .count = model_masked_predictions(pass->sequence),
                               .positions = pass->positions};
}

static void masked_head_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                                const void *x, void *y)
{
    const struct masked_head *head = layer->settings;
    const struct masked_head_arrays arrays = masked_head_arrays_of(head, pass, places);
    struct device *device = pass->device;
    const struct row_choice choice = chosen_rows(head, pass);
    struct tensor_group group;
    const struct pass chosen = pass_of_rows(pass, choice.count, &group);
    const size_t count = pass_rows(&chosen) * head->norm.width;
    const void *rows = pass_all_rows(pass, head->norm.width, x, arrays.all);

    device->gather_rows(device, &choice, rows, arrays.chosen);
    linear_forward(&chosen, &head->transform, arrays.chosen, arrays.hidden, 0);
    device->gelu_erf_forward(device, count, arrays.hidden, arrays.active);
    if (arrays.wide_active != arrays.active)
        device->from_activations(device, count, arrays.active, arrays.wide_active);
    norm_forward(&chosen, &head->norm, arrays.wide_active, &arrays.norm);
    linear_forward(&chosen, &head->logits, arrays.norm.out, pass->targets ? arrays.logits : y, head->vocabulary);
    if (!pass->targets)
        return;
    pooler_forward(&head->pooler, pass, layer, &arrays.pooler, rows, NULL);
    masked_head_losses(head, pass, &arrays);
}

static void masked_head_backward_input(const struct layer *layer, const struct pass *pass,
                                       const struct layer_places *places, const void *x, void *gradient)
{
    const struct masked_head *head = layer->settings;
    const struct masked_head_arrays arrays = masked_head_arrays_of(head, pass, places);
    struct device *device = pass->device;
    const struct row_choice choice = chosen_rows(head, pass);
    struct tensor_group group;
    const struct pass chosen = pass_of_rows(pass, choice.count, &group);
    const size_t width = head->norm.width, rows = pass_rows(&chosen);
    void *all = arrays.all ? arrays.all : gradient;

    linear_backward_input(&chosen, &head->logits, arrays.logits, head->vocabulary, false, arrays.to_norm);
    norm_backward_input(&chosen, &head->norm, &arrays.norm, arrays.wide_active, arrays.to_norm, false, arrays.to_active,
                        &arrays.sums);
    device->to_activations(device, rows * width, arrays.to_active, arrays.to_hidden);
    device->gelu_erf_backward(device, rows, width, arrays.hidden, arrays.to_hidden, arrays.hidden_bias);
    linear_backward_input(&chosen, &head->transform, arrays.to_hidden, 0, false, arrays.to_chosen);
    device->fill(device, pass_rows(pass) * width, 0, all);
    device->scatter_rows(device, &choice, arrays.to_chosen, all);
    pooler_backward_input(&head->pooler, pass, layer, &arrays.pooler, all);
    pass_own_gradient(pass, width, all, gradient);
}

static void masked_head_backward_weights(const struct layer *layer, const struct pass *pass,
                                         const struct layer_places *places)
{
    const struct masked_head *head = layer->settings;
    const struct masked_head_arrays arrays = masked_head_arrays_of(head, pass, places);
    struct tensor_group group;
    const struct pass chosen = pass_of_rows(pass, model_masked_predictions(pass->sequence), &group);

    linear_backward_weights(&chosen, &head->logits, arrays.norm.out, arrays.logits, head->vocabulary);
    norm_backward_weights(&chosen, &head->norm, &arrays.sums);
    gradient_store(pass, head->transform.bias, head->norm.width, arrays.hidden_bias);
    linear_backward_weight(&chosen, &head->transform, arrays.chosen, arrays.to_hidden, 0);
    pooler_backward_weights(&head->pooler, pass, &arrays.pooler);
}

static const struct layer_kind masked_head_kind = {
    .name = "head",
    .memory = masked_head_memory,
    .divide = masked_head_divide,
    .flops = masked_head_flops,
    .loss_count = masked_head_loss_count,
    .loss = masked_head_loss,
    .accuracy = masked_head_accuracy,
    .forward = masked_head_forward,
    .backward_input = masked_head_backward_input,
    .backward_weights = masked_head_backward_weights,
};

weft_status masked_head_add(struct model_description *description, const struct masked_head *head, double deviation,
                            const struct masked_head_names *names, size_t table, struct error *error)
{
    void *place;
    weft_status status =
        description_add_layer(description, &masked_head_kind, 0, head, sizeof *head, &place, error, "head");
    if (status != WEFT_OK)
        return status;
    struct masked_head *own = place;
    const size_t width = own->norm.width;
    own->all = own->vocabulary;
    own->transform = (struct linear){.inputs = width, .outputs = width, .outputs_first = true, .whole = true};
    own->logits = (struct linear){.inputs = width, .outputs = own->vocabulary, .outputs_first = true};
    status = pooler_add_dense(description, &own->pooler, deviation, &names->pooler, error);
    if (status == WEFT_OK)
        status =
            linear_add(description, &own->transform, deviation, "", names->transform, names->transform_bias, error);
    if (status == WEFT_OK)
        status = norm_add(description, &own->norm, "", names->norm_gain, names->norm_bias, error);
    if (status == WEFT_OK)
        status = linear_add(description, &own->logits, deviation, "", NULL, names->bias, error);
    if (status == WEFT_OK)
        status = pooler_add_classifier(description, &own->pooler, deviation, &names->pooler, error);
    if (status != WEFT_OK)
        return status;
    own->logits.weight = table;
    description_tie(description, table);
    return WEFT_OK;
}
