/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan`: the best way to train a model on a cluster, its predicted time, and why. */
#include "cli/understand/plan_print.h"
#include "cli/understand/plan_show.h"

#include "base/clock.h"
#include "base/file/named_output.h"
#include "cli/train/training.h"
#include "training/model/file/model_file.h"
#include "training/plan/planning.h"
#include "training/plan/run/layer_times.h"
#include "training/plan/run/plan_file.h"
#include "training/simulate/step_trace.h"

#include <stdlib.h>
#include <string.h>

static const char *const any_precision[] = {"any", "f32", "bf16", "f16", NULL};

static struct {
    struct train_config config;
    const char *from, *task, *cluster, *precision, *optimizer, *gradients, *save, *svg, *curve;
    int64_t ranks, nodes, show, prices, together;
    double gap;
    bool json, measure;
    const char *layer_times;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Training, as for weft train"),
    TRAINING_PLANNED_OPTIONS(chosen.config.model, chosen.from, chosen.task),
    CLI_INTEGER("batch", 'b', "N", &chosen.config.batch, "0", 0, 1e6, "sequences in a global batch",
                .default_text = "32"),
    CLI_INTEGER("global-batch", 0, "N", &chosen.config.batch, NULL, 1, 1e6, "another name of --batch",
                .advanced = true),
    CLI_INTEGER("sequence", 0, "N", &chosen.config.sequence, "0", 0, 1e6, "tokens in a sequence",
                .default_text = "the model's context"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, NULL, any_precision, "type of products and activations",
               .default_text = "f32 on this machine; any that the cluster's devices have"),
    CLI_CHOICE("optimizer", 0, "NAME", &chosen.optimizer, "adamw", optimizer_names, "the optimizer", .advanced = true),
    CLI_CHOICE("gradients", 0, "TYPE", &chosen.gradients, "f32", training_gradients,
               "type in which gradients are summed", .advanced = true),

    CLI_TEXT("steps-curve", 0, "FILE", &chosen.curve, NULL,
             "choose the batch with which the target is reached first: lines of 'batch,steps', as measured"),

    CLI_GROUP("Ranks"),
    CLI_TEXT("cluster", 'c', "NAME", &chosen.cluster, NULL,
             "a kind of host and their number ('dgx-a100-16'), or a cluster file", .default_text = "this machine"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 65536, "number of ranks",
                .default_text = "all of the cluster; here, as many as it pays to use"),
    CLI_INTEGER("nodes", 'N', "N", &chosen.nodes, "0", 0, 4096, "without --cluster: nodes like this machine",
                .default_text = "1"),

    CLI_FLAG("measure", 0, &chosen.measure, "with --cluster: measure what layers cost on this machine",
             .default_text = "the devices that the cluster describes"),
    CLI_TEXT("layer-times", 0, "FILE", &chosen.layer_times, NULL,
             "what layers take as weft profile layers has measured it, on whatever machine",
             .default_text = "as --measure says"),
    CLI_INTEGER("together", 0, "N", &chosen.together, "0", 0, 4096,
                "how many ranks compute at the same time while layers are measured", .default_text = "those of a host",
                .advanced = true),

    CLI_GROUP("Output"),
    CLI_TEXT("save", 0, "FILE", &chosen.save, NULL, "write the best plan to FILE, for weft train --plan"),
    CLI_INTEGER("show", 0, "N", &chosen.show, "5", 0, 1000, "number of other plans to compare with the best"),
    CLI_TEXT("svg", 0, "FILE", &chosen.svg, NULL, "draw the timeline of a step to FILE as SVG; -: standard output"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
    CLI_NUMBER("gap", 0, "PERCENT", &chosen.gap, "0", 0, 99,
               "end the search when no strategy can be faster than the best one by more than this", .advanced = true),
    CLI_INTEGER("prices", 0, "N", &chosen.prices, "0", 0, 1e9, "end the search after so many simulated steps",
                .default_text = "when the best is proved", .advanced = true),
};

/* A search: with --steps-curve, one of several that differ in their batch. */
struct plan_search {
    struct train_config config;
    struct planner_setting setting;
    struct planner *planner;
    struct search_result result;
};

/* All that a plan is made from. */
struct plan_problem {
    struct model_description *description;
    struct planning planning;
    struct planner_setting setting;
    struct plan_search searches[2]; /* the best one so far, and the next */
    struct plan_search *best;
    struct plan_batch *batches; /* of --steps-curve */
    size_t batch_count, best_batch;
};

/* ---- the problem ---- */

/* Described devices compute what they can. */
static bool devices_have(const struct planning *planning, enum cluster_precision precision)
{
    for (uint32_t d = 0; d < planning->file.device_count; d++)
        if (planning->file.devices[d].flops[precision] <= 0)
            return false;
    return true;
}

static void choose_precisions(const struct planning *planning, struct strategy_space *space)
{
    const bool here = !planning_has_devices(planning),
               any = chosen.precision ? strcmp(chosen.precision, "any") == 0 : !here;
    space->precision_count = 0;
    if (!any) {
        space->precisions[space->precision_count++] = chosen.precision ? training_type_of(chosen.precision) : WEFT_F32;
        return;
    }
    if (here || devices_have(planning, CLUSTER_F32))
        space->precisions[space->precision_count++] = WEFT_F32;
    if (here || devices_have(planning, CLUSTER_BF16))
        space->precisions[space->precision_count++] = WEFT_BF16;
    else if (devices_have(planning, CLUSTER_F16))
        space->precisions[space->precision_count++] = WEFT_F16;
}

static weft_status plan_open_cluster(struct plan_problem *problem, struct error *error)
{
    struct planning *planning = &problem->planning;
    struct planner_setting *setting = &problem->setting;
    if (chosen.cluster && chosen.nodes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--nodes is for plans without --cluster: '%s' says how many hosts there are", chosen.cluster);
    if (chosen.measure && !chosen.cluster)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--measure is for plans with --cluster: without it layers are measured anyway");
    if (chosen.layer_times && (chosen.measure || chosen.together))
        return error_set(error, WEFT_ERROR_ARGUMENT, "--layer-times has what was measured: leave --%s out",
                         chosen.measure ? "measure" : "together");
    if (chosen.together && chosen.cluster && !chosen.measure)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--together is for --measure, which is not given");
    const uint32_t nodes = chosen.nodes ? (uint32_t)chosen.nodes : 1, ranks = (uint32_t)chosen.ranks;
    planning->measures = chosen.measure;
    planning->together = (uint32_t)chosen.together;
    weft_status status = planning_describe(planning, chosen.cluster, nodes, ranks, error);
    if (status != WEFT_OK)
        return status;
    *setting = (struct planner_setting){.description = problem->description,
                                        .config = &chosen.config,
                                        .prices_most = (uint64_t)chosen.prices,
                                        .gap = chosen.gap / 100};
    choose_precisions(planning, &setting->space);
    status = planning_open(planning, ranks, 1, setting, error);
    if (status == WEFT_OK && chosen.layer_times)
        status = layer_times_read(&planning->costs, chosen.layer_times, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.layer_times)
        planning_measure(planning, setting);
    setting->space.ranks_most = planning->planned.step.ranks;
    setting->space.ranks_least = chosen.ranks || chosen.cluster ? setting->space.ranks_most : 1;
    return WEFT_OK;
}

static weft_status plan_open_model(struct plan_problem *problem, struct error *error)
{
    struct train_config *config = &chosen.config;
    weft_status status = training_planned_shape(chosen.from, chosen.task, config, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &problem->description, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.curve && config->batch)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--steps-curve '%s' has the batches to plan for: leave --batch out", chosen.curve);
    if (!config->batch)
        config->batch = 32;
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    if ((size_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--sequence %lld is longer than the model's context of %zu tokens",
                         (long long)config->sequence, config->shape.context);
    config->optimizer.kind = (enum optimizer_kind)cli_choice_index(chosen.optimizer, optimizer_names);
    config->gradients = training_type_of(chosen.gradients);
    return WEFT_OK;
}

static void plan_search_close(struct plan_search *search)
{
    search_result_free(&search->result);
    planner_close(search->planner);
    *search = (struct plan_search){0};
}

static void plan_problem_close(struct plan_problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(problem->searches); i++)
        plan_search_close(&problem->searches[i]);
    free(problem->batches);
    planning_close(&problem->planning);
    model_description_free(problem->description);
}

/* ---- searches ---- */

/* Search for a global batch; *seconds: of a step of the best strategy, 0 if none fits. */
static weft_status plan_search_batch(const struct plan_problem *problem, int64_t batch, struct plan_search *search,
                                     double *seconds, struct error *error)
{
    plan_search_close(search);
    search->config = chosen.config;
    search->config.batch = batch;
    search->setting = problem->setting;
    search->setting.config = &search->config;
    weft_status status = planner_open(&search->setting, &search->planner, error);
    if (status == WEFT_OK)
        status = planner_search(search->planner, &search->result, error);
    *seconds = status == WEFT_OK && search->result.count ? search->result.plans[0].price.seconds : 0;
    return status;
}

/* Plan for each batch of the curve and keep the one that reaches the target first. */
static weft_status plan_search_curve(struct plan_problem *problem, struct error *error)
{
    struct curve_point *points;
    size_t count;
    weft_status status = steps_curve_load(chosen.curve, &points, &count, error);
    if (status != WEFT_OK)
        return status;
    problem->batches = calloc(count, sizeof *problem->batches);
    if (!problem->batches)
        status = error_memory(error, count * sizeof *problem->batches, "the batches of a curve");
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        struct plan_search *search = &problem->searches[problem->best == problem->searches];
        struct plan_batch *batch = &problem->batches[problem->batch_count++],
                          *best = &problem->batches[problem->best_batch];
        *batch = (struct plan_batch){points[i], 0};
        status = plan_search_batch(problem, points[i].batch, search, &batch->seconds, error);
        if (!problem->best || best->seconds <= 0 ||
            (batch->seconds > 0 && batch->seconds * points[i].steps < best->seconds * best->point.steps)) {
            problem->best = search;
            problem->best_batch = i;
        }
    }
    free(points);
    return status;
}

/* ---- results ---- */

static weft_status plan_write_svg(const struct plan_search *search, struct error *error)
{
    struct step_costs costs;
    struct step_result result;
    weft_status status =
        planner_simulate(search->planner, &search->result.plans[0].strategy, true, &costs, &result, error);
    if (status != WEFT_OK)
        return status;
    status = step_result_draw(&costs, &result, chosen.svg, error);
    step_result_free(&result);
    step_costs_free(&costs);
    return status;
}

static weft_status plan_write_file(const struct plan_problem *problem, uint64_t memory, struct error *error)
{
    const struct plan_search *search = problem->best;
    const struct search_plan *best = &search->result.plans[0];
    struct plan plan = {
        .model_hash = plan_model_hash(problem->description),
        .batch = (uint32_t)search->config.batch,
        .sequence = (uint32_t)chosen.config.sequence,
        .optimizer = search->config.optimizer.kind,
        .gradients = search->config.gradients,
        .strategy = best->strategy,
        .price = best->price,
        .memory = memory,
    };
    snprintf(plan.model, sizeof plan.model, "%s", chosen.config.model);
    snprintf(plan.cluster, sizeof plan.cluster, "%s", problem->planning.planned.name);
    weft_status status = planner_stages(search->planner, &plan.strategy, &plan.first_unit, error);
    if (status == WEFT_OK)
        status = planner_shares(search->planner, &plan.strategy, &plan.shares, error);
    if (status == WEFT_OK)
        status = plan_save(&plan, chosen.save, error);
    plan_free(&plan);
    return status;
}

static weft_status plan_answer(const struct plan_problem *problem, double seconds, FILE *output, struct error *error)
{
    const struct plan_search *search = problem->best;
    struct plan_answer answer = {
        .setting = &search->setting,
        .space = planner_space(search->planner),
        .result = &search->result,
        .model = chosen.config.model,
        .batches = problem->batches,
        .batch_count = problem->batch_count,
        .best_batch = problem->best_batch,
        .show = (size_t)chosen.show,
        .seconds = seconds,
    };
    const struct strategy *best = &search->result.plans[0].strategy;
    uint32_t *shares;
    weft_status status = planner_shares(search->planner, best, &shares, error);
    answer.shares = shares;
    if (status == WEFT_OK)
        status = planner_memory(search->planner, best, &answer.needed, &answer.available, error);
    if (status == WEFT_OK)
        status = explain_sensitivities(&search->setting, best, answer.sensitivities, &answer.sensitivity_count, error);
    if (status == WEFT_OK && chosen.save)
        status = plan_write_file(problem, answer.needed, error);
    if (status == WEFT_OK && chosen.svg)
        status = plan_write_svg(search, error);
    const bool prints = status == WEFT_OK && !(chosen.svg && named_output_is_standard(chosen.svg));
    if (prints && chosen.json)
        status = plan_print_json(&answer, output, error);
    else if (prints)
        plan_print(&answer, output);
    free(shares);
    return status;
}

static weft_status plan_nothing_fits(const struct plan_problem *problem, struct error *error)
{
    const struct planning *planning = &problem->planning;
    char text[EXPLAIN_TEXT_BYTES];
    explain_nothing_fits(&problem->best->setting, &planning->cluster,
                         planning_has_devices(planning) ? NULL : &planning->core, &problem->best->result, text);
    return error_set(error, WEFT_ERROR_MEMORY, "%s", text);
}

static weft_status plan_run(struct command_call *call, struct error *error)
{
    struct plan_problem problem = {0};
    double step = 0;
    weft_status status = plan_open_model(&problem, error);
    if (status == WEFT_OK)
        status = plan_open_cluster(&problem, error);
    const uint64_t begin = clock_now();
    if (status == WEFT_OK && chosen.curve) {
        status = plan_search_curve(&problem, error);
    } else if (status == WEFT_OK) {
        problem.best = problem.searches;
        status = plan_search_batch(&problem, chosen.config.batch, problem.best, &step, error);
    }
    if (status == WEFT_OK)
        status = problem.best->result.count
                     ? plan_answer(&problem, (double)(clock_now() - begin) * 1e-9, call->output, error)
                     : plan_nothing_fits(&problem, error);
    plan_problem_close(&problem);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .group = COMMAND_UNDERSTAND,
    .summary = "find the best way to train a model on a cluster",
    .description =
        "Searches all ways to spread a training step that weft train can execute: meshes of data, pipeline and tensor "
        "ranks and their placement, ZeRO stages, pipeline schedules and stages, micro-batches, recomputation, precision, "
        "sequence parallelism, buckets. A strategy's price is its step, simulated with the schedules that would run. "
        "Lower bounds exclude strategies that cannot be faster than the best, so that it is proved to be the best of all "
        "that fit into memory.\n\n"
        "Without --cluster, ranks are processors of this machine, whose layers are measured and whose links are as "
        "weft topo measured them. With it, hosts, devices and links are as described; --measure measures "
        "the layers here, and --layer-times takes them from a file of weft profile layers.",
    .examples = "weft plan --model gpt --batch 32\n"
                "weft plan --model gpt2-xl --cluster dgx-a100-16 --batch 512 --sequence 1024 --save plan.json\n"
                "weft plan --model gpt2 --nodes 4 --ranks 8 --batch 64 --json\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&command_plan_compare, &command_plan_show),
    .run = plan_run,
};
