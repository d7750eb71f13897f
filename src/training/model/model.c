/* SPDX-License-Identifier: Apache-2.0 */
/* A network on a device: its memory, and the forward and backward pass through its layers. */
#include "training/model/model.h"

#include "training/model/layer.h"

#include <stdlib.h>
#include <string.h>

struct model {
    const struct model_description *description;
    struct device *device;
    struct model_options options;
    void *memory;                /* all of it, on the device */
    struct layer_places *places; /* of each layer */
    void **x;                    /* the rows that enter each layer; none enter the first */
    void *gradient;              /* of the rows between two layers, during a backward pass */
    void *logits;                /* of one row, activations */
    void *as_activations;        /* all weights as activations; NULL where they are already */
    const void *cast_from;       /* the array that they were last cast from; NULL: out of date */
    int32_t *tokens, *targets;
    double *losses;        /* of each row */
    double *host;          /* losses or a row of logits, in host memory */
    bool prepared;         /* a forward pass waits for its backward pass */
    uint64_t seed, sample; /* of that forward pass */
    model_watcher watcher; /* NULL: none */
    void *watcher_context;
};

/* ---- memory ---- */

static bool is_recomputed(const struct model *model, size_t i)
{
    const struct layer *layer = &model->description->layers[i];
    if (i + 1 == model->description->layer_count) /* its backward pass comes next */
        return false;
    return model->options.recompute == MODEL_RECOMPUTE_ALL ||
           (model->options.recompute == MODEL_RECOMPUTE_ATTENTION && layer->kind->is_attention);
}

/* Layers before the first trained parameter need no backward pass. */
static bool is_passed_over(const struct model *model, size_t i)
{
    const struct layer *layer = &model->description->layers[i];
    return layer->parameter + layer->parameter_count <= model->description->first_trainable;
}

/* A layer has its own memory for values that the backward pass needs and does not recompute. */
static bool keeps(const struct model *model, size_t i)
{
    return model->options.training && !is_recomputed(model, i) && !is_passed_over(model, i);
}

static size_t model_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* With a base of NULL, this counts. */
static void plan_layers(struct model *model, const struct layer_room *room, struct arena *arena)
{
    const struct model_description *description = model->description;
    struct layer_memory shared = {0};
    for (size_t i = 0; i < description->layer_count; i++) {
        const struct layer *layer = &description->layers[i];
        const struct layer_memory memory = layer->kind->memory(layer, room);
        model->places[i] = (struct layer_places){.own = arena_take(arena, memory.own)};
        if (keeps(model, i))
            model->places[i].kept = arena_take(arena, memory.kept);
        else
            shared.kept = model_larger(shared.kept, memory.kept);
        shared.scratch = model_larger(shared.scratch, memory.scratch);
    }
    void *kept = arena_take(arena, shared.kept), *scratch = arena_take(arena, shared.scratch);
    for (size_t i = 0; i < description->layer_count; i++) {
        model->places[i].scratch = scratch;
        if (!keeps(model, i))
            model->places[i].kept = kept;
    }
}

static void plan_memory(struct model *model, weft_type type, weft_type activations, struct arena *arena)
{
    const struct model_description *description = model->description;
    const struct layer_room room = {.element = weft_type_size(type),
                                    .activation = weft_type_size(activations),
                                    .batch = model->options.batch,
                                    .sequence = model->options.sequence,
                                    .training = model->options.training};
    const size_t element = room.element, rows = room.batch * room.sequence,
                 widest = rows * description->widest * element;
    plan_layers(model, &room, arena);
    model->x[0] = NULL;
    for (size_t i = 1; i < description->layer_count; i++) {
        if (model->options.training)
            model->x[i] = arena_take(arena, rows * description->layers[i - 1].width * element);
        else /* two buffers in turn */
            model->x[i] = i < 3 ? arena_take(arena, widest) : model->x[i - 2];
    }
    model->gradient = model->options.training ? arena_take(arena, widest) : NULL;
    model->logits = arena_take(arena, description->shape.vocabulary * room.activation);
    model->as_activations = activations == type ? NULL : arena_take(arena, description->elements * room.activation);
    model->losses = arena_take(arena, rows * sizeof *model->losses);
    model->tokens = arena_take(arena, rows * sizeof *model->tokens);
    model->targets = arena_take(arena, rows * sizeof *model->targets);
}

static weft_status make_lists(struct model *model, struct error *error)
{
    const size_t layers = model->description->layer_count;
    model->places = calloc(layers, sizeof *model->places);
    model->x = calloc(layers, sizeof *model->x);
    return model->places && model->x ? WEFT_OK
                                     : error_memory(error, layers * sizeof *model->places, "a model's list of layers");
}

size_t model_memory(const struct model_description *description, weft_type type, weft_type activations,
                    const struct model_options *options)
{
    struct model model = {.description = description, .options = *options};
    struct arena arena = {0};
    if (make_lists(&model, NULL) == WEFT_OK)
        plan_memory(&model, type, activations, &arena);
    free(model.places);
    free(model.x);
    return arena.used;
}

#define TOKENS_MOST ((size_t)1 << 26) /* in a micro-batch; keeps every size below within 64 bits */

weft_status model_check_options(const struct model_description *description, const struct model_options *options,
                                struct error *error)
{
    const size_t batch = options->batch, sequence = options->sequence;
    if (batch < 1 || sequence < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a micro-batch of %zu sequences of %zu tokens is empty; both must be at least 1", batch,
                         sequence);
    if (sequence > description->shape.context)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "sequences of %zu tokens do not fit the model's context of %zu; use shorter ones or a larger context",
            sequence, description->shape.context);
    if (batch > TOKENS_MOST / sequence)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a micro-batch of %zu sequences of %zu tokens is too large; at most %zu tokens are possible",
                         batch, sequence, TOKENS_MOST);
    if (!(options->dropout >= 0 && options->dropout < 1))
        return error_set(error, WEFT_ERROR_ARGUMENT, "a dropout of %g is impossible; it must be from 0 to below 1",
                         options->dropout);
    return WEFT_OK;
}

weft_status model_open(const struct model_description *description, struct device *device,
                       const struct model_options *options, struct model **result, struct error *error)
{
    weft_status status = model_check_options(description, options, error);
    if (status != WEFT_OK)
        return status;
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return error_memory(error, sizeof *model, "a model");
    *model = (struct model){.description = description, .device = device, .options = *options};
    const size_t numbers = options->batch * options->sequence + description->shape.vocabulary;
    struct arena arena = {0};
    status = make_lists(model, error);
    model->host = calloc(numbers, sizeof *model->host);
    if (status == WEFT_OK && !model->host)
        status = error_memory(error, numbers * sizeof *model->host, "a model's losses");
    if (status == WEFT_OK) {
        plan_memory(model, device->type, device->activations, &arena);
        model->memory = device->allocate(device, arena.used, "a model's activations", error);
        if (!model->memory)
            status = WEFT_ERROR_MEMORY;
    }
    if (status != WEFT_OK) {
        model_close(model);
        return status;
    }
    arena = (struct arena){.base = model->memory};
    plan_memory(model, device->type, device->activations, &arena);
    *result = model;
    return WEFT_OK;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    model->device->release(model->device, model->memory);
    free(model->places);
    free(model->x);
    free(model->host);
    free(model);
}

/* ---- forward ---- */

/* The weights as activations, cast again if they have changed. */
static const void *weights_of(struct model *model, const void *parameters)
{
    if (!model->as_activations)
        return parameters;
    if (model->cast_from != parameters)
        model->device->to_activations(model->device, model->description->elements, parameters, model->as_activations);
    model->cast_from = parameters;
    return model->as_activations;
}

void model_weights_changed(struct model *model)
{
    model->cast_from = NULL;
}

void *model_weights_as_activations(struct model *model)
{
    return model->as_activations;
}

static struct pass pass_of(struct model *model, const void *parameters)
{
    return (struct pass){
        .device = model->device,
        .description = model->description,
        .parameters = parameters,
        .weights = weights_of(model, parameters),
        .batch = model->options.batch,
        .sequence = model->options.sequence,
        .training = model->options.training,
        .tokens = model->tokens,
        .targets = model->targets,
        .losses = model->losses,
        .room_batch = model->options.batch,
        .room_sequence = model->options.sequence,
    };
}

/* Training passes drop elements; a backward pass drops those of its forward pass. */
static void model_drop(struct model *model, struct pass *pass, uint64_t seed, uint64_t sample)
{
    pass->dropout = model->options.dropout;
    pass->seed = model->seed = seed;
    pass->sample = model->sample = sample;
}

static void layer_forward(const struct model *model, const struct pass *pass, size_t i)
{
    const struct layer *layer = &model->description->layers[i];
    void *y = i + 1 < model->description->layer_count ? model->x[i + 1] : NULL;
    layer->kind->forward(layer, pass, &model->places[i], model->x[i], y);
}

static void model_show(const struct model *model, const struct model_turn *turn)
{
    if (model->watcher)
        model->watcher(model->watcher_context, turn);
}

static void show_begin(const struct model *model, size_t i, enum model_direction direction)
{
    model_show(model, &(struct model_turn){.layer = i, .direction = direction, .begins = true});
}

static void show_output(const struct model *model, const struct pass *pass, size_t i)
{
    const bool last = i + 1 == model->description->layer_count;
    model_show(model, &(struct model_turn){.layer = i,
                                           .direction = MODEL_FORWARD,
                                           .values = last ? (const void *)model->losses : model->x[i + 1],
                                           .count = pass_rows(pass) * (last ? 1 : model->description->layers[i].width),
                                           .type = last ? WEFT_F64 : model->device->type});
}

static void show_gradient(const struct model *model, const struct pass *pass, size_t i)
{
    model_show(model, &(struct model_turn){.layer = i,
                                           .direction = MODEL_BACKWARD,
                                           .values = i ? model->gradient : NULL,
                                           .count = i ? pass_rows(pass) * model->description->layers[i - 1].width : 0,
                                           .type = model->device->type});
}

static weft_status check_tokens(const struct model *model, const int32_t *tokens, size_t count, const char *what,
                                struct error *error)
{
    size_t vocabulary = model->description->shape.vocabulary;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= vocabulary)
            return error_set(
                error, WEFT_ERROR_DATA,
                "%s %zu of the batch is token %d, but the model's vocabulary has %zu tokens, from 0; check that "
                "the data was made for this vocabulary",
                what, i, (int)tokens[i], vocabulary);
    return WEFT_OK;
}

/* `prepare`: a backward pass may follow. */
static weft_status forward(struct model *model, const void *parameters, const struct model_batch *batch, bool prepare,
                           double *loss, struct error *error)
{
    struct device *device = model->device;
    const size_t rows = model->options.batch * model->options.sequence;
    weft_status status = check_tokens(model, batch->tokens, rows, "input", error);
    if (status == WEFT_OK)
        status = check_tokens(model, batch->targets, rows, "target", error);
    if (status != WEFT_OK)
        return status;
    struct pass pass = pass_of(model, parameters);
    pass.prepare = prepare;
    pass.smoothing = prepare ? model->options.label_smoothing : 0;
    if (prepare)
        model_drop(model, &pass, batch->seed, batch->sample);
    device->write(device, model->tokens, batch->tokens, rows * sizeof *batch->tokens);
    device->write(device, model->targets, batch->targets, rows * sizeof *batch->targets);
    for (size_t i = 0; i < model->description->layer_count; i++) {
        show_begin(model, i, MODEL_FORWARD);
        layer_forward(model, &pass, i);
        show_output(model, &pass, i);
    }
    device->read(device, model->host, model->losses, rows * sizeof *model->losses);
    status = device->finish(device, error);
    model->prepared = prepare && status == WEFT_OK;
    if (status != WEFT_OK)
        return status;
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += model->host[i];
    *loss = sum / (double)rows;
    return WEFT_OK;
}

weft_status model_forward(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                          struct error *error)
{
    if (!model->options.training)
        return error_set(error, WEFT_ERROR_STATE,
                         "this model was opened without training, so it can be evaluated but not trained");
    return forward(model, parameters, batch, true, loss, error);
}

weft_status model_evaluate(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                           struct error *error)
{
    return forward(model, parameters, batch, false, loss, error);
}

static void convert_logits(weft_type type, size_t count, const void *from, double *to)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        if (type == WEFT_F64) {
            to[i] = ((const double *)from)[i];
            continue;
        }
        if (type == WEFT_BF16) { /* the upper half of a float */
            uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
            memcpy(&value, &bits, sizeof value);
        } else {
            value = ((const float *)from)[i];
        }
        to[i] = (double)value;
    }
}

weft_status model_extend(struct model *model, const void *parameters, size_t first, const int32_t *tokens, size_t count,
                         double *logits, struct error *error)
{
    struct device *device = model->device;
    const size_t last = model->description->layer_count - 1, vocabulary = model->description->shape.vocabulary;
    if (model->options.batch != 1 || model->options.training)
        return error_set(error, WEFT_ERROR_STATE,
                         "a model opened for %zu sequences%s cannot extend one; open it with batch 1, without training",
                         model->options.batch, model->options.training ? ", to train," : "");
    if (count < 1 || first > model->options.sequence || count > model->options.sequence - first)
        return error_set(error, WEFT_ERROR_ARGUMENT, "positions %zu to %zu do not fit a sequence of %zu tokens", first,
                         first + count, model->options.sequence);
    weft_status status = check_tokens(model, tokens, count, "input", error);
    if (status != WEFT_OK)
        return status;
    struct pass pass = pass_of(model, parameters);
    pass.first = first;
    pass.sequence = count;
    pass.targets = NULL;
    device->write(device, model->tokens, tokens, count * sizeof *tokens);
    for (size_t i = 0; i < last; i++)
        layer_forward(model, &pass, i);
    pass.sequence = 1;
    const struct layer *head = &model->description->layers[last];
    head->kind->forward(head, &pass, &model->places[last],
                        pass_at(&pass, model->x[last], (count - 1) * model->description->layers[last - 1].width),
                        model->logits);
    device->read(device, model->host, model->logits, vocabulary * weft_type_size(device->activations));
    status = device->finish(device, error);
    if (status == WEFT_OK)
        convert_logits(device->activations, vocabulary, model->host, logits);
    return status;
}

/* ---- backward ---- */

/* A layer's parameters have their gradients: clear the gaps after them, and report them as ready. */
static void report_ready(const struct pass *pass, const struct layer *layer, model_ready ready, void *context)
{
    const struct model_description *description = pass->description;
    struct device *device = pass->device;
    const struct model_parameter *parameters = description->parameters;
    const size_t last = layer->parameter + layer->parameter_count;
    for (size_t i = layer->parameter; i < last; i++) {
        const size_t end = parameters[i].offset + parameters[i].count, next = model_parameter_end(description, i);
        if (end < next)
            device->fill(device, next - end, 0, pass_at(pass, pass->gradients, end));
    }
    for (size_t i = last; ready && i-- > layer->parameter;)
        ready(context, i);
}

/* Set the gradients of a layer without a backward pass to 0, including a tied table's, which has the head's. */
static void pass_over(const struct pass *pass, const struct layer *layer, model_ready ready, void *context)
{
    for (size_t i = layer->parameter; i < layer->parameter + layer->parameter_count; i++)
        pass->device->fill(pass->device, pass->description->parameters[i].count, 0,
                           pass_tensor(pass, pass->gradients, i));
    report_ready(pass, layer, ready, context);
}

weft_status model_backward(struct model *model, const void *parameters, void *gradients, model_ready ready,
                           void *context, struct error *error)
{
    if (!model->prepared)
        return error_set(error, WEFT_ERROR_STATE, "a backward pass needs a forward pass of its own before it");
    model->prepared = false;
    struct pass pass = pass_of(model, parameters);
    pass.gradients = gradients;
    pass.prepare = true;
    model_drop(model, &pass, model->seed, model->sample);
    for (size_t i = model->description->layer_count; i-- > 0;) {
        const struct layer *layer = &model->description->layers[i];
        if (is_passed_over(model, i)) {
            if (layer->parameter_count)
                pass_over(&pass, layer, ready, context);
            continue;
        }
        show_begin(model, i, MODEL_BACKWARD);
        if (is_recomputed(model, i))
            layer_forward(model, &pass, i);
        layer->kind->backward(layer, &pass, &model->places[i], model->x[i], model->gradient);
        show_gradient(model, &pass, i);
        if (layer->parameter_count)
            report_ready(&pass, layer, ready, context);
    }
    return model->device->finish(model->device, error);
}

void model_watch(struct model *model, model_watcher watcher, void *context)
{
    model->watcher = watcher;
    model->watcher_context = context;
}

/* ---- accessors ---- */

const struct model_description *model_get_description(const struct model *model)
{
    return model->description;
}

struct device *model_get_device(const struct model *model)
{
    return model->device;
}

size_t model_get_batch(const struct model *model)
{
    return model->options.batch;
}

size_t model_get_sequence(const struct model *model)
{
    return model->options.sequence;
}
