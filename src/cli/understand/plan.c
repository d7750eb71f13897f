/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan`: the best way to train a model on a cluster, its predicted time, and why. */
#include "cli/understand/plan_print.h"
#include "cli/understand/plan_show.h"

#include "base/clock.h"
#include "base/file/named_output.h"
#include "cli/train/training.h"
#include "core/topology/cluster_name.h"
#include "training/model/file/model_file.h"
#include "training/parallel/step/show.h"
#include "training/plan/machine_costs.h"
#include "training/plan/measured_steps.h"
#include "training/plan/plan_file.h"

#include <stdlib.h>
#include <string.h>

static const char *const any_precision[] = {"any", "f32", "bf16", "f16", NULL};

static struct {
    struct train_config config;
    const char *cluster, *precision, *optimizer, *gradients, *save, *svg, *curve;
    int64_t ranks, nodes, show, prices;
    double gap;
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Training, as for weft train"),
    CLI_TEXT("model", 'm', "NAME", &chosen.config.model, "gpt", "a model size by name, or a YAML file"),
    CLI_INTEGER("batch", 'b', "N", &chosen.config.batch, "32", 1, 1e6, "sequences in a global batch"),
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

/* All that a plan is made from. */
struct plan_problem {
    struct model_description *description;
    struct machine *machine;
    struct links links;
    struct cluster_file file;
    struct cluster cluster;
    struct cluster_device device; /* a core of this machine */
    struct machine_costs costs;
    struct planner_cluster planned;
    struct planner_setting setting;
    struct planner *planner;
    struct search_result result;
};

/* ---- the problem ---- */

static bool is_described(const struct plan_problem *problem)
{
    return problem->file.device_count > 0;
}

static weft_status plan_open_cluster(struct plan_problem *problem, struct error *error)
{
    if (chosen.cluster && chosen.nodes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--nodes is for plans without --cluster: '%s' says how many hosts there are", chosen.cluster);
    weft_status status = machine_discover(&problem->machine, error);
    if (status == WEFT_OK && chosen.cluster) {
        status = cluster_name_load(chosen.cluster, &problem->file, error);
        return status == WEFT_OK ? cluster_describe_file(&problem->file, problem->machine, &problem->cluster, error)
                                 : status;
    }
    if (status != WEFT_OK)
        return status;
    const uint32_t nodes = chosen.nodes ? (uint32_t)chosen.nodes : 1,
                   ranks = chosen.ranks ? (uint32_t)chosen.ranks : nodes * limits_processors(&problem->machine->limits);
    links_load(NULL, &problem->links, NULL);
    cluster_describe(problem->machine, &problem->links, nodes, (ranks + nodes - 1) / nodes, &problem->cluster);
    return WEFT_OK;
}

/* Described devices compute what they can. */
static bool devices_have(const struct plan_problem *problem, enum cluster_precision precision)
{
    for (uint32_t d = 0; d < problem->file.device_count; d++)
        if (problem->file.devices[d].flops[precision] <= 0)
            return false;
    return true;
}

static void choose_precisions(const struct plan_problem *problem, struct strategy_space *space)
{
    const bool any = chosen.precision ? strcmp(chosen.precision, "any") == 0 : is_described(problem);
    space->precision_count = 0;
    if (!any) {
        space->precisions[space->precision_count++] = chosen.precision ? training_type_of(chosen.precision) : WEFT_F32;
        return;
    }
    const bool here = !is_described(problem);
    if (here || devices_have(problem, CLUSTER_F32))
        space->precisions[space->precision_count++] = WEFT_F32;
    if (here || devices_have(problem, CLUSTER_BF16))
        space->precisions[space->precision_count++] = WEFT_BF16;
    else if (devices_have(problem, CLUSTER_F16))
        space->precisions[space->precision_count++] = WEFT_F16;
}

static weft_status plan_open_planner(struct plan_problem *problem, struct error *error)
{
    struct planner_setting *setting = &problem->setting;
    const struct cluster_device *device = is_described(problem) ? NULL : &problem->device;
    const uint32_t all = chosen.ranks ? (uint32_t)chosen.ranks : 0;
    *setting = (struct planner_setting){.description = problem->description,
                                        .config = &chosen.config,
                                        .cluster = &problem->planned,
                                        .prices_most = (uint64_t)chosen.prices,
                                        .gap = chosen.gap / 100};
    choose_precisions(problem, &setting->space);
    weft_status status = WEFT_OK;
    if (device)
        status = machine_costs_device(setting->space.precisions, setting->space.precision_count, 1,
                                      &problem->cluster.links, &problem->device, error);
    if (status == WEFT_OK)
        status = planner_cluster_open(&problem->cluster, all, device, &problem->planned, error);
    if (status != WEFT_OK)
        return status;
    if (device) {
        problem->costs = (struct machine_costs){
            .description = problem->description, .sequence = (size_t)chosen.config.sequence, .threads = 1};
        setting->measure = machine_costs_measure;
        setting->context = &problem->costs;
    }
    setting->space.ranks_most = problem->planned.step.ranks;
    setting->space.ranks_least = chosen.ranks || is_described(problem) ? setting->space.ranks_most : 1;
    return planner_open(setting, &problem->planner, error);
}

static weft_status plan_open_model(struct plan_problem *problem, struct error *error)
{
    struct train_config *config = &chosen.config;
    weft_status status = model_shape_load(config->model, &config->shape, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &problem->description, error);
    if (status != WEFT_OK)
        return status;
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    if ((size_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--sequence %lld is longer than the model's context of %zu tokens",
                         (long long)config->sequence, config->shape.context);
    config->optimizer.kind = (enum optimizer_kind)cli_choice_index(chosen.optimizer, optimizer_names);
    config->gradients = training_type_of(chosen.gradients);
    return WEFT_OK;
}

static void plan_close_planner(struct plan_problem *problem)
{
    search_result_free(&problem->result);
    planner_close(problem->planner);
    problem->planner = NULL;
    planner_cluster_close(&problem->planned);
    machine_costs_free(&problem->costs);
}

static void plan_problem_close(struct plan_problem *problem)
{
    plan_close_planner(problem);
    cluster_file_free(&problem->file);
    links_free(&problem->links);
    machine_free(problem->machine);
    model_description_free(problem->description);
}

/* ---- results ---- */

static weft_status plan_write_svg(struct plan_problem *problem, struct error *error)
{
    struct buffer svg = {0};
    struct step_costs costs;
    struct step_result result;
    struct step_times times;
    weft_status status =
        planner_simulate(problem->planner, &problem->result.plans[0].strategy, true, &costs, &result, error);
    if (status != WEFT_OK)
        return status;
    status = step_result_times(&costs, &result, &times, error);
    if (status == WEFT_OK) {
        step_draw(&costs.shape, result.schedules, &times, &svg);
        status = buffer_string(&svg) ? named_output_write(chosen.svg, buffer_begin(&svg), buffer_size(&svg), error)
                                     : error_memory(error, 0, "a timeline");
        step_times_free(&costs.shape, &times);
    }
    buffer_free(&svg);
    step_result_free(&result);
    step_costs_free(&costs);
    return status;
}

static weft_status plan_write_file(struct plan_problem *problem, uint64_t memory, struct error *error)
{
    const struct search_plan *best = &problem->result.plans[0];
    struct plan plan = {
        .model_hash = plan_model_hash(problem->description),
        .batch = (uint32_t)chosen.config.batch,
        .sequence = (uint32_t)chosen.config.sequence,
        .gradients = chosen.config.gradients,
        .strategy = best->strategy,
        .price = best->price,
        .memory = memory,
    };
    snprintf(plan.model, sizeof plan.model, "%s", chosen.config.model);
    snprintf(plan.cluster, sizeof plan.cluster, "%s", problem->planned.name);
    snprintf(plan.optimizer, sizeof plan.optimizer, "%s", chosen.optimizer);
    weft_status status = planner_stages(problem->planner, &plan.strategy, &plan.first_unit, error);
    if (status == WEFT_OK)
        status = plan_save(&plan, chosen.save, error);
    plan_free(&plan);
    return status;
}

static weft_status plan_answer(struct plan_problem *problem, double seconds, FILE *output, struct error *error)
{
    struct plan_answer answer = {
        .setting = &problem->setting,
        .space = planner_space(problem->planner),
        .result = &problem->result,
        .model = chosen.config.model,
        .show = (size_t)chosen.show,
        .seconds = seconds,
    };
    const struct strategy *best = &problem->result.plans[0].strategy;
    weft_status status = planner_memory(problem->planner, best, &answer.needed, &answer.available, error);
    if (status == WEFT_OK)
        status = explain_sensitivities(&problem->setting, best, answer.sensitivities, &answer.sensitivity_count, error);
    if (status == WEFT_OK && chosen.save)
        status = plan_write_file(problem, answer.needed, error);
    if (status == WEFT_OK && chosen.svg)
        status = plan_write_svg(problem, error);
    if (status != WEFT_OK || (chosen.svg && named_output_is_standard(chosen.svg)))
        return status;
    if (chosen.json)
        return plan_print_json(&answer, output, error);
    plan_print(&answer, output);
    return WEFT_OK;
}

static weft_status plan_search(struct plan_problem *problem, FILE *output, struct error *error)
{
    char text[EXPLAIN_TEXT_BYTES];
    const uint64_t begin = clock_now();
    weft_status status = planner_search(problem->planner, &problem->result, error);
    if (status != WEFT_OK)
        return status;
    if (problem->result.count)
        return plan_answer(problem, (double)(clock_now() - begin) * 1e-9, output, error);
    status = explain_nothing_fits(&problem->setting, &problem->cluster, is_described(problem) ? NULL : &problem->device,
                                  &problem->result, text, error);
    return status == WEFT_OK ? error_set(error, WEFT_ERROR_MEMORY, "%s", text) : status;
}

/* Plan for each batch of the curve; the one that reaches the target first becomes --batch. */
static weft_status plan_choose_batch(struct plan_problem *problem, FILE *output, struct error *error)
{
    struct curve_point *points;
    size_t count, best = SIZE_MAX;
    double least = 0, fewest = 0;
    const bool prints = !chosen.json && !(chosen.svg && named_output_is_standard(chosen.svg));
    weft_status status = steps_curve_load(chosen.curve, &points, &count, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || points[i].batch * points[i].steps < fewest)
            fewest = points[i].batch * points[i].steps;
    if (prints)
        fprintf(output, "%10s %10s %12s %12s %12s\n", "batch", "steps", "step ms", "hours", "efficiency");
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        chosen.config.batch = points[i].batch;
        status = plan_open_planner(problem, error);
        if (status == WEFT_OK)
            status = planner_search(problem->planner, &problem->result, error);
        if (status == WEFT_OK && problem->result.count) {
            const double seconds = problem->result.plans[0].price.seconds, hours = seconds * points[i].steps / 3600;
            if (prints)
                fprintf(output, "%10u %10.0f %12.4g %12.4g %10.1f %%\n", points[i].batch, points[i].steps,
                        seconds * 1e3, hours, 100 * fewest / (points[i].batch * points[i].steps));
            if (best == SIZE_MAX || hours < least) {
                best = i;
                least = hours;
            }
        }
        plan_close_planner(problem);
    }
    if (best != SIZE_MAX)
        chosen.config.batch = points[best].batch;
    if (best != SIZE_MAX && prints)
        fprintf(output,
                "the target is reached first with batches of %u, in %.4g hours (efficiency: the fewest sequences that "
                "any batch needs, as a share of those that this one needs)\n\n",
                points[best].batch, least);
    free(points);
    return status;
}

static weft_status plan_run(struct command_call *call, struct error *error)
{
    struct plan_problem problem = {0};
    weft_status status = plan_open_model(&problem, error);
    if (status == WEFT_OK)
        status = plan_open_cluster(&problem, error);
    if (status == WEFT_OK && chosen.curve)
        status = plan_choose_batch(&problem, call->output, error);
    if (status == WEFT_OK)
        status = plan_open_planner(&problem, error);
    if (status == WEFT_OK)
        status = plan_search(&problem, call->output, error);
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
        "weft topo measured them. With it, hosts, devices and links are as described; nothing is measured.",
    .examples = "weft plan --model gpt --batch 32\n"
                "weft plan --model gpt2-xl --cluster dgx-a100-16 --batch 512 --sequence 1024 --save plan.json\n"
                "weft plan --model gpt2 --nodes 4 --ranks 8 --batch 64 --json\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&command_plan_compare, &command_plan_show),
    .run = plan_run,
};
