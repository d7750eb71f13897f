/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule load`: read a schedule that a user wrote, prove it, and compare its predicted time with Weft's own. */
#include "cli/understand/schedule_load.h"

#include "base/text.h"
#include "cli/understand/placement.h"
#include "core/collective/tuner/tuner.h"
#include "core/schedule/text/print.h"
#include "core/schedule/text/read.h"
#include "core/schedule/verify/sweep.h"

#include <inttypes.h>
#include <stdlib.h>

static struct {
    int64_t ranks, nodes, root, rank, cores;
    const char *cluster;
    bool show, reproducible;
    uint64_t least, most;
    double near_latency, near_bandwidth, latency, bandwidth;
} load;

static const struct cli_option options[] = {
    CLI_INTEGER("ranks", 'n', "N", &load.ranks, "4", 1, 1024,
                "number of ranks to prove it for, if the schedule works with any"),
    CLI_INTEGER("nodes", 'N', "N", &load.nodes, "1", 1, 1024, "nodes that the ranks lie on, in equal runs"),
    CLI_TEXT("cluster", 'c', "NAME", &load.cluster, NULL,
             "a cluster (dgx-a100-16, or a file): leaves that nodes lie under, and links instead of those of options"),
    CLI_INTEGER("root", 0, "R", &load.root, "0", 0, 1023, "the root, if the schedule works with any"),
    CLI_FLAG("show", 's', &load.show, "print the schedules of all ranks, numbers worked out"),
    CLI_INTEGER("rank", 'r', "R", &load.rank, "-1", -1, 1023, "print the schedule of this rank",
                .default_text = "none"),
    CLI_BYTES("min", 0, "SIZE", &load.least, "1K", "smallest block to time"),
    CLI_BYTES("max", 0, "SIZE", &load.most, "16M", "largest block to time"),
    CLI_NUMBER("near-latency", 0, "US", &load.near_latency, "0.06", 0, 1e6, "between ranks of a node, microseconds"),
    CLI_NUMBER("near-bandwidth", 0, "GB/S", &load.near_bandwidth, "10", 0.001, 1e6, "between ranks of a node"),
    CLI_NUMBER("latency", 0, "US", &load.latency, "8", 0, 1e6, "between nodes, microseconds"),
    CLI_NUMBER("bandwidth", 0, "GB/S", &load.bandwidth, "2.5", 0.001, 1e6, "of a node's interface, each way"),
    CLI_INTEGER("cores", 0, "N", &load.cores, "0", 0, 65536, "cores of a node", .default_text = "one per rank"),
};

static struct simulated_cluster described_cluster(const struct schedule_shape *shape, const struct cluster_file *file)
{
    struct simulated_cluster cluster = tuner_default_cluster();
    if (file->level_count)
        return tuner_cluster_of(file);
    cluster.near.latency = load.near_latency * 1e-6;
    cluster.near.bandwidth = load.near_bandwidth * 1e9;
    cluster.far.latency = load.latency * 1e-6;
    cluster.far.bandwidth = load.bandwidth * 1e9;
    cluster.cores = load.cores ? (uint32_t)load.cores : shape->ranks;
    return cluster;
}

/* Print its time and that of Weft's best algorithm for each size. */
static weft_status print_times(struct schedule *const *schedules, struct schedule_shape shape,
                               const struct cluster_file *file, FILE *output, struct error *error)
{
    struct simulated_cluster cluster = described_cluster(&shape, file);
    fprintf(output, "  %12s %16s %16s  %s\n", "block", "predicted us", "Weft's own us", "by");
    for (uint64_t bytes = load.least; bytes && bytes <= load.most; bytes = bytes > load.most / 4 ? 0 : bytes * 4) {
        struct algorithm_prices prices;
        double seconds;
        char text[32];
        if (schedules[0]->most_block_bytes && bytes > schedules[0]->most_block_bytes)
            break;
        shape.block_bytes = bytes;
        weft_status status = schedule_simulate(schedules, shape.ranks, &shape, &cluster, bytes, &seconds, error);
        if (status == WEFT_OK)
            status = simulate_prices(&cluster, &shape, SIMULATED_RANKS, &prices, error);
        if (status != WEFT_OK)
            return status;
        const struct algorithm_price *best = &prices.prices[prices.chosen];
        fprintf(output, "  %12s %16.2f ", text_bytes(bytes, text, sizeof text), seconds * 1e6);
        if (best->seconds > 0)
            fprintf(output, "%16.2f  %s\n", best->seconds * 1e6, best->algorithm->name);
        else
            fprintf(output, "%16s  %s\n", "-", best->algorithm->name);
    }
    return WEFT_OK;
}

static weft_status prove_and_tell(const struct schedule_text *written, const struct schedule_shape *shape,
                                  const struct cluster_file *file, FILE *output, struct error *error)
{
    struct schedule **schedules;
    uint64_t steps = 0, sends = 0;
    weft_status status = schedule_text_prove(written, shape, &schedules, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        for (uint32_t i = 0; i < schedules[rank]->step_count; i++, steps++)
            sends += schedules[rank]->steps[i].kind == STEP_SEND;
    if (load.show || load.rank >= 0) {
        schedule_print_frame(schedules[0], shape, output);
        for (uint32_t rank = 0; rank < shape->ranks; rank++)
            if (load.show || load.rank == rank)
                schedule_print(schedules[rank], output);
    } else {
        fprintf(output,
                "%s by %s over %u rank%s on %" PRId64 " node%s is proved: %" PRIu64 " steps, %" PRIu64
                " of them messages; %s\n",
                collective_name(shape->collective), schedule_text_algorithm(written), shape->ranks,
                shape->ranks == 1 ? "" : "s", load.nodes, load.nodes == 1 ? "" : "s", steps, sends,
                !collective_reduces(shape->collective) ? "every block once, where it belongs"
                : schedules[0]->canonical              ? "sums in the canonical order"
                                          : "sums of every contribution, each once, in an order of its own");
        if (shape->collective != COLLECTIVE_BARRIER)
            status = print_times(schedules, *shape, file, output, error);
    }
    sweep_free(schedules, shape->ranks);
    return status;
}

static weft_status schedule_load_run(struct command_call *call, struct error *error)
{
    struct schedule_text *written;
    struct placement placement = {0};
    weft_status status = schedule_text_read(call->words[0], &written, error);
    if (status != WEFT_OK)
        return status;
    uint32_t ranks = schedule_text_ranks(written) ? schedule_text_ranks(written) : (uint32_t)load.ranks;
    struct schedule_shape shape = {.collective = schedule_text_collective(written),
                                   .ranks = ranks,
                                   .root = schedule_text_root(written, (uint32_t)load.root),
                                   .in_place = schedule_text_in_place(written),
                                   .block_bytes = load.most};
    if (shape.collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = schedule_text_peer(written, (shape.root + 1) % ranks);
    if (load.rank >= ranks)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--rank is %" PRId64 ", but there are only ranks 0 to %u",
                           load.rank, ranks - 1);
    const struct placement_options on = {ranks, load.nodes, load.cluster};
    if (status == WEFT_OK)
        status = placement_open(&placement, &on, error);
    if (status == WEFT_OK) {
        placement_apply(&placement, &shape);
        status = prove_and_tell(written, &shape, &placement.file, call->output, error);
    }
    placement_close(&placement);
    schedule_text_free(written);
    return status;
}

const struct command command_schedule_load = {
    .name = "load",
    .summary = "read a schedule that you wrote, prove it, time it in simulation",
    .description =
        "FILE is a schedule as 'weft schedule show --all' prints it, or written by hand, for one number of ranks "
        "or for any (docs/schedule-format.md). It is proved by the same rules as Weft's own schedules; a wrong one "
        "is refused with the rank, the step and the reason. Then its time is predicted on the links that the "
        "options describe, next to the best of Weft's algorithms.\n\n"
        "To run it: 'weft bench COLLECTIVE --schedule FILE', or weft_comm_load_schedule() in a program.",
    .examples = "weft schedule load ring.weft --ranks 8\n"
                "weft schedule load ring.weft --ranks 8 --nodes 4 --bandwidth 12.5 --latency 3\n"
                "weft schedule load ring.weft --ranks 8 --rank 3\n",
    .words = "FILE",
    COMMAND_OPTIONS(options),
    .run = schedule_load_run,
};
