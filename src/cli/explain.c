/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain`: what the tuner would choose, at what price, and why not the others. */
#include "base/text.h"
#include "cli/command.h"
#include "cli/placement.h"
#include "collective/context.h"
#include "schedule/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int64_t ranks, nodes, root;
    bool reproducible;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "4", 1, 65536,
                "ranks to explain for; in a world that a launcher made, its own are taken"),
    CLI_INTEGER("nodes", 'N', "N", &chosen.nodes, "1", 1, 65536, "nodes that the ranks lie on, in equal runs"),
    CLI_INTEGER("root", 0, "R", &chosen.root, "0", 0, 65535, "the root, or the sender of a message"),
    CLI_FLAG("reproducible", 0, &chosen.reproducible, "only plans that keep the canonical order of sums"),
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
    const struct tuner_price *a = first, *b = second;
    if (!a->refusal != !b->refusal)
        return a->refusal ? 1 : -1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

static void print_prices(FILE *output, const struct tuner_prices *prices)
{
    struct tuner_prices sorted = *prices;
    const struct algorithm *choice = prices->prices[prices->chosen].algorithm;
    qsort(sorted.prices, sorted.count, sizeof *sorted.prices, by_price);
    for (size_t i = 0; i < sorted.count; i++) {
        const struct tuner_price *price = &sorted.prices[i];
        char time[32];
        fprintf(output, "%c %-24s %12s", price->algorithm == choice ? '*' : ' ', price->algorithm->name,
                price->refusal       ? "-"
                : price->seconds > 0 ? time_text(price->seconds, time, sizeof time)
                                     : "not priced");
        if (price->refusal)
            fprintf(output, "  no candidate: %s", price->refusal);
        else if (price->algorithm == choice)
            fprintf(output, "  chosen: %s", prices->reason);
        fputc('\n', output);
    }
}

static weft_status explain(FILE *output, const struct tuner *tuner, const struct plan_shape *shape, uint32_t nodes,
                           struct error *error)
{
    struct tuner_prices prices;
    char bytes[32];
    weft_status status = tuner_price(&tuner->cluster, shape, &prices, error);
    if (status != WEFT_OK)
        return status;
    fprintf(output, "%s, blocks of %s, %u rank%s on %u node%s; links are %s\n", collective_name(shape->collective),
            text_bytes(shape->block_bytes, bytes, sizeof bytes), shape->ranks, shape->ranks == 1 ? "" : "s", nodes,
            nodes == 1 ? "" : "s", tuner->source);
    print_link(output, "near", &tuner->cluster.near);
    if (nodes > 1)
        print_link(output, "far", &tuner->cluster.far);
    fprintf(output, "  %-24s %12s\n", "algorithm", "predicted");
    print_prices(output, &prices);
    return WEFT_OK;
}

/* The shape of the world, if a launcher made one, or of what the options describe. */
static weft_status make_shape(weft_comm *world, enum collective collective, uint64_t bytes, struct plan_shape *shape,
                              uint32_t *nodes, struct error *error)
{
    bool launched = weft_comm_size(world) > 1;
    uint32_t *placed = NULL;
    uint32_t ranks = launched ? (uint32_t)weft_comm_size(world) : (uint32_t)chosen.ranks;
    *nodes = launched ? (uint32_t)weft_comm_nodes(world) : (uint32_t)chosen.nodes;
    if (chosen.root >= ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--root is %" PRId64 ", but there are only ranks 0 to %u",
                         chosen.root, ranks - 1);
    weft_status status = placement_of(ranks, *nodes, &placed, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t rank = 0; launched && rank < ranks; rank++)
        placed[rank] = (uint32_t)weft_comm_node_of(world, (int)rank);
    *shape = (struct plan_shape){.collective = collective,
                                 .ranks = ranks,
                                 .root = (uint32_t)chosen.root,
                                 .nodes = placed,
                                 .reproducible = chosen.reproducible,
                                 .block_bytes = bytes};
    if (collective == COLLECTIVE_SENDRECEIVE)
        shape->peer = (shape->root + 1) % ranks;
    return WEFT_OK;
}

static weft_status run(struct command_call *call, struct error *error)
{
    enum collective collective;
    uint64_t bytes = 1 << 20;
    weft_context *context = NULL;
    struct plan_shape shape = {0};
    uint32_t nodes = 0;
    weft_status status = collective_parse(call->words[0], &collective, error);
    if (status == WEFT_OK && call->word_count > 1)
        status = text_parse_bytes(call->words[1], "BYTES", &bytes, error);
    if (status != WEFT_OK)
        return status;
    status = weft_init(NULL, &context);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(NULL));
    status = make_shape(weft_world(context), collective, bytes, &shape, &nodes, error);
    if (status == WEFT_OK && weft_comm_rank(weft_world(context)) == 0)
        status = explain(call->output, &context->tuner, &shape, nodes, error);
    free((void *)shape.nodes);
    weft_finalize(context);
    return status;
}

const struct command command_explain = {
    .name = "explain",
    .group = COMMAND_UNDERSTAND,
    .summary = "show what every algorithm of a collective would cost, and which one is chosen",
    .description =
        "COLLECTIVE is as in 'weft schedule show'; BYTES is the size of a block, which is all of the data in an "
        "all-reduce, and what one rank gives or gets of a gather or scatter (default 1M).\n\n"
        "Prices come from simulating each plan on the links as they were measured. Under a launcher the world's own "
        "placement is taken.",
    .examples = "weft explain allreduce 4M\n"
                "weft explain allreduce 64 --ranks 16 --nodes 4\n"
                "weft run --hosts hosta:2,hostb:2 -- weft explain allgather 1M\n",
    .words = "COLLECTIVE [BYTES]",
    .least_words = 1,
    .most_words = 2,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
