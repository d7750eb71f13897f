/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/* ---- memory ---- */

struct classifier_arrays {
    struct convolution_kept unit;
    void *input;   /* activations: of the unit, or of the mean; NULL: the rows are that already */
    void *dropped; /* activations, a row for each image */
    void *logits;  /* activations, overwritten with their gradients */
};

struct classifier_scratch {
    void *pooled;    /* of the device's type */
    void *to_pooled; /* activations */
    void *gradient;  /* activations, of the rows that enter */
};

static size_t classifier_input_width(const struct classifier *classifier)
{
    const struct convolution *shape = &classifier->unit.shape;
    return classifier->has_unit ? shape->height * shape->width * shape->inputs
                                : classifier->positions * classifier->channels;
}

static void classifier_plan(const struct classifier *classifier, const struct layer_room *room, struct arena *arena,
                            struct classifier_arrays *arrays)
{
    *arrays = (struct classifier_arrays){0};
    if (classifier->has_unit)
        convolution_unit_plan(&classifier->unit, room, arena, &arrays->unit);
    if (room->activation != room->element)
        arrays->input = arena_take(arena, room->batch * classifier_input_width(classifier) * room->activation);
    arrays->dropped = arena_take(arena, room->batch * classifier->channels * room->activation);
    arrays->logits = arena_take(arena, room->batch * classifier->linear.outputs * room->activation);
}

static void classifier_plan_scratch(const struct classifier *classifier, const struct layer_room *room,
                                    struct arena *arena, struct classifier_scratch *scratch)
{
    *scratch = (struct classifier_scratch){0};
    scratch->pooled = arena_take(arena, room->batch * classifier->channels * room->element);
    if (!room->training)
        return;
    scratch->to_pooled = arena_take(arena, room->batch * classifier->channels * room->activation);
    scratch->gradient = arena_take(arena, room->batch * classifier_input_width(classifier) * room->activation);
}

static void classifier_plan_deferred(const struct classifier *classifier, const struct layer_room *room,
                                     struct arena *arena, struct convolution_deferred *deferred)
{
    *deferred = (struct convolution_deferred){0};
    if (classifier->has_unit && room->training)
        convolution_unit_plan_deferred(&classifier->unit, room, arena, deferred);
}

static struct classifier_arrays classifier_arrays_of(const struct classifier *classifier, const struct pass *pass,
                                                     const struct layer_places *places)
{
    struct classifier_arrays arrays;
    const struct layer_room room = pass_room(pass);
    classifier_plan(classifier, &room, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

static struct classifier_scratch classifier_scratch_of(const struct classifier *classifier, const struct pass *pass,
                                                       const struct layer_places *places)
{
    struct classifier_scratch scratch;
    const struct layer_room room = pass_room(pass);
    classifier_plan_scratch(classifier, &room, &(struct arena){.base = places->scratch}, &scratch);
    return scratch;
}

static struct convolution_deferred classifier_deferred_of(const struct classifier *classifier, const struct pass *pass,
                                                          const struct layer_places *places)
{
    struct convolution_deferred deferred;
    const struct layer_room room = pass_room(pass);
    classifier_plan_deferred(classifier, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct layer_memory classifier_memory(const struct layer *layer, const struct layer_room *room)
{
    struct classifier_arrays arrays;
    struct convolution_deferred unit;
    struct classifier_scratch places;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    classifier_plan(layer->settings, room, &kept, &arrays);
    classifier_plan_deferred(layer->settings, room, &deferred, &unit);
    classifier_plan_scratch(layer->settings, room, &scratch, &places);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

/* ---- passes ---- */

static struct average_pool classifier_pool(const struct classifier *classifier, const struct pass *pass)
{
    return (struct average_pool){
        .batch = pass->batch, .positions = classifier->positions, .channels = classifier->channels};
}

static struct dropout classifier_dropout(const struct classifier *classifier, const struct pass *pass,
                                         const struct layer *layer)
{
    struct dropout dropout = pass_dropout(pass, layer);
    dropout.share = classifier->drops ? dropout.share : 0;
    return dropout;
}

static void classifier_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                               const void *x, void *y)
{
    const struct classifier *classifier = layer->settings;
    const struct classifier_arrays arrays = classifier_arrays_of(classifier, pass, places);
    const struct classifier_scratch scratch = classifier_scratch_of(classifier, pass, places);
    const struct average_pool pool = classifier_pool(classifier, pass);
    const struct dropout dropout = classifier_dropout(classifier, pass, layer);
    struct device *device = pass->device;
    const size_t rows = pass->batch, channels = classifier->channels;
    if (arrays.input) {
        device->to_activations(device, rows * classifier_input_width(classifier), x, arrays.input);
        x = arrays.input;
    }
    if (classifier->has_unit) {
        convolution_unit_forward(pass, &classifier->unit, &arrays.unit, x, NULL);
        const struct batch_norm norm = convolution_unit_norm(pass, &classifier->unit, &arrays.unit, NULL);
        device->average_pool_forward(device, &pool, arrays.unit.y, &norm, scratch.pooled);
    } else {
        device->average_pool_forward(device, &pool, x, NULL, scratch.pooled);
    }
    if (dropout.share > 0)
        device->dropout_to_activations(device, &dropout, rows, channels, scratch.pooled, arrays.dropped);
    else
        device->to_activations(device, rows * channels, scratch.pooled, arrays.dropped);
    linear_forward(pass, &classifier->linear, arrays.dropped, pass->targets ? arrays.logits : y, 0);
    if (pass->targets)
        device->mixed_cross_entropy(device, rows, classifier->linear.outputs, classifier->linear.outputs, pass->targets,
                                    pass->shares, pass->smoothing, pass->prepare ? pass->loss_scale / (double)rows : 0,
                                    arrays.logits, pass->losses, pass->losses + rows);
}

static void classifier_backward_input(const struct layer *layer, const struct pass *pass,
                                      const struct layer_places *places, const void *x, void *gradient)
{
    const struct classifier *classifier = layer->settings;
    const struct classifier_arrays arrays = classifier_arrays_of(classifier, pass, places);
    const struct classifier_scratch scratch = classifier_scratch_of(classifier, pass, places);
    const struct convolution_deferred deferred = classifier_deferred_of(classifier, pass, places);
    const struct average_pool pool = classifier_pool(classifier, pass);
    const struct dropout dropout = classifier_dropout(classifier, pass, layer);
    struct device *device = pass->device;
    const size_t rows = pass->batch, channels = classifier->channels;
    void *own = device->activations == device->type ? gradient : scratch.gradient;
    linear_backward_input(pass, &classifier->linear, arrays.logits, 0, false, scratch.to_pooled);
    device->from_activations(device, rows * channels, scratch.to_pooled, scratch.pooled);
    if (dropout.share > 0)
        device->dropout(device, &dropout, rows, channels, scratch.pooled);
    if (classifier->has_unit) {
        const struct batch_norm norm = convolution_unit_norm(pass, &classifier->unit, &arrays.unit, &deferred);
        device->average_pool_backward(device, &pool, scratch.pooled, arrays.unit.y, &norm, deferred.slope);
        convolution_unit_share_gradients(pass, &classifier->unit, &deferred);
        convolution_unit_backward_input(pass, &classifier->unit, &arrays.unit, &deferred, NULL, NULL, own);
        convolution_unit_compare_statistics(pass, &classifier->unit, &arrays.unit, &deferred);
    } else {
        device->average_pool_backward(device, &pool, scratch.pooled, NULL, NULL, own);
    }
    if (own != gradient)
        device->from_activations(device, rows * classifier_input_width(classifier), own, gradient);
}

static void classifier_backward_weights(const struct layer *layer, const struct pass *pass,
                                        const struct layer_places *places)
{
    const struct classifier *classifier = layer->settings;
    const struct classifier_arrays arrays = classifier_arrays_of(classifier, pass, places);
    const struct convolution_deferred deferred = classifier_deferred_of(classifier, pass, places);
    linear_backward_weights(pass, &classifier->linear, arrays.dropped, arrays.logits, 0);
    if (classifier->has_unit)
        convolution_unit_backward_weights(pass, &classifier->unit, &arrays.unit, &deferred,
                                          arrays.input ? arrays.input : pass->x, NULL);
}

/* ---- losses: those of all images, then whether each prediction is right ---- */

static size_t classifier_loss_count(const struct layer *layer, const struct layer_room *room)
{
    return 2 * room->batch;
}

static double classifier_mean(const double *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += numbers[i];
    return sum / (double)count;
}

static double classifier_loss(const struct layer *layer, const struct pass *pass, const double *losses)
{
    return classifier_mean(losses, pass->batch);
}

static double classifier_accuracy(const struct layer *layer, const struct pass *pass, const double *losses)
{
    return classifier_mean(losses + pass->batch, pass->batch);
}

/* ---- the layer ---- */

static double classifier_flops(const struct layer *layer, size_t sequence)
{
    const struct classifier *classifier = layer->settings;
    return 2 * (double)(classifier->linear.inputs * classifier->linear.outputs) +
           (classifier->has_unit ? convolution_unit_flops(&classifier->unit) : 0);
}

static const struct layer_kind classifier_kind = {
    .name = "classifier",
    .memory = classifier_memory,
    .flops = classifier_flops,
    .forward = classifier_forward,
    .backward_input = classifier_backward_input,
    .loss_count = classifier_loss_count,
    .loss = classifier_loss,
    .accuracy = classifier_accuracy,
    .backward_weights = classifier_backward_weights,
};

weft_status classifier_add(struct model_description *description, const struct classifier *classifier, size_t classes,
                           const struct classifier_names *names, double deviation, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &classifier_kind, 0, classifier, sizeof *classifier, &place,
                                               error, "classifier");
    if (status != WEFT_OK)
        return status;
    struct classifier *own = place;
    if (own->has_unit)
        status = convolution_unit_add(description, &own->unit, &names->unit, error);
    own->linear = (struct linear){.inputs = own->channels, .outputs = classes, .outputs_first = true};
    if (status == WEFT_OK)
        status = linear_add(description, &own->linear, deviation, "", names->weight, names->bias, error);
    return status;
}
