/* SPDX-License-Identifier: Apache-2.0 */
/* `weft sim train`: a training step on a described cluster, in virtual time. */
#include "cli/understand/simulate/sim_train.h"

#include "base/file/named_output.h"
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/train/training.h"
#include "cli/understand/simulate/disturbance.h"
#include "training/model/file/model_file.h"
#include "training/plan/planning.h"
#include "training/plan/run/layer_times.h"
#include "training/plan/run/plan_file.h"
#include "training/simulate/step_simulate.h"
#include "training/simulate/step_trace.h"
#include "training/train/loop/parallel_choice.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct training_mesh mesh;
    struct training_recompute recompute;
    struct train_config config;
    const char *cluster, *plan, *optimizer, *precision, *implementation, *layer_times, *trace, *svg;
    struct disturbance_options wrong;
    int64_t ranks, threads, together;
    bool measure, unfolded, json;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT(
        "plan", 0, "FILE", &chosen.plan, NULL,
        "a plan that weft plan --save wrote: its batch, sequence, optimizer and strategy count, whatever other options say"),

    CLI_GROUP("Training, as for weft train"),
    CLI_TEXT("model", 'm', "NAME", &chosen.config.model, NULL, "a model size by name, or a YAML file",
             .default_text = "the plan's, or gpt"),
    CLI_INTEGER("batch", 'b', "N", &chosen.config.batch, "32", 1, 1e9, "sequences in a global batch, over all ranks"),
    CLI_INTEGER("global-batch", 0, "N", &chosen.config.batch, NULL, 1, 1e9, "another name of --batch"),
    CLI_INTEGER("micro-batch", 0, "N", &chosen.config.micro_batch, "4", 1, 1e6,
                "sequences in one forward and backward pass"),
    CLI_INTEGER("sequence", 0, "N", &chosen.config.sequence, "0", 0, 1000000, "tokens in a sequence",
                .default_text = "the model's context"),
    TRAINING_MESH_OPTIONS(chosen.mesh),
    CLI_BYTES("bucket", 0, "BYTES", &chosen.config.bucket_bytes, "1M", "bytes of gradients fused into one all-reduce",
              .advanced = true),
    CLI_CHOICE("optimizer", 0, "NAME", &chosen.optimizer, "adamw", optimizer_names, "the optimizer", .advanced = true),
    TRAINING_RECOMPUTE_OPTIONS(chosen.recompute),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations"),
    CLI_TEXT("implementation", 0, "NAME", &chosen.implementation, NULL,
             "another training system ('megatron-2022'): its number formats, kernels and what it overlaps; "
             "--precision is ignored",
             .default_text = "weft train", .advanced = true),

    CLI_GROUP("Ranks"),
    CLI_TEXT("cluster", 'c', "NAME", &chosen.cluster, NULL,
             "a cluster: a kind and a number of hosts (dgx-a100-16), or a file"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 65536, "number of ranks, host by host",
                .default_text = "all of the cluster"),
    CLI_FLAG("measure", 0, &chosen.measure, "measure what layers cost on this machine, as weft train does",
             .default_text = "the devices that the cluster describes"),
    CLI_TEXT("layer-times", 0, "FILE", &chosen.layer_times, NULL,
             "what layers take as weft profile layers has measured it, on whatever machine",
             .default_text = "the devices that the cluster describes"),
    CLI_INTEGER("threads", 0, "N", &chosen.threads, "0", 0, 4096, "with --measure: compute threads of a rank",
                .default_text = "1", .advanced = true),
    CLI_INTEGER("together", 0, "N", &chosen.together, "0", 0, 4096,
                "with --measure: how many ranks compute at the same time", .default_text = "those of a host",
                .advanced = true),

    CLI_GROUP("Disturbances"),
    DISTURBANCE_OPTIONS(chosen.wrong),
    CLI_FLAG("unfolded", 0, &chosen.unfolded, "simulate every rank by itself; the result is the same",
             .default_text = "ranks that cannot differ are simulated once", .advanced = true),

    CLI_GROUP("Output"),
    CLI_TEXT("trace", 0, "FILE", &chosen.trace, NULL,
             "write the timeline of all ranks as Chrome trace events (chrome://tracing, ui.perfetto.dev)"),
    CLI_TEXT("svg", 0, "FILE", &chosen.svg, NULL,
             "draw the timeline of the pipeline that rank 0 is in to FILE as SVG; -: standard output"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
};

/* A step that is simulated: everything that the output is made from. */
struct simulated_view {
    const struct train_config *config;
    struct model_description *description;
    struct planning planning;
    struct plan plan; /* with --plan */
    struct strategy_words words;
    struct parallel_choice choice;
    struct step_perturbation perturbation;
    struct machine_costs machine;     /* with measured layers */
    double (*measured)[COSTS_PASSES]; /* of each layer's passes on a rank; NULL: they are not */
    double *layers;                   /* their sums, for balanced stages */
    struct step_prices *prices;
    struct step_costs costs;
    struct step_result result;
};

/* ---- output ---- */

static double seconds_share(const struct step_result *result, double seconds)
{
    return result->seconds > 0 ? seconds / result->seconds : 0;
}

static void print_step_terms(const struct step_result *result, FILE *output)
{
    fprintf(output, "\n%-24s %12s %8s\n", "mean over ranks", "ms", "share");
    for (uint32_t term = 0; term < STEP_TERMS; term++)
        fprintf(output, "%-24s %12.3f %7.1f%%\n", step_term_names[term], result->terms[term] * 1e3,
                100 * seconds_share(result, result->terms[term]));
}

static void print_step_levels(const struct step_result *result, FILE *output)
{
    char text[32];
    fprintf(output, "\n%-24s %12s %20s\n", "links", "bytes", "busiest one is used");
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        if (result->bytes[level] > 0)
            fprintf(output, "%-24s %12s %19.1f%%\n", step_level_names[level],
                    text_bytes((uint64_t)result->bytes[level], text, sizeof text), 100 * result->peak[level]);
}

static void simulated_view_print(const struct simulated_view *view, FILE *output)
{
    const struct step_result *result = &view->result;
    const double tokens = (double)view->config->batch * (double)view->config->sequence;
    char text[PARALLEL_CHOICE_TEXT_BYTES];
    fprintf(output, "%s on %s: %s; micro-batches of %lld x %lld tokens, %u%s a rank\n", view->config->model,
            view->planning.planned.name, parallel_choice_describe(&view->choice, text),
            (long long)view->config->micro_batch, (long long)view->config->sequence, view->costs.shape.micro_batches,
            view->choice.shares ? " at most" : "");
    fprintf(output, "a step takes %.3f ms: %.0f tokens/s, %.1f TFLOP/s a rank\n", result->seconds * 1e3,
            tokens / result->seconds,
            model_flops_per_token(view->description, (size_t)view->config->sequence) * tokens / result->seconds /
                view->costs.ranks * 1e-12);
    fprintf(output, "%llu operations of %u kind%s of rank simulated\n", (unsigned long long)result->operations,
            result->classes, result->classes == 1 ? "" : "s");
    print_step_terms(result, output);
    print_step_levels(result, output);
}

static weft_status simulated_view_print_json(const struct simulated_view *view, FILE *output, struct error *error)
{
    const struct step_result *result = &view->result;
    const struct parallel_choice *choice = &view->choice;
    const double tokens = (double)view->config->batch * (double)view->config->sequence;
    char placement[MESH_TEXT_BYTES];
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "model", view->config->model, "cluster", view->planning.planned.name, "ranks", view->costs.ranks);
    JSON_PUT_OBJECT(&writer, "mesh", "data", choice->mesh.extent[MESH_DATA], "pipeline",
                    choice->mesh.extent[MESH_PIPELINE], "tensor", choice->mesh.extent[MESH_TENSOR]);
    JSON_PUT(&writer, "placement", mesh_placement_print(&choice->placement, placement), "pipeline_schedule",
             step_pipeline_name(choice->schedule), "zero", choice->zero, "micro_batches", choice->micro_batches,
             "step_ms", result->seconds * 1e3, "tokens_per_second", tokens / result->seconds, "classes",
             result->classes, "operations", result->operations);
    json_open_object(&writer, "terms_ms");
    for (uint32_t term = 0; term < STEP_TERMS; term++)
        json_put_number(&writer, step_term_names[term], result->terms[term] * 1e3);
    json_close(&writer);
    json_open_array(&writer, "links");
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        json_open_object(&writer, NULL);
        JSON_PUT(&writer, "level", step_level_names[level], "bytes", result->bytes[level], "busiest_share",
                 result->peak[level]);
        json_close(&writer);
    }
    json_close(&writer);
    return json_complete(&writer, output, error);
}

static weft_status write_trace(const struct simulated_view *view, struct error *error)
{
    struct named_output trace;
    weft_status status = named_output_open(&trace, chosen.trace, error);
    if (status != WEFT_OK)
        return status;
    step_trace_write(&view->costs, &view->result, trace.stream);
    return named_output_close(&trace, error);
}

static weft_status simulated_view_output(const struct simulated_view *view, FILE *output, struct error *error)
{
    weft_status status = WEFT_OK;
    if (chosen.svg)
        status = step_result_draw(&view->costs, &view->result, chosen.svg, error);
    if (status == WEFT_OK && chosen.trace)
        status = write_trace(view, error);
    if (status != WEFT_OK || (chosen.svg && named_output_is_standard(chosen.svg)) ||
        (chosen.trace && named_output_is_standard(chosen.trace)))
        return status;
    if (chosen.json)
        return simulated_view_print_json(view, output, error);
    simulated_view_print(view, output);
    return WEFT_OK;
}

/* ---- the simulation ---- */

static weft_status open_sim_cluster(struct simulated_view *view, struct error *error)
{
    struct planning *planning = &view->planning;
    if (!chosen.cluster)
        return error_set(error, WEFT_ERROR_ARGUMENT, "give the cluster: --cluster NAME");
    weft_status status = planning_describe(planning, chosen.cluster, 0, 0, error);
    return status == WEFT_OK
               ? planner_cluster_open(&planning->cluster, (uint32_t)chosen.ranks, NULL, &planning->planned, error)
               : status;
}

/* Have the configuration train by a plan, which must be for this network. */
static weft_status take_plan(struct simulated_view *view, struct train_config *config, struct error *error)
{
    if (view->plan.model_hash != plan_model_hash(view->description))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the plan '%s' is for the model '%s', which has other layers than '%s': give it with --model",
                         chosen.plan, view->plan.model, config->model);
    strategy_configure(&view->plan.strategy, &view->words, config);
    config->batch = view->plan.batch;
    config->sequence = view->plan.sequence;
    config->optimizer.kind = view->plan.optimizer;
    config->gradients = view->plan.gradients;
    chosen.ranks = mesh_ranks(&view->plan.strategy.mesh);
    return WEFT_OK;
}

static weft_status choose_strategy(struct simulated_view *view, struct error *error)
{
    const struct train_config *config = view->config;
    weft_status status =
        parallel_choice_of(config, view->description, view->planning.planned.step.ranks, &view->choice, error);
    view->choice.first_unit = view->plan.first_unit;
    view->choice.shares = view->plan.shares;
    return status == WEFT_OK ? parallel_choice_place(config, view->description, view->planning.planned.map.nodes,
                                                     &view->choice, error)
                             : status;
}

/* What the passes of all layers take: measured here, or read. */
static weft_status measure_layers(struct simulated_view *view, struct error *error)
{
    const size_t layers = view->description->layer_count;
    const struct strategy strategy = {.mesh = view->choice.mesh,
                                      .micro_batch = (uint32_t)view->config->micro_batch,
                                      .precision = view->config->activations,
                                      .sequence_parallel = view->config->sequence_parallel};
    weft_status status = WEFT_OK;
    view->machine = (struct machine_costs){.description = view->description,
                                           .sequence = (size_t)view->config->sequence,
                                           .threads = chosen.threads ? (int)chosen.threads : 1,
                                           .together = chosen.together ? (uint32_t)chosen.together
                                                                       : view->planning.planned.ranks_per_host};
    view->measured = calloc(layers, sizeof *view->measured);
    view->layers = calloc(layers, sizeof *view->layers);
    if (!view->measured || !view->layers)
        return error_memory(error, layers * sizeof *view->measured, "the times of layers");
    if (chosen.layer_times)
        status = layer_times_read(&view->machine, chosen.layer_times, error);
    if (status == WEFT_OK)
        status = machine_costs_measure(&view->machine, &strategy, view->measured, error);
    for (size_t layer = 0; layer < layers; layer++)
        view->layers[layer] = view->measured[layer][0] + view->measured[layer][1] + view->measured[layer][2];
    return status;
}

/* What goes wrong, for steps. */
static weft_status take_disturbance(struct simulated_view *view, struct error *error)
{
    struct simulated_disturbance disturbance;
    bool disturbed;
    weft_status status = disturbance_parse(&chosen.wrong, &disturbance, &disturbed, error);
    if (status == WEFT_OK && disturbance.degrade && disturbance.weak_share <= 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "--slow-link is '%s', but links do not fail in a training step: give a share above 0",
                           chosen.wrong.slow_link);
    view->perturbation = (struct step_perturbation){.seed = disturbance.seed,
                                                    .jitter = disturbance.jitter,
                                                    .slow_rank = disturbance.slow_rank,
                                                    .slow_factor = disturbance.slowdown,
                                                    .degraded_level = disturbance.weak_level,
                                                    .degraded_unit = disturbance.weak_unit,
                                                    .degraded_share = disturbance.degrade ? disturbance.weak_share : 0,
                                                    .reading = disturbance.reading,
                                                    .writing = disturbance.writing};
    return status;
}

static weft_status simulate_step(struct simulated_view *view, struct error *error)
{
    const weft_type precision = view->config->activations;
    struct device types = {.type = WEFT_F32, .activations = precision};
    struct executor_config executor = parallel_choice_executor(view->config, &view->choice);
    executor.description = view->description;
    executor.device = &types;
    executor.model.sparse_table = executor_wants_sparse_table(&executor);
    struct step_setting setting = {
        .config = &executor, .precision = step_precision_of(precision), .cluster = &view->planning.planned.step};
    const struct step_options settings = {
        .unfolded = chosen.unfolded,
        .keep_times = chosen.svg || chosen.trace,
        .perturbation = view->perturbation,
    };
    weft_status status = WEFT_OK;
    if (chosen.implementation)
        status = implementation_find(chosen.implementation, &setting.implementation, error);
    if (status == WEFT_OK)
        status = model_check_options(view->description, &executor.model, error);
    if (status == WEFT_OK && (chosen.measure || chosen.layer_times))
        status = measure_layers(view, error);
    executor.costs = view->layers;
    setting.measured = (const double(*)[COSTS_PASSES])view->measured;
    if (status == WEFT_OK)
        status = step_prices_open(&view->planning.planned.step, &view->prices, error);
    if (status == WEFT_OK)
        status = step_costs_of(&setting, view->prices, &view->costs, error);
    return status == WEFT_OK ? step_simulate(&view->costs, &settings, &view->result, error) : status;
}

static void simulated_view_close(struct simulated_view *view)
{
    step_result_free(&view->result);
    step_costs_free(&view->costs);
    step_prices_close(view->prices);
    free(view->measured);
    free(view->layers);
    machine_costs_free(&view->machine);
    planning_close(&view->planning);
    plan_free(&view->plan);
    model_description_free(view->description);
}

/* Options that would do nothing. */
static weft_status refuse_idle_options(struct error *error)
{
    if ((chosen.threads || chosen.together) && !chosen.measure)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--%s is for --measure, which is not given",
                         chosen.threads ? "threads" : "together");
    if (chosen.measure && chosen.layer_times)
        return error_set(error, WEFT_ERROR_ARGUMENT, "give one of --measure and --layer-times, not both");
    if ((chosen.measure || chosen.layer_times) && chosen.implementation)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--%s has the layers of weft train, not those of '%s': leave it or --implementation out",
                         chosen.measure ? "measure" : "layer-times", chosen.implementation);
    return WEFT_OK;
}

static weft_status sim_train_run(struct command_call *call, struct error *error)
{
    struct train_config *config = &chosen.config;
    struct simulated_view view = {.config = config};
    weft_status status = refuse_idle_options(error);
    if (status == WEFT_OK && chosen.plan)
        status = plan_load(chosen.plan, &view.plan, error);
    if (!config->model)
        config->model = chosen.plan ? view.plan.model : "gpt";
    if (status == WEFT_OK)
        status = model_shape_load(config->model, &config->shape, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &view.description, error);
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    config->optimizer.kind = (enum optimizer_kind)cli_choice_index(chosen.optimizer, optimizer_names);
    training_recompute_apply(&chosen.recompute, config);
    config->activations = training_type_of(chosen.precision);
    training_mesh_apply(&chosen.mesh, config);
    if (status == WEFT_OK && chosen.plan)
        status = take_plan(&view, config, error);
    if (status == WEFT_OK && config->recompute_layers && chosen.implementation)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "--recompute-layers is for weft train, and '%s' recomputes in all layers: leave one of them "
                           "out",
                           chosen.implementation);
    if (status == WEFT_OK)
        status = take_disturbance(&view, error);
    if (status == WEFT_OK)
        status = open_sim_cluster(&view, error);
    if (status == WEFT_OK)
        status = choose_strategy(&view, error);
    if (status == WEFT_OK)
        status = simulate_step(&view, error);
    if (status == WEFT_OK)
        status = simulated_view_output(&view, call->output, error);
    simulated_view_close(&view);
    return status;
}

const struct command command_sim_train = {
    .name = "train",
    .summary = "simulate a training step on a described cluster",
    .description =
        "Executes the operations that weft train would execute in a step, on all ranks of a described cluster, in virtual "
        "time: passes at the speed of the devices, collectives as the tuner would choose them, messages and collectives "
        "that share links at their fair shares, messages of several pipelines one after the other. Nothing is computed.\n\n"
        "The terms are means over the ranks and add up to the step: a rank computes, repeats forward passes "
        "(recomputation), waits for passes of other ranks (bubble), for collectives within layers (tensor), for messages "
        "that are under way (pipeline), for collectives over the data axis (data), or is busy with the norm and the "
        "optimizer.",
    .examples =
        "weft sim train --model gpt2-large --cluster dgx-a100-2 --mesh data=4,pipeline=2,tensor=2 --batch 64 --precision "
        "bf16\n"
        "weft sim train --model gpt2-xl --cluster dgx-a100-2 --mesh data=16 --zero 2 --micro-batch 1 --batch 64 --trace step.json\n",
    COMMAND_OPTIONS(options),
    .run = sim_train_run,
};
