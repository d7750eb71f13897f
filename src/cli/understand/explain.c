/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain`: the tuner's choice, and the predicted cost of every algorithm. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/measure/bench_collectives.h"
#include "cli/measure/sweep_record.h"
#include "cli/understand/placement.h"
#include "core/collective/communicator/context.h"
#include "core/schedule/format/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct placement_options on;
    int64_t root, simulated;
    bool reproducible;
} chosen;

static const struct cli_option options[] = {
    PLACEMENT_OPTIONS(chosen.on),
    CLI_INTEGER("root", 0, "R", &chosen.root, "0", 0, 65535, "the root, or the sender of a message",
                .default_text = "rank 0"),
    CLI_INTEGER("simulated", 0, "N", &chosen.simulated, "64", 1, 65536,
                "with more ranks than this, extrapolate costs as a communicator does instead of simulating",
                .advanced = true),
    CLI_FLAG("reproducible", 0, &chosen.reproducible, "only schedules that keep the canonical order of sums"),
};

/* "12.3 us", "4.56 ms". */
static char *time_text(double seconds, char *buffer, size_t size)
{
    if (seconds < 1e-3)
        snprintf(buffer, size, "%.2f us", seconds * 1e6);
    else
        snprintf(buffer, size, "%.2f ms", seconds * 1e3);
    return buffer;
}

static void print_link(FILE *output, const char *name, const struct link_parameters *link)
{
    char latency[32], overhead[32];
    fprintf(output, "  %s: latency %s, %s a message, %.2f GB/s\n", name,
            time_text(link->latency, latency, sizeof latency), time_text(link->overhead, overhead, sizeof overhead),
            link->bandwidth * 1e-9);
}

static int by_price(const void *first, const void *second)
{
    const struct algorithm_price *a = first, *b = second;
    if (!a->refusal != !b->refusal)
        return a->refusal ? 1 : -1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* `measured` has the results of a sweep at this size, if there was one. */
static void print_prices(FILE *output, const struct algorithm_prices *prices, const struct sweep_record *measured,
                         uint64_t block_bytes)
{
    struct algorithm_prices sorted = *prices;
    const struct algorithm *choice = prices->prices[prices->chosen].algorithm;
    qsort(sorted.prices, sorted.count, sizeof *sorted.prices, by_price);
    for (size_t i = 0; i < sorted.count; i++) {
        const struct algorithm_price *price = &sorted.prices[i];
        char time[32], found[32];
        double seconds = sweep_record_find(measured, block_bytes, price->algorithm->name);
        fprintf(output, "%c %-27s %12s %12s", price->algorithm == choice ? '*' : ' ', price->algorithm->name,
                price->refusal       ? "-"
                : price->seconds > 0 ? time_text(price->seconds, time, sizeof time)
                                     : "not priced",
                seconds > 0 ? time_text(seconds, found, sizeof found) : "-");
        if (price->refusal)
            fprintf(output, "  not considered: %s", price->refusal);
        else if (price->algorithm == choice)
            fprintf(output, "  chosen: %s", prices->reason);
        fputc('\n', output);
    }
}

/* If no sweep has measured this size: list the sizes that were measured. */
static void print_sizes_measured(FILE *output, const struct sweep_record *measured, uint64_t block_bytes)
{
    char bytes[32];
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < measured->count; i++)
        if (measured->figures[i].block_bytes == block_bytes)
            return;
    if (measured->count)
        fprintf(output, "  measured are blocks of");
    else if (bench_collective_find(measured->place.collective))
        fprintf(output, "  nothing is measured yet: weft bench %s --sweep does that", measured->place.collective);
    else
        return;
    for (size_t i = 0; i < measured->count; i++) {
        if (measured->figures[i].block_bytes != last)
            fprintf(output, "%s %s", last == UINT64_MAX ? "" : ",",
                    text_bytes(measured->figures[i].block_bytes, bytes, sizeof bytes));
        last = measured->figures[i].block_bytes;
    }
    fputc('\n', output);
}

/* "12 ranks on 6 nodes under 3 leaves" */
static void print_shape(FILE *output, const struct schedule_shape *shape)
{
    static const char *const places[][2] = {{"node", "nodes"}, {"leaf", "leaves"}, {"pod", "pods"}};
    fprintf(output, "%u rank%s", shape->ranks, shape->ranks == 1 ? "" : "s");
    for (uint32_t level = 0; level < shape_levels(shape); level++) {
        uint32_t units = shape_units(shape, level);
        fprintf(output, " %s %u %s", level == 0 ? "on" : level == 1 ? "under" : "in", units, places[level][units != 1]);
    }
}

static weft_status explain(FILE *output, const struct simulated_cluster *cluster, const char *source,
                           const struct schedule_shape *shape, struct error *error)
{
    static const char *const names[] = {"leaves", "pods"};
    struct algorithm_prices prices;
    char bytes[32];
    weft_status status = simulate_prices(cluster, shape, (uint32_t)chosen.simulated, &prices, error);
    if (status != WEFT_OK)
        return status;
    fprintf(output, "%s, blocks of %s, ", collective_name(shape->collective),
            text_bytes(shape->block_bytes, bytes, sizeof bytes));
    print_shape(output, shape);
    fprintf(output, "; %s\n", source);
    print_link(output, "near", &cluster->near);
    if (shape_levels(shape) && shape_units(shape, 0) > 1)
        print_link(output, "far", &cluster->far);
    for (uint32_t level = 1; level < shape_levels(shape); level++)
        if (cluster->above[level - 1].bandwidth > 0)
            print_link(output, names[level - 1], &cluster->above[level - 1]);
    fprintf(output, "  %-27s %12s %12s\n", "algorithm", "predicted", "measured");
    struct sweep_record measured = {.place = {.collective = collective_name(shape->collective),
                                              .ranks = shape->ranks,
                                              .nodes = shape_levels(shape) ? shape_units(shape, 0) : 1}};
    sweep_record_kind_here(measured.place.kind);
    sweep_record_load(&measured);
    print_prices(output, &prices, &measured, shape->block_bytes);
    print_sizes_measured(output, &measured, shape->block_bytes);
    sweep_record_free(&measured);
    return WEFT_OK;
}

/* Explain for the placement of the options or of the world, on measured links or those of a cluster file. */
static weft_status explain_here(weft_context *context, enum collective collective, uint64_t bytes, FILE *output,
                                struct error *error)
{
    struct placement placement = {0};
    struct schedule_shape shape = {.collective = collective,
                                   .root = (uint32_t)chosen.root,
                                   .reproducible = chosen.reproducible,
                                   .block_bytes = bytes};
    struct simulated_cluster cluster = context->tuner.cluster;
    char source[CLUSTER_TEXT_BYTES];
    snprintf(source, sizeof source, "%s", context->tuner.source);
    weft_status status = WEFT_OK;
    if (context->ranks > 1 && !chosen.on.cluster) {
        shape.ranks = context->world->size; /* the world that a launcher made */
        shape.nodes = context->world->nodes;
        for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
            shape.above[level] = context->world->above[level];
    } else {
        status = placement_open(&placement, &chosen.on, error);
        placement_apply(&placement, &shape);
    }
    if (status == WEFT_OK && chosen.on.cluster) {
        cluster = tuner_cluster_of(&placement.file);
        snprintf(source, sizeof source, "links as the cluster file '%s' says", placement.file.name);
    }
    if (status == WEFT_OK && shape.root >= shape.ranks)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--root is %u, but there are only ranks 0 to %u", shape.root,
                           shape.ranks - 1);
    if (status == WEFT_OK && collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = (shape.root + 1) % shape.ranks;
    if (status == WEFT_OK)
        status = explain(output, &cluster, source, &shape, error);
    placement_close(&placement);
    return status;
}

static weft_status explain_run(struct command_call *call, struct error *error)
{
    enum collective collective;
    uint64_t bytes = 1 << 20;
    weft_context *context = NULL;
    weft_status status = collective_parse(call->words[0], &collective, error);
    if (status == WEFT_OK && call->word_count > 1)
        status = text_parse_bytes(call->words[1], "BYTES", &bytes, error);
    if (status != WEFT_OK)
        return status;
    status = command_check(NULL, weft_init(NULL, &context), error);
    if (status != WEFT_OK)
        return status;
    if (context->rank == 0)
        status = explain_here(context, collective, bytes, call->output, error);
    weft_finalize(context);
    return status;
}

const struct command command_explain = {
    .name = "explain",
    .group = COMMAND_UNDERSTAND,
    .summary = "show what every algorithm of a collective would cost, and which one is chosen",
    .description =
        "COLLECTIVE is as in 'weft schedule show'. BYTES is the size of a block: all of the data of an all-reduce, "
        "or one rank's part of a gather or scatter (default 1M).\n\n"
        "Predictions come from simulating each schedule on the measured links. Next to them are the results of "
        "'weft bench --sweep' on this kind of machine with the same numbers of ranks and nodes, if there are any. "
        "Under a launcher, the placement of its ranks is used; with --cluster, the links and levels of a cluster "
        "file.",
    .examples = "weft explain allreduce 4M\n"
                "weft explain allreduce 64 --ranks 16 --nodes 4\n"
                "weft explain allreduce 64M --cluster dgx-h100-8\n"
                "weft run --hosts hosta:2,hostb:2 -- weft explain allgather 1M\n",
    .words = "COLLECTIVE [BYTES]",
    COMMAND_OPTIONS(options),
    .run = explain_run,
};
