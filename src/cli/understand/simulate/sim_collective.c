/* SPDX-License-Identifier: Apache-2.0 */
/* `weft sim collective`: a collective on a cluster that need not be there. */
#include "cli/understand/simulate/sim_collective.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/understand/placement.h"
#include "cli/understand/simulate/disturbance.h"
#include "cli/understand/simulate/sim_timeline.h"
#include "core/collective/tuner/tuner.h"
#include "core/schedule/simulate/goal.h"
#include "core/schedule/simulate/simulate_price.h"
#include "core/schedule/verify/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Ranks up to which every one is simulated where nodes are not alike. */
#define RANKS_WHOLE 1024

static struct {
    struct placement_options on;
    struct disturbance_options wrong;
    const char *algorithm, *trace, *goal;
    int64_t root;
    bool reproducible, json, whole;
} chosen;

static const struct cli_option options[] = {
    PLACEMENT_OPTIONS(chosen.on),
    CLI_TEXT("algorithm", 'a', "NAME", &chosen.algorithm, "",
             "this algorithm; 'all': compare those that support the placement", .default_text = "the tuner's choice"),
    CLI_INTEGER("root", 0, "R", &chosen.root, "0", 0, 65535, "the root, or the sender of a message",
                .default_text = "rank 0"),
    CLI_FLAG("reproducible", 0, &chosen.reproducible, "only schedules that keep the canonical order of sums"),
    CLI_FLAG("whole", 0, &chosen.whole, "simulate every rank, also where nodes are alike or very many"),
    CLI_FLAG("json", 0, &chosen.json, "print an object of JSON for each algorithm"),
    CLI_TEXT("trace", 't', "FILE", &chosen.trace, NULL,
             "write a timeline for Perfetto (Chrome's trace events): of all ranks with --whole, else of the first node "
             "where nodes are alike"),
    CLI_TEXT("goal", 0, "FILE", &chosen.goal, NULL,
             "write the schedules of all ranks in GOAL, which LogGOPSim reads, for a second opinion"),
    CLI_GROUP("Disturbances"),
    DISTURBANCE_OPTIONS(chosen.wrong),
};

static const char *const unit_names[SIMULATED_UNITS] = {"rank", "node", "leaf", "pod"};

/* ---- the result ---- */

/* Bytes of the whole collective, and the factor of the bus bandwidth, as nccl-tests define them. */
static double whole_bytes(const struct schedule_shape *shape)
{
    bool blocks = shape->collective != COLLECTIVE_ALLREDUCE && shape->collective != COLLECTIVE_BROADCAST &&
                  shape->collective != COLLECTIVE_REDUCE && shape->collective != COLLECTIVE_SENDRECEIVE &&
                  !collective_is_prefix(shape->collective);
    return (double)shape->block_bytes * (blocks ? shape->ranks : 1);
}

static double bus_factor(const struct schedule_shape *shape)
{
    double n = shape->ranks;
    switch (shape->collective) {
    case COLLECTIVE_ALLREDUCE:
        return 2 * (n - 1) / n;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
    case COLLECTIVE_SENDRECEIVE:
        return 1;
    default:
        return (n - 1) / n;
    }
}

static void print_header(FILE *output, const struct schedule_shape *shape, const char *name)
{
    static const char *const places[][2] = {{"node", "nodes"}, {"leaf", "leaves"}, {"pod", "pods"}};
    char bytes[32];
    fprintf(output, "%s, blocks of %s, %u ranks", collective_name(shape->collective),
            text_bytes(shape->block_bytes, bytes, sizeof bytes), shape->ranks);
    for (uint32_t level = 0; level < shape_levels(shape); level++) {
        uint32_t units = shape_units(shape, level);
        fprintf(output, " %s %u %s", level == 0 ? "on" : level == 1 ? "under" : "in", units, places[level][units != 1]);
    }
    fprintf(output, "; %s\n", name);
}

static const char *how_text(enum simulated_how how)
{
    return how == SIMULATED_WHOLE    ? "every rank was simulated"
           : how == SIMULATED_FOLDED ? "one node was simulated, for all"
                                     : "estimated from smaller or simpler placements";
}

static weft_status print_report_json(FILE *output, const struct schedule_shape *shape, const char *cluster,
                                     const struct algorithm *algorithm, const struct simulated_report *report,
                                     struct error *error)
{
    static const char *const how[] = {"whole", "folded", "estimate"};
    struct json_writer line;
    double bandwidth = whole_bytes(shape) / report->seconds;
    json_begin_line(&line);
    JSON_PUT(&line, "collective", collective_name(shape->collective), "algorithm", algorithm->name, "cluster", cluster,
             "ranks", shape->ranks, "nodes", shape_units(shape, 0), "block_bytes", shape->block_bytes, "seconds",
             report->seconds, "algorithm_bandwidth", bandwidth, "bus_bandwidth", bandwidth * bus_factor(shape),
             "messages", report->messages, "busy", report->busy, "simulated", how[report->how]);
    json_open_object(&line, "bytes_leaving");
    for (uint32_t unit = 0; unit <= shape_levels(shape); unit++)
        json_put_number(&line, unit_names[unit], report->leaving[unit]);
    json_close(&line);
    json_open_array(&line, "busiest_links");
    for (uint32_t i = 0; i < report->load_count; i++) {
        const struct simulated_load *load = &report->loads[i];
        json_open_object(&line, NULL);
        JSON_PUT(&line, "level", unit_names[load->level + 1], "unit", load->unit, "interface", load->interface,
                 "direction", load->down ? "in" : "out", "bytes", load->bytes, "share", load->share);
        json_close(&line);
    }
    json_close(&line);
    return json_complete(&line, output, error);
}

static void print_report(FILE *output, const struct schedule_shape *shape, const struct algorithm *algorithm,
                         const char *reason, const struct simulated_report *report, double launch)
{
    char text[32], bytes[32];
    double bandwidth = whole_bytes(shape) / report->seconds;
    fprintf(output, "  algorithm            %s%s%s\n", algorithm->name, reason ? ": " : "", reason ? reason : "");
    fprintf(output, "  time                 %s", text_seconds(report->seconds, text, sizeof text));
    if (launch > 0)
        fprintf(output, ", and %s to launch it", text_seconds(launch, text, sizeof text));
    fprintf(output, "; %s\n", how_text(report->how));
    if (shape->block_bytes)
        fprintf(output, "  bandwidth            %.2f GB/s; bus bandwidth %.2f GB/s\n", bandwidth * 1e-9,
                bandwidth * bus_factor(shape) * 1e-9);
    if (report->how != SIMULATED_ESTIMATE)
        fprintf(output, "  messages             %" PRIu64 "; processors are busy for %.0f %% of the time\n",
                report->messages, 100 * report->busy);
    fprintf(output, "  bytes out of a       ");
    for (uint32_t unit = 0; unit <= shape_levels(shape); unit++)
        fprintf(output, "%s%s %s", unit ? ", " : "", unit_names[unit],
                text_bytes((uint64_t)report->leaving[unit], bytes, sizeof bytes));
    fputc('\n', output);
    for (uint32_t i = 0; i < report->load_count; i++) {
        const struct simulated_load *load = &report->loads[i];
        fprintf(output, "  %-20s %5.1f %% of its capacity, %s %s %s %u", i ? "" : "busiest links", 100 * load->share,
                text_bytes((uint64_t)load->bytes, bytes, sizeof bytes), load->down ? "into" : "out of",
                unit_names[load->level + 1], load->unit);
        if (load->level == 0)
            fprintf(output, ", interface %u", load->interface);
        fputc('\n', output);
    }
}

/* ---- simulating ---- */

static weft_status simulate_one(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                struct simulated_report *report, struct error *error)
{
    bool folded = false;
    weft_status status = WEFT_OK;
    if (!chosen.whole)
        status = schedule_simulate_folded(algorithm, shape, cluster, watch, report, &folded, error);
    if (status != WEFT_OK || folded)
        return status;
    if (chosen.whole || watch || cluster->disturbance || shape->ranks <= RANKS_WHOLE)
        return schedule_simulate_shape(algorithm, shape, cluster, watch, report, error);
    return simulate_report(algorithm, shape, cluster, SIMULATED_RANKS, report, error);
}

static weft_status compare_algorithms(FILE *output, const struct schedule_shape *shape, const char *name,
                                      const struct simulated_cluster *cluster, struct error *error)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape->collective, &count);
    if (!chosen.json) {
        print_header(output, shape, name);
        fprintf(output, "  %-27s %12s %12s %12s\n", "algorithm", "time", "GB/s", "bus GB/s");
    }
    for (size_t i = 0; i < count; i++) {
        struct simulated_report report;
        char text[32];
        const char *refusal = algorithm_refuses(&algorithms[i], shape);
        if (refusal && !chosen.json)
            fprintf(output, "  %-27s %12s  %s\n", algorithms[i].name, "-", refusal);
        if (refusal)
            continue;
        weft_status status = simulate_one(&algorithms[i], shape, cluster, NULL, &report, error);
        if (status == WEFT_OK && chosen.json)
            status = print_report_json(output, shape, name, &algorithms[i], &report, error);
        if (status != WEFT_OK)
            return status;
        double bandwidth = whole_bytes(shape) / report.seconds * 1e-9;
        if (!chosen.json)
            fprintf(output, "  %-27s %12s %12.2f %12.2f%s\n", algorithms[i].name,
                    text_seconds(report.seconds, text, sizeof text), bandwidth, bandwidth * bus_factor(shape),
                    report.how == SIMULATED_ESTIMATE ? "  (an estimate)" : "");
    }
    return WEFT_OK;
}

/* A file asked for is standard output: nothing else belongs there. */
static bool prints_a_file(void)
{
    return (chosen.trace && named_output_is_standard(chosen.trace)) ||
           (chosen.goal && named_output_is_standard(chosen.goal));
}

/* The algorithm asked for, or the tuner's; *reason is NULL for one asked for. */
static weft_status find_algorithm(const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                  const struct algorithm **algorithm, const char **reason, struct error *error)
{
    struct algorithm_prices prices;
    *reason = NULL;
    if (*chosen.algorithm) {
        *algorithm = algorithm_find(shape->collective, chosen.algorithm, error);
        return *algorithm ? WEFT_OK : WEFT_ERROR_ARGUMENT;
    }
    struct simulated_cluster calm = *cluster;
    calm.disturbance = NULL;
    weft_status status = simulate_prices(&calm, shape, SIMULATED_RANKS, &prices, error);
    if (status != WEFT_OK)
        return status;
    *algorithm = prices.prices[prices.chosen].algorithm;
    *reason = prices.reason;
    return WEFT_OK;
}

static weft_status write_goal(const struct algorithm *algorithm, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, struct error *error)
{
    struct schedule **schedules;
    struct named_output output;
    weft_status status = sweep_generate(algorithm, shape, &schedules, error);
    if (status != WEFT_OK)
        return status;
    status = named_output_open(&output, chosen.goal, error);
    if (status == WEFT_OK) {
        status = schedule_write_goal(schedules, shape->ranks, shape, cluster, shape->block_bytes, output.stream, error);
        if (status == WEFT_OK)
            status = named_output_close(&output, error);
        else
            named_output_discard(&output);
    }
    sweep_free(schedules, shape->ranks);
    return status;
}

static weft_status simulate_and_print(FILE *output, const struct schedule_shape *shape, const char *name,
                                      const struct simulated_cluster *cluster, double launch, struct error *error)
{
    const struct algorithm *algorithm;
    const char *reason;
    struct simulated_report report;
    struct sim_timeline timeline;
    weft_status status = find_algorithm(shape, cluster, &algorithm, &reason, error);
    if (status == WEFT_OK && chosen.goal)
        status = write_goal(algorithm, shape, cluster, error);
    if (status == WEFT_OK && chosen.trace)
        status = sim_timeline_open(&timeline, chosen.trace, shape, error);
    if (status != WEFT_OK)
        return status;
    const struct simulated_watch watch = {sim_timeline_step, &timeline};
    status = simulate_one(algorithm, shape, cluster, chosen.trace ? &watch : NULL, &report, error);
    if (chosen.trace) {
        weft_status closed = sim_timeline_close(&timeline, status == WEFT_OK, error);
        status = status == WEFT_OK ? closed : status;
    }
    if (status != WEFT_OK || prints_a_file())
        return status;
    if (chosen.json)
        return print_report_json(output, shape, name, algorithm, &report, error);
    print_header(output, shape, name);
    print_report(output, shape, algorithm, reason, &report, launch);
    return WEFT_OK;
}

static weft_status sim_collective_run(struct command_call *call, struct error *error)
{
    struct placement placement;
    struct schedule_shape shape = {
        .root = (uint32_t)chosen.root, .reproducible = chosen.reproducible, .block_bytes = 1 << 20};
    struct simulated_disturbance disturbance;
    bool disturbed;
    weft_status status = collective_parse(call->words[0], &shape.collective, error);
    if (status == WEFT_OK && call->word_count > 1)
        status = text_parse_bytes(call->words[1], "BYTES", &shape.block_bytes, error);
    if (status == WEFT_OK)
        status = disturbance_parse(&chosen.wrong, &disturbance, &disturbed, error);
    if (status == WEFT_OK && (chosen.trace || chosen.goal) && strcmp(chosen.algorithm, "all") == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--trace and --goal need one algorithm, not all");
    if (status == WEFT_OK)
        status = placement_open(&placement, &chosen.on, error);
    if (status != WEFT_OK)
        return status;
    placement_apply(&placement, &shape);
    bool described = placement.file.level_count > 0;
    struct simulated_cluster cluster = described ? tuner_cluster_of(&placement.file) : tuner_default_cluster();
    const char *name = described ? placement.file.name : "a typical machine and network";
    if (disturbed)
        cluster.disturbance = &disturbance;
    if (shape.root >= shape.ranks)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--root is %u, but there are only ranks 0 to %u", shape.root,
                           shape.ranks - 1);
    else if (disturbance.slowdown > 0 && disturbance.slow_rank >= shape.ranks)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--slow-rank is %u, but there are only ranks 0 to %u",
                           disturbance.slow_rank, shape.ranks - 1);
    if (shape.collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = (shape.root + 1) % shape.ranks;
    if (status == WEFT_OK && strcmp(chosen.algorithm, "all") == 0)
        status = compare_algorithms(call->output, &shape, name, &cluster, error);
    else if (status == WEFT_OK)
        status = simulate_and_print(call->output, &shape, name, &cluster, placement.file.collective_launch, error);
    placement_close(&placement);
    return status;
}

const struct command command_sim_collective = {
    .name = "collective",
    .summary = "run a collective in virtual time on a described cluster",
    .description =
        "COLLECTIVE and BYTES are as in 'weft explain': the size of a block, all of the data of an all-reduce, or one "
        "rank's part of a gather or scatter (default 1M). The schedules that ranks would run are simulated: messages "
        "share the interfaces of nodes and the uplinks of leaves and pods by max-min fairness. Where all nodes do the "
        "same, one node is simulated for all, with the same result. Among more than 1,024 ranks, the time of other "
        "algorithms is estimated unless --whole is given.\n\n"
        "'bytes out of a ...': what messages carry out of the rank, node, leaf and pod that most leave, and what ranks "
        "of a node read and write in each other's memory. Bandwidths are those of nccl-tests.",
    .examples = "weft sim collective allreduce 256M --cluster dgx-a100-128\n"
                "weft sim collective allreduce 256M --cluster dgx-a100-128 --ranks 256 --algorithm all\n"
                "weft sim collective alltoall 1M --cluster p4d-16 --slow-link node:3=0.25 --jitter 0.1 --seed 7\n"
                "weft sim collective allgather 4M --cluster ethernet25-16 --trace allgather.json\n",
    .words = "COLLECTIVE [BYTES]",
    COMMAND_OPTIONS(options),
    .run = sim_collective_run,
};
