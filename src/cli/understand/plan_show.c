/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan show`: which rank is where, the stages of its layers, and the schedule of a step, without running it. */
#include "cli/understand/plan_show.h"

#include "base/file/named_output.h"
#include "base/format/json_put.h"
#include "cli/train/training.h"
#include "cli/understand/placement.h"
#include "training/model/file/model_file.h"
#include "training/parallel/execute/costs.h"
#include "training/parallel/execute/step_plan.h"
#include "training/parallel/step/show.h"
#include "training/simulate/step_trace.h"
#include "training/train/loop/parallel_choice.h"

#include <inttypes.h>
#include <stdlib.h>

static struct {
    struct placement_options on;
    struct training_mesh mesh;
    struct training_recompute recompute;
    struct train_config config;
    const char *from, *task, *optimizer, *precision, *svg;
    bool measure, operations, json;
} chosen;

static const struct cli_option show_options[] = {
    CLI_GROUP("Training, as for weft train"),
    TRAINING_PLANNED_OPTIONS(chosen.config.model, chosen.from, chosen.task),
    CLI_INTEGER("batch", 'b', "N", &chosen.config.batch, "32", 1, 1e9, "sequences in a global batch, over all ranks"),
    CLI_INTEGER("micro-batch", 0, "N", &chosen.config.micro_batch, "4", 1, 1e6,
                "sequences in one forward and backward pass"),
    CLI_INTEGER("sequence", 0, "N", &chosen.config.sequence, "0", 0, 1000000, "tokens in a sequence",
                .default_text = "the model's context"),
    TRAINING_MESH_OPTIONS(chosen.mesh),
    CLI_CHOICE("optimizer", 0, "NAME", &chosen.optimizer, "adamw", optimizer_names, "the optimizer", .advanced = true),
    TRAINING_RECOMPUTE_OPTIONS(chosen.recompute),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "with --measure: type of products and activations", .advanced = true),

    CLI_GROUP("Ranks"),
    PLACEMENT_OPTIONS(chosen.on),

    CLI_GROUP("Output"),
    CLI_FLAG("measure", 0, &chosen.measure, "measure what layers cost on this machine, as weft train does",
             .default_text = "their operations are counted"),
    CLI_FLAG("operations", 0, &chosen.operations, "print the operations of a step, for every rank of the pipeline"),
    CLI_TEXT("svg", 0, "FILE", &chosen.svg, NULL, "draw the timeline of a step to FILE as SVG; -: standard output"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
};

/* A run that is looked at: everything that the output is made from. */
struct plan_view {
    const struct train_config *config;
    struct model_description *description;
    struct placement placement;
    struct parallel_choice choice;
    struct step_plan step;
    double *costs;    /* as measured; NULL: they are not */
    uint32_t *points; /* of each rank */
};

static struct micro_batch_share share_of_rank(const struct plan_view *view, uint32_t rank)
{
    const struct micro_batch_division division = parallel_choice_division(&view->choice);
    return micro_batch_share_of(view->choice.zero, &division, view->points[rank * MESH_AXES + MESH_DATA]);
}

/* ---- as text ---- */

/* "0-3", or "1, 4, 7" where they are not neighbors. */
static void view_print_share(const struct micro_batch_share *share, FILE *output)
{
    if (share->stride == 1 && share->count > 1) {
        fprintf(output, "%u-%u\n", share->first, share->first + share->count - 1);
        return;
    }
    for (uint32_t i = 0; i < share->count; i++)
        fprintf(output, "%s%u", i ? ", " : "", share->first + i * share->stride);
    fputc('\n', output);
}

static void view_print_ranks(const struct plan_view *view, FILE *output)
{
    char text[MESH_TEXT_BYTES];
    fprintf(output, "\nplacement, closest neighbors first: %s\n", mesh_placement_print(&view->choice.placement, text));
    fprintf(output, "%6s %6s %6s %9s %7s  %s\n", "rank", "node", "data", "pipeline", "tensor",
            "micro-batches of a step");
    for (uint32_t rank = 0; rank < view->placement.ranks; rank++) {
        const uint32_t *point = view->points + (size_t)rank * MESH_AXES;
        const struct micro_batch_share share = share_of_rank(view, rank);
        fprintf(output, "%6u %6u %6u %9u %7u  ", rank, view->placement.map.nodes[rank], point[MESH_DATA],
                point[MESH_PIPELINE], point[MESH_TENSOR]);
        view_print_share(&share, output);
    }
}

static const char *unit_name(const struct plan_view *view, uint32_t unit)
{
    struct model_layer layer;
    const struct model_options options = {.batch = 1, .sequence = 1};
    model_get_layer(view->description, unit, WEFT_F32, WEFT_F32, &options, &layer);
    return layer.name;
}

static void view_print_stages(const struct plan_view *view, FILE *output)
{
    const struct step_plan *step = &view->step;
    fprintf(output, "\n%6s %9s %6s %6s  %s\n", "stage", "pipeline", "layers", "cost", "from layer to layer");
    for (uint32_t stage = 0; stage < step->shape.stages; stage++) {
        const uint32_t first = step->first_unit[stage], last = step->first_unit[stage + 1] - 1;
        fprintf(output, "%6u %9u %6u %5.1f%%  %s", stage, step_plan_rank_of(step, stage), last - first + 1,
                100 * step_plan_share_of(step, stage), unit_name(view, first));
        fprintf(output, last > first ? " to %s\n" : "\n", unit_name(view, last));
    }
}

static void view_print_step(const struct plan_view *view, FILE *output)
{
    const struct step_plan *step = &view->step;
    size_t operations = 0;
    for (uint32_t rank = 0; rank < step->shape.pipeline; rank++)
        operations += step->schedules[rank].count;
    fprintf(output, "\na step: %zu operations on %u rank%s of the pipeline, proved; ", operations, step->shape.pipeline,
            step->shape.pipeline == 1 ? "" : "s");
    if (view->costs)
        fprintf(output, "%.3f ms as measured", step->times.seconds * 1e3);
    else
        fprintf(output, "%.3f ms at %.0f GFLOP/s a rank", step->times.seconds * 1e3, STEP_PLAN_RATE * 1e-9);
    fprintf(output, " and without the time of messages; bubble %.1f%%\n", 100 * step->bubble);
}

static weft_status view_print_operations(const struct plan_view *view, FILE *output, struct error *error)
{
    struct buffer text = {0};
    for (uint32_t rank = 0; rank < view->step.shape.pipeline; rank++) {
        buffer_put_string(&text, "\n");
        step_print(&view->step.schedules[rank], &text);
    }
    const char *string = buffer_string(&text);
    if (string)
        fputs(string, output);
    buffer_free(&text);
    return string ? WEFT_OK : error_memory(error, 0, "the operations of a step");
}

static weft_status view_print(const struct plan_view *view, FILE *output, struct error *error)
{
    const struct train_config *config = view->config;
    const uint32_t data = view->choice.mesh.extent[MESH_DATA], total = view->choice.micro_batches;
    char text[PARALLEL_CHOICE_TEXT_BYTES];
    fprintf(output,
            "%s: %s on %u node%s; a step is %u micro-batch%s of %" PRId64 " x %" PRId64 " tokens, %u%s a rank\n",
            config->model, parallel_choice_describe(&view->choice, text), view->placement.map.node_count,
            view->placement.map.node_count == 1 ? "" : "s", total, total == 1 ? "" : "es", config->micro_batch,
            config->sequence, (total + data - 1) / data, total % data ? " at most" : "");
    view_print_ranks(view, output);
    view_print_stages(view, output);
    view_print_step(view, output);
    return chosen.operations ? view_print_operations(view, output, error) : WEFT_OK;
}

/* ---- as JSON ---- */

static void put_ranks(struct json_writer *writer, const struct plan_view *view)
{
    json_open_array(writer, "ranks");
    for (uint32_t rank = 0; rank < view->placement.ranks; rank++) {
        const uint32_t *point = view->points + (size_t)rank * MESH_AXES;
        const struct micro_batch_share share = share_of_rank(view, rank);
        json_open_object(writer, NULL);
        JSON_PUT(writer, "rank", rank, "node", view->placement.map.nodes[rank], "data", point[MESH_DATA], "pipeline",
                 point[MESH_PIPELINE], "tensor", point[MESH_TENSOR], "first_micro_batch", share.first,
                 "micro_batch_stride", share.stride, "micro_batches", share.count);
        json_close(writer);
    }
    json_close(writer);
}

static void put_stages(struct json_writer *writer, const struct plan_view *view)
{
    const struct step_plan *step = &view->step;
    json_open_array(writer, "stages");
    for (uint32_t stage = 0; stage < step->shape.stages; stage++) {
        json_open_object(writer, NULL);
        JSON_PUT(writer, "pipeline", step_plan_rank_of(step, stage), "cost_share", step_plan_share_of(step, stage));
        json_open_array(writer, "layers");
        for (uint32_t unit = step->first_unit[stage]; unit < step->first_unit[stage + 1]; unit++)
            json_put_text(writer, NULL, unit_name(view, unit));
        json_close(writer);
        json_close(writer);
    }
    json_close(writer);
}

/* A member that does not apply to the operation is left out. */
static void put_place(struct json_writer *writer, const char *key, uint32_t number)
{
    if (number != STEP_NONE)
        json_put_unsigned(writer, key, number);
}

static void put_operations(struct json_writer *writer, const struct step_plan *step)
{
    json_open_array(writer, "schedules");
    for (uint32_t rank = 0; rank < step->shape.pipeline; rank++) {
        const struct step_schedule *schedule = &step->schedules[rank];
        json_open_object(writer, NULL);
        JSON_PUT(writer, "pipeline", rank, "slots", schedule->slots, "inputs", schedule->inputs, "gathered",
                 schedule->gathered);
        json_open_array(writer, "operations");
        for (size_t i = 0; i < schedule->count; i++) {
            const struct step_operation *operation = &schedule->operations[i];
            json_open_object(writer, NULL);
            json_put_text(writer, "kind", step_operation_name(operation->kind));
            put_place(writer, "stage", operation->stage);
            put_place(writer, "layer", operation->unit);
            put_place(writer, "micro_batch", operation->micro_batch);
            JSON_PUT(writer, "begin_ms", step->times.begin[rank][i] * 1e3, "end_ms", step->times.end[rank][i] * 1e3);
            json_close(writer);
        }
        json_close(writer);
        json_close(writer);
    }
    json_close(writer);
}

static weft_status view_print_json(const struct plan_view *view, FILE *output, struct error *error)
{
    const struct parallel_choice *choice = &view->choice;
    const struct step_plan *step = &view->step;
    char placement[MESH_TEXT_BYTES];
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "model", view->config->model);
    JSON_PUT_OBJECT(&writer, "mesh", "data", choice->mesh.extent[MESH_DATA], "pipeline",
                    choice->mesh.extent[MESH_PIPELINE], "tensor", choice->mesh.extent[MESH_TENSOR]);
    JSON_PUT(&writer, "placement", mesh_placement_print(&choice->placement, placement), "nodes",
             view->placement.map.node_count, "pipeline_schedule", step_pipeline_name(choice->schedule), "zero",
             choice->zero, "micro_batches", choice->micro_batches, "measured", (bool)(view->costs != NULL), "step_ms",
             step->times.seconds * 1e3, "bubble_share", step->bubble);
    put_ranks(&writer, view);
    put_stages(&writer, view);
    if (chosen.operations)
        put_operations(&writer, step);
    return json_complete(&writer, output, error);
}

/* ---- the view ---- */

static weft_status measure_costs(struct plan_view *view, const struct model_options *options, struct error *error)
{
    const size_t layers = view->description->layer_count;
    struct device *device;
    view->costs = calloc(layers, sizeof *view->costs);
    if (!view->costs)
        return error_memory(error, layers * sizeof *view->costs, "the costs of layers");
    weft_status status = device_open(device_cpu_name(training_type_of(chosen.precision)), 1, &device, error);
    if (status != WEFT_OK)
        return status;
    status = costs_measure(view->description, device, options, view->costs, error);
    device->close(device);
    return status;
}

/* Choose as weft train does, for ranks that do not run. */
static weft_status plan_view_open(struct plan_view *view, struct error *error)
{
    struct parallel_choice *choice = &view->choice;
    const struct train_config *config = view->config;
    weft_status status = placement_open(&view->placement, &chosen.on, error);
    if (status == WEFT_OK)
        status = parallel_choice_of(config, view->description, view->placement.ranks, choice, error);
    if (status == WEFT_OK)
        status = parallel_choice_place(config, view->description, view->placement.map.nodes, choice, error);
    if (status == WEFT_OK && !(view->points = calloc((size_t)view->placement.ranks * MESH_AXES, sizeof *view->points)))
        status = error_memory(error, view->placement.ranks * sizeof *view->points, "the places of the ranks");
    if (status == WEFT_OK)
        status = mesh_place(&choice->mesh, &choice->placement, view->placement.map.nodes, view->points, error);
    struct executor_config executor = parallel_choice_executor(config, choice);
    executor.description = view->description;
    executor.model.sparse_table = executor_wants_sparse_table(&executor);
    if (status == WEFT_OK)
        status = model_check_options(view->description, &executor.model, error);
    if (status == WEFT_OK && chosen.measure)
        status = measure_costs(view, &executor.model, error);
    if (status == WEFT_OK && choice->mesh.extent[MESH_TENSOR] > 1) /* all its ranks cost the same */
        status = model_divide(view->description, choice->mesh.extent[MESH_TENSOR], 0, error);
    executor.costs = view->costs;
    return status == WEFT_OK ? step_plan_open(&executor, &view->step, error) : status;
}

static void plan_view_close(struct plan_view *view)
{
    step_plan_close(&view->step);
    placement_close(&view->placement);
    free(view->costs);
    free(view->points);
    model_description_free(view->description);
}

static weft_status plan_show_run(struct command_call *call, struct error *error)
{
    struct train_config *config = &chosen.config;
    struct plan_view view = {.config = config};
    weft_status status = training_planned_shape(chosen.from, chosen.task, config, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &view.description, error);
    if (status != WEFT_OK)
        return status;
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    config->optimizer.kind = (enum optimizer_kind)cli_choice_index(chosen.optimizer, optimizer_names);
    training_recompute_apply(&chosen.recompute, config);
    training_mesh_apply(&chosen.mesh, config);
    status = plan_view_open(&view, error);
    if (status == WEFT_OK && chosen.svg)
        status = step_draw_file(&view.step.shape, view.step.schedules, &view.step.times, chosen.svg, error);
    const bool quiet = chosen.svg && named_output_is_standard(chosen.svg);
    if (status == WEFT_OK && !quiet)
        status = chosen.json ? view_print_json(&view, call->output, error) : view_print(&view, call->output, error);
    plan_view_close(&view);
    return status;
}

const struct command command_plan_show = {
    .name = "show",
    .summary = "show how a run would be spread over its ranks, without running it",
    .description =
        "Takes the options of weft train that spread a run over ranks, and prints which rank is where, the micro-batches "
        "that it computes, the layers of each pipeline stage, and the schedule of a step, which is proved first. The "
        "ranks do not run.\n\n"
        "The timeline shows when ranks compute; messages between them take no time in it. Without --measure, stages "
        "are balanced by numbers of operations. weft train measures layers, so it may cut a network elsewhere.",
    .examples = "weft plan show --ranks 4 --mesh data=2,pipeline=2 --zero 1\n"
                "weft plan show --ranks 4 --mesh pipeline=4 --pipeline-schedule zb-h1 --svg step.svg\n"
                "weft plan show --ranks 8 --nodes 2 --mesh data=4,pipeline=2 --model gpt2 --json\n",
    COMMAND_OPTIONS(show_options),
    .run = plan_show_run,
};
