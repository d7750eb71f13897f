/* SPDX-License-Identifier: Apache-2.0 */
/* `weft trace`: summarize timelines. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "observe/inspect/timeline.h"

#include <inttypes.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "print JSON"),
};

static double trace_share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static weft_status trace_print_json(const struct timeline *timeline, FILE *out, struct error *error)
{
    struct json_writer text;
    json_begin(&text, JSON_INDENTED);
    json_open_object(&text, NULL);
    json_open_array(&text, "operations");
    for (uint32_t i = 0; i < timeline->kind_count; i++) {
        const struct timeline_kind *kind = &timeline->kinds[i];
        JSON_PUT_OBJECT(&text, NULL, "name", kind->name, "algorithm", kind->algorithm, "calls", kind->calls, "bytes",
                        kind->bytes, "time", kind->time, "waited", kind->waited, "inner", kind->inner, "outer",
                        kind->outer, "overlapped", kind->overlapped);
    }
    json_close(&text);
    json_open_array(&text, "ranks");
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        const struct timeline_rank *rank = &timeline->ranks[r];
        JSON_PUT_OBJECT(&text, NULL, "rank", rank->rank, "host", rank->host, "operations", rank->operations, "lost",
                        rank->lost, "span", rank->last - rank->first, "inside", rank->inside, "waited", rank->waited,
                        "late_mean", rank->late_mean, "late_most", rank->late_most, "late_last", rank->late_last,
                        "clock_uncertainty", rank->clock_uncertainty);
    }
    return json_complete(&text, out, error);
}

static void print_kinds(const struct timeline *timeline, FILE *out)
{
    char mean[32], bytes[32];
    fprintf(out, "%-16s %-32s %9s %10s %10s %8s\n", "operation", "algorithm", "calls", "bytes each", "time each",
            "waiting");
    for (uint32_t i = 0; i < timeline->kind_count; i++) {
        const struct timeline_kind *kind = &timeline->kinds[i];
        fprintf(out, "%-16s %-32s %9" PRIu64 " %10s %10s %7.0f%%\n", kind->name, kind->algorithm, kind->calls,
                text_bytes(kind->bytes / kind->calls, bytes, sizeof bytes),
                text_seconds(kind->time / (double)kind->calls, mean, sizeof mean),
                100 * trace_share(kind->waited, kind->time));
    }
}

static void print_ranks(const struct timeline *timeline, FILE *out)
{
    char span[32], mean[32], most[32];
    bool apart = false;
    fprintf(out, "\n%4s  %-12s %10s %8s %10s %8s %10s %10s %12s\n", "rank", "host", "operations", "span", "in them",
            "waiting", "late, mean", "most", "last of all");
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        const struct timeline_rank *rank = &timeline->ranks[r];
        apart |= rank->clock_uncertainty > 0;
        fprintf(out, "%4u  %-12s %10" PRIu64 " %8s %9.0f%% %7.0f%% %10s %10s %11.0f%%\n", rank->rank, rank->host,
                rank->operations, text_seconds(rank->last - rank->first, span, sizeof span),
                100 * trace_share(rank->inside, rank->last - rank->first),
                100 * trace_share(rank->waited, rank->inside), text_seconds(rank->late_mean, mean, sizeof mean),
                text_seconds(rank->late_most, most, sizeof most),
                100 * trace_share((double)rank->late_last, (double)rank->late_operations));
    }
    for (uint32_t r = 0; r < timeline->rank_count; r++)
        if (timeline->ranks[r].lost)
            fprintf(out, "rank %u has lost its first %" PRIu64 " of %" PRIu64 " events; WEFT_TRACE_EVENTS keeps more\n",
                    timeline->ranks[r].rank, timeline->ranks[r].lost, timeline->ranks[r].events);
    if (apart)
        fprintf(out, "clocks of other machines are known to");
    for (uint32_t r = 0; apart && r < timeline->rank_count; r++)
        if (timeline->ranks[r].clock_uncertainty > 0)
            fprintf(out, " %s (rank %u)", text_seconds(timeline->ranks[r].clock_uncertainty, most, sizeof most),
                    timeline->ranks[r].rank);
    fprintf(out, "%s", apart ? "\n" : "");
}

static void print_phases(const struct timeline *timeline, FILE *out)
{
    bool any = false;
    for (uint32_t i = 0; i < timeline->kind_count; i++) {
        const struct timeline_kind *kind = &timeline->kinds[i];
        char inner[32], outer[32];
        if (!(kind->inner > 0))
            continue;
        if (!any)
            fprintf(out, "\nphases: inner is work in the memory of a node, outer is messages between nodes\n");
        any = true;
        fprintf(out, "%s by %s: inner %s, %.0f%% of it overlapping outer %s\n", kind->name, kind->algorithm,
                text_seconds(kind->inner, inner, sizeof inner), 100 * trace_share(kind->overlapped, kind->inner),
                text_seconds(kind->outer, outer, sizeof outer));
    }
}

static weft_status trace_show(struct command_call *call, struct error *error)
{
    struct timeline timeline;
    weft_status status = timeline_read(call->words[0], &timeline, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.json) {
        status = trace_print_json(&timeline, call->output, error);
    } else {
        print_kinds(&timeline, call->output);
        print_ranks(&timeline, call->output);
        print_phases(&timeline, call->output);
    }
    timeline_free(&timeline);
    return status;
}

static const struct command command_show = {
    .name = "show",
    .summary = "summarize a timeline",
    .description =
        "For each operation and algorithm: calls, bytes, time, and the share of that time in which nothing moved. "
        "For each rank: the time from its first operation to its last, the share spent in operations, the share of "
        "that spent waiting, and how late it entered operations after the first rank. For two-level algorithms: "
        "the time of work in shared memory, and the share of it that overlapped messages on the same node.\n\n"
        "The file can be opened in Perfetto (ui.perfetto.dev) or chrome://tracing.",
    .examples = "weft run -n 4 --trace timeline.json -- ./program\nweft trace show timeline.json\n",
    .words = "FILE",
    COMMAND_OPTIONS(options),
    .run = trace_show,
};

const struct command command_trace = {
    .name = "trace",
    .group = COMMAND_UNDERSTAND,
    .summary = "summarize a timeline written by --trace or WEFT_TRACE",
    COMMAND_SUBCOMMANDS(&command_show),
};
