/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan`: the best way to spread a model's training over ranks and nodes, its predicted time, and why. */
#include "cli/understand/plan_show.h"

#include "base/text.h"
#include "core/topology/cluster_name.h"
#include "training/model/file/model_file.h"
#include "training/plan/calibrate.h"
#include "training/plan/strategy.h"

#include <inttypes.h>
#include <stdlib.h>

static struct {
    const char *model, *cluster;
    int64_t ranks, nodes, batch, sequence, show;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("model", 'm', "NAME", &chosen.model, "gpt", "a model size by name, or a YAML file, as for weft train"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "4", 1, 4096, "largest number of ranks per node"),
    CLI_INTEGER("nodes", 0, "N", &chosen.nodes, "1", 1, 4096, "nodes like this machine"),
    CLI_TEXT(
        "cluster", 'c', "NAME", &chosen.cluster, NULL,
        "take nodes, ranks and links from this cluster (dgx-a100-16, or a file); each rank computes as fast as one does here"),
    CLI_INTEGER("batch", 'b', "N", &chosen.batch, "32", 1, 1e6, "sequences in a global batch"),
    CLI_INTEGER("sequence", 0, "N", &chosen.sequence, "0", 0, 1e6, "tokens in a sequence",
                .default_text = "the model's context"),
    CLI_INTEGER("show", 0, "N", &chosen.show, "8", 1, 1e6, "number of strategies to print, best first"),
};

static void plan_print(const struct strategy_problem *problem, const struct strategy *strategies, size_t count,
                       FILE *out)
{
    const struct cluster *cluster = problem->cluster;
    const struct strategy *best = &strategies[0];
    double tokens = (double)problem->batch * problem->sequence;
    char memory[32];
    fprintf(out, "near links %s: %.2f us, %.1f GB/s; far links %s: %.1f us, %.2f GB/s; %u cores a node\n",
            cluster->near_origin, cluster->links.near.latency * 1e6, cluster->links.near.bandwidth * 1e-9,
            cluster->far_origin, cluster->links.far.latency * 1e6, cluster->links.far.bandwidth * 1e-9,
            cluster->links.cores);
    fprintf(out, "%zu strategies priced; a step is %.0f tokens\n\n", count, tokens);
    fprintf(out, "%5s %5s %11s %6s %9s  %-16s %10s %10s %10s %10s %9s  %s\n", "ranks", "nodes", "micro-batch", "a rank",
            "bucket", "all-reduce", "compute ms", "comm ms", "exposed ms", "step ms", "tokens/s", "memory a node");
    for (size_t i = 0; i < count && i < (size_t)chosen.show; i++) {
        const struct strategy *s = &strategies[i];
        char bucket[32];
        fprintf(out, "%5u %5u %11u %6u %9s  %-16s %10.2f %10.2f %10.2f %10.2f %9.0f  %s%s\n", s->ranks, s->nodes,
                s->micro_batch, s->share, s->ranks > 1 ? text_bytes(s->bucket_bytes, bucket, sizeof bucket) : "-",
                s->algorithm, s->compute_seconds * 1e3, s->communication_seconds * 1e3, s->exposed_seconds * 1e3,
                s->step_seconds * 1e3, tokens / s->step_seconds, text_bytes(s->node_bytes, memory, sizeof memory),
                s->fits ? "" : " (does not fit)");
    }
    fprintf(out, "\nbest: %u rank%s, micro-batches of %u: %.2f times one rank's speed, because ", best->ranks,
            best->ranks == 1 ? "" : "s", best->micro_batch, strategy_speedup(strategies, count, best));
    if (best->ranks == 1)
        fprintf(out, "communication or crowded cores would cost more than further ranks gain\n");
    else
        fprintf(out, "%.0f%% of its %.2f ms of communication is hidden behind the backward pass\n",
                best->communication_seconds > 0 ? 100 * (1 - best->exposed_seconds / best->communication_seconds) : 100,
                best->communication_seconds * 1e3);
    fprintf(out,
            "run it: weft run -n %u -- weft train --model %s --batch %u --micro-batch %u --bucket %" PRIu64
            "K --data FILE\n",
            best->ranks, chosen.model, problem->batch, best->micro_batch, best->bucket_bytes >> 10);
}

static weft_status plan_search(const struct model_description *description, struct device *device,
                               const struct machine *machine, FILE *out, struct error *error)
{
    struct links links = {0};
    struct cluster_file file = {0};
    struct cluster cluster;
    struct calibration calibration;
    struct strategy *strategies;
    size_t count;
    size_t sequence = chosen.sequence ? (size_t)chosen.sequence : description->shape.context;
    if (sequence > description->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--sequence %zu is longer than the model's context of %zu tokens",
                         sequence, description->shape.context);
    weft_status status = WEFT_OK;
    if (chosen.cluster) {
        status = cluster_name_load(chosen.cluster, &file, error);
        if (status == WEFT_OK)
            status = cluster_describe_file(&file, machine, &cluster, error);
    } else {
        links_load(NULL, &links, NULL);
        cluster_describe(machine, &links, (uint32_t)chosen.nodes, (uint32_t)chosen.ranks, &cluster);
    }
    if (status == WEFT_OK)
        status = calibration_open(&calibration, description, device, (uint32_t)sequence, error);
    if (status != WEFT_OK) {
        cluster_file_free(&file);
        links_free(&links);
        return status;
    }
    const struct strategy_problem problem = {
        .description = description,
        .batch = (uint32_t)chosen.batch,
        .sequence = (uint32_t)sequence,
        .cluster = &cluster,
        .compute = calibration_compute,
        .context = &calibration,
        .update_seconds = calibration_update(&calibration),
    };
    status = strategy_search(&problem, &strategies, &count, error);
    if (status == WEFT_OK) {
        if (calibration.status != WEFT_OK)
            status = error_set(error, calibration.status, "%s", calibration.error.text);
        else
            plan_print(&problem, strategies, count, out);
        free(strategies);
    }
    cluster_file_free(&file);
    links_free(&links);
    calibration_close(&calibration);
    return status;
}

static weft_status plan_run(struct command_call *call, struct error *error)
{
    struct model_shape shape;
    struct model_description *description = NULL;
    struct device *device = NULL;
    struct machine *machine = NULL;
    weft_status status = model_shape_load(chosen.model, &shape, error);
    if (status == WEFT_OK)
        status = model_describe(&shape, &description, error);
    if (status == WEFT_OK)
        status = device_open("cpu", 1, &device, error);
    if (status == WEFT_OK)
        status = machine_discover(&machine, error);
    if (status == WEFT_OK)
        status = plan_search(description, device, machine, call->output, error);
    machine_free(machine);
    if (device)
        device->close(device);
    model_description_free(description);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .group = COMMAND_UNDERSTAND,
    .summary = "find the best way to spread a model's training",
    .description =
        "Predicts the step time of every data-parallel strategy on nodes like this machine: the computation of one "
        "rank is measured here, and communication is simulated with the schedules that would run, on measured "
        "links if there are measurements.",
    .examples = "weft plan --model gpt --ranks 4\nweft plan --model gpt2 --nodes 4 --ranks 8 --batch 64\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&command_plan_show),
    .run = plan_run,
};
