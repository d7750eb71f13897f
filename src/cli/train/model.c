/* SPDX-License-Identifier: Apache-2.0 */
/* `weft model`: the named networks, and the layers, parameters and costs of one. */
#include "cli/train/training.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "training/model/file/model_file.h"
#include "training/model/shape.h"
#include "training/parallel/execute/memory.h"

#include <inttypes.h>

static struct {
    int64_t batch, sequence;
    const char *precision;
    bool json, brief;
} chosen;

/* ---- show ---- */

/* Bytes that training takes on one rank. */
struct train_model_totals {
    uint64_t weights, gradients, moments, activations, sum;
};

/* A network, and how it would be trained. */
struct train_model_view {
    const char *name;
    struct model_description *description;
    struct model_options options;
    weft_type activations;
    double tokens; /* of a micro-batch */
    struct train_model_totals totals;
};

static void view_layer(const struct train_model_view *view, size_t number, struct model_layer *layer)
{
    model_get_layer(view->description, number, WEFT_F32, view->activations, &view->options, layer);
}

/* A run's own prediction, for steps of one micro-batch. */
static weft_status find_totals(const struct train_model_view *view, struct train_model_totals *totals,
                               struct error *error)
{
    static const uint32_t alone[MESH_AXES];
    struct device *device;
    struct executor_memory memory;
    weft_status status = device_open(device_cpu_name(view->activations), 1, &device, error);
    if (status != WEFT_OK)
        return status;
    const struct executor_config config = {.device = device,
                                           .description = view->description,
                                           .model = view->options,
                                           .optimizer = {.kind = OPTIMIZER_ADAMW},
                                           .mesh = {.extent = {1, 1, 1}},
                                           .schedule = STEP_1F1B,
                                           .micro_batches = 1,
                                           .gradients = WEFT_F32};
    status = executor_memory_of(&config, alone, NULL, &memory, error);
    device->close(device);
    if (status != WEFT_OK)
        return status;
    *totals = (struct train_model_totals){.weights = memory.weights,
                                          .gradients = memory.gradients + memory.table_rows,
                                          .moments = memory.optimizer,
                                          .activations = memory.activations + memory.rows + memory.copy,
                                          .sum = executor_memory_total(&memory)};
    return WEFT_OK;
}

/* "256 x 48", "48" */
static char *shape_of_parameter(const struct model_parameter *parameter, char *text, size_t size)
{
    int length = snprintf(text, size, "%zu", parameter->shape[0]);
    for (size_t d = 1; d < parameter->dimensions; d++)
        length += snprintf(text + length, size - (size_t)length, " x %zu", parameter->shape[d]);
    return text;
}

static void print_parameters(const struct train_model_view *view, const struct model_layer *layer, FILE *output)
{
    for (size_t i = layer->parameter; i < layer->parameter + layer->parameter_count; i++) {
        const struct model_parameter *parameter = &view->description->parameters[i];
        char shape[96], begins[64];
        if (parameter->deviation > 0)
            snprintf(begins, sizeof begins, "normal, deviation %.3g", parameter->deviation);
        else
            snprintf(begins, sizeof begins, "%g", parameter->mean);
        fprintf(output, "    %-48s %-16s %s%s\n", parameter->name, shape_of_parameter(parameter, shape, sizeof shape),
                begins,
                parameter->decay       ? ", weight decay"
                : parameter->statistic ? ", running statistic"
                                       : "");
    }
}

/* What a row between two layers is of. */
static const char *row_name(const struct train_model_view *view)
{
    return view->description->shape.image ? "an image" : "a token";
}

static void model_print_totals(const struct train_model_view *view, FILE *output)
{
    const struct model_description *description = view->description;
    const struct train_model_totals totals = view->totals;
    const double flops = model_flops_per_token(description, view->options.sequence);
    char weights[32], gradients[32], moments[32], activations[32], sum[32];
    fprintf(output, "\n%zu parameters; %.0f operations to train on %s, a third of them forward\n", description->weights,
            flops, row_name(view));
    const bool halves = view->activations != WEFT_F32;
    fprintf(output, "memory to train, micro-batches of %zu ", view->options.batch);
    if (description->shape.image)
        fprintf(output, "images");
    else
        fprintf(output, "x %zu tokens", view->options.sequence);
    fprintf(output, " in %s: %s\n", chosen.precision, text_bytes(totals.sum, sum, sizeof sum));
    fprintf(output, "  weights %s, gradients %s, AdamW's moments %s, activations and scratch%s%s%s %s\n",
            text_bytes(totals.weights, weights, sizeof weights),
            text_bytes(totals.gradients, gradients, sizeof gradients),
            text_bytes(totals.moments, moments, sizeof moments), halves ? " (with the weights in " : "",
            halves ? weft_type_name(view->activations) : "", halves ? ")" : "",
            text_bytes(totals.activations, activations, sizeof activations));
}

static void print_view(const struct train_model_view *view, FILE *output)
{
    const struct model_shape *shape = &view->description->shape;
    char text[SHAPE_TEXT_BYTES];
    fprintf(output, "%s: kind %s, %s\n\n", view->name, shape->kind, shape_text(shape, text));
    fprintf(output, "%-40s %-12s %8s %12s %14s %14s %12s %12s\n", "", "", "elements", "", "operations", "operations",
            "bytes kept", "scratch");
    fprintf(output, "%-40s %-12s %8s %12s %14s %14s %12s %12s\n", "layer", "kind", row_name(view), "parameters",
            "forward", "backward", row_name(view), row_name(view));
    for (size_t i = 0; i < view->description->layer_count; i++) {
        struct model_layer layer;
        view_layer(view, i, &layer);
        fprintf(output, "%-40s %-12s %8zu %12zu %14.0f %14.0f %12.0f %12.0f\n", layer.name, layer.kind,
                layer.width      ? layer.width
                : shape->classes ? shape->classes
                                 : shape->vocabulary,
                layer.weights, layer.flops, 2 * layer.flops, (double)layer.kept / view->tokens,
                (double)layer.scratch / view->tokens);
        if (!chosen.brief)
            print_parameters(view, &layer, output);
    }
    model_print_totals(view, output);
}

static void put_shape(struct json_writer *writer, const struct model_shape *shape)
{
    json_open_object(writer, "shape");
    json_put_text(writer, "kind", shape->kind);
    for (size_t i = 0; i < shape_number_count; i++) {
        const double value = shape_number_get(shape, &shape_numbers[i]);
        if (shape_numbers[i].kind == SHAPE_FLAG)
            json_put_bool(writer, shape_numbers[i].name, value != 0);
        else if (value != 0)
            json_put_number(writer, shape_numbers[i].name, value);
    }
    json_close(writer);
}

static void put_layer(struct json_writer *writer, const struct train_model_view *view, const struct model_layer *layer)
{
    json_open_object(writer, NULL);
    JSON_PUT(writer, "name", layer->name, "kind", layer->kind, "width", layer->width, "parameters", layer->weights,
             "forward_flops", layer->flops, "backward_flops", 2 * layer->flops, "kept_bytes", layer->kept,
             "scratch_bytes", layer->scratch);
    json_open_array(writer, "tensors");
    for (size_t i = layer->parameter; i < layer->parameter + layer->parameter_count; i++) {
        const struct model_parameter *parameter = &view->description->parameters[i];
        json_open_object(writer, NULL);
        json_put_text(writer, "name", parameter->name);
        json_open_array(writer, "shape");
        for (size_t d = 0; d < parameter->dimensions; d++)
            json_put_unsigned(writer, NULL, parameter->shape[d]);
        json_close(writer);
        JSON_PUT(writer, "initial_mean", parameter->mean, "initial_deviation", parameter->deviation, "decay",
                 parameter->decay);
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
}

static weft_status model_print_json(const struct train_model_view *view, FILE *output, struct error *error)
{
    const struct model_description *description = view->description;
    const struct train_model_totals totals = view->totals;
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "model", view->name);
    put_shape(&writer, &description->shape);
    JSON_PUT(&writer, "batch", view->options.batch, "sequence", view->options.sequence, "precision", chosen.precision,
             "parameters", description->weights, "flops_per_token",
             model_flops_per_token(description, view->options.sequence));
    JSON_PUT_OBJECT(&writer, "memory_bytes", "weights", totals.weights, "gradients", totals.gradients, "moments",
                    totals.moments, "activations", totals.activations, "total", totals.sum);
    json_open_array(&writer, "layers");
    for (size_t i = 0; i < description->layer_count; i++) {
        struct model_layer layer;
        view_layer(view, i, &layer);
        put_layer(&writer, view, &layer);
    }
    return json_complete(&writer, output, error);
}

static weft_status model_run_show(struct command_call *call, struct error *error)
{
    struct model_shape shape;
    struct train_model_view view = {.name = call->words[0], .activations = training_type_of(chosen.precision)};
    weft_status status = model_shape_load(view.name, &shape, error);
    if (status == WEFT_OK)
        status = model_describe(&shape, &view.description, error);
    if (status != WEFT_OK)
        return status;
    view.options = (struct model_options){.batch = (size_t)chosen.batch,
                                          .sequence = chosen.sequence ? (size_t)chosen.sequence : shape.context,
                                          .training = true};
    view.tokens = (double)view.options.batch * (double)view.options.sequence;
    status = model_check_options(view.description, &view.options, error);
    if (status == WEFT_OK)
        status = find_totals(&view, &view.totals, error);
    if (status == WEFT_OK && chosen.json)
        status = model_print_json(&view, call->output, error);
    else if (status == WEFT_OK)
        print_view(&view, call->output);
    model_description_free(view.description);
    return status;
}

static const struct cli_option show_options[] = {
    CLI_INTEGER("batch", 'b', "N", &chosen.batch, "1", 1, 1e6, "sequences in a micro-batch"),
    CLI_INTEGER("sequence", 0, "N", &chosen.sequence, "0", 0, 16777216, "tokens in a sequence",
                .default_text = "the model's context"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations; weights and sums are always f32"),
    CLI_FLAG("short", 's', &chosen.brief, "layers only, without their parameters"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object; its bytes are those of the whole micro-batch"),
};

static const struct command command_model_show = {
    .name = "show",
    .summary = "show the layers of a network, their parameters and what they cost",
    .description =
        "NAME is a size by name (weft model list) or, with a slash or ending in .yaml or .yml, a file that "
        "describes a network: \"kind: llama\" (gpt, llama, mlp, bert, mobilenet-v1, mobilenet-v2, resnet) or \"like: gpt2\", which starts from that size, "
        "then the numbers that weft train has options for: layers, heads, kv_heads, width, hidden, window, "
        "context, vocabulary; and rotary_base, norm_epsilon, untied; of a bert also classes. Networks of images have layers (resnet), image "
        "(height and width, pixels), channels, classes, multiplier and norm_epsilon. Values that have a default may be left "
        "out.\n\n"
        "Operations are floating-point operations per token or image. Bytes are those needed to train one micro-batch, "
        "divided by its tokens or images. Layers share their scratch memory.",
    .examples = "weft model show gpt2 --short\nweft model show mlp-micro --batch 4\n"
                "weft model show ./model.yaml --json\n",
    .words = "NAME",
    COMMAND_OPTIONS(show_options),
    .run = model_run_show,
};

/* ---- list ---- */

static weft_status model_run_list(struct command_call *call, struct error *error)
{
    size_t count;
    const struct model_size *sizes = model_sizes(&count);
    struct json_writer writer;
    weft_status status = WEFT_OK;
    json_begin(&writer, JSON_INDENTED);
    json_open_array(&writer, NULL);
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        struct model_description *description;
        status = model_describe(&sizes[i].shape, &description, error);
        if (status != WEFT_OK)
            break;
        if (!chosen.json)
            fprintf(call->output, "%-18s %-12s %11zu  %s\n", sizes[i].name, sizes[i].shape.kind, description->weights,
                    sizes[i].about);
        json_open_object(&writer, NULL);
        JSON_PUT(&writer, "name", sizes[i].name, "parameters", description->weights);
        put_shape(&writer, &description->shape);
        json_put_text(&writer, "about", sizes[i].about);
        json_close(&writer);
        model_description_free(description);
    }
    json_close(&writer);
    if (status == WEFT_OK && chosen.json)
        status = json_print(&writer, call->output, error);
    json_end(&writer);
    return status;
}

static const struct cli_option list_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "print a JSON array, with the numbers of each"),
};

static const struct command command_model_list = {
    .name = "list",
    .summary = "show the networks that have names, and how many parameters they have",
    .examples = "weft model list\n",
    COMMAND_OPTIONS(list_options),
    .run = model_run_list,
};

const struct command command_model = {
    .name = "model",
    .group = COMMAND_UNDERSTAND,
    .summary = "show networks: sizes, layers, parameters, costs",
    COMMAND_SUBCOMMANDS(&command_model_list, &command_model_show),
};
