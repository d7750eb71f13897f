/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule`: show the schedules that ranks run, and prove them. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/understand/placement.h"
#include "cli/understand/schedule_load.h"
#include "core/schedule/text/print.h"
#include "core/schedule/verify/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- show ---- */

static struct {
    struct placement_options on;
    int64_t rank, root;
    const char *algorithm;
    uint64_t bytes;
    bool reproducible, in_place, all;
} show;

static const struct cli_option show_options[] = {
    PLACEMENT_OPTIONS(show.on),
    CLI_TEXT("algorithm", 'a', "NAME", &show.algorithm, "", "show this algorithm",
             .default_text = "list all algorithms"),
    CLI_INTEGER("rank", 'r', "R", &show.rank, "0", 0, 65535,
                "print the schedule of this rank; those of others differ only in their peers"),
    CLI_FLAG("all", 0, &show.all, "the schedules of all ranks, in the form that 'weft schedule load' reads"),
    CLI_INTEGER("root", 0, "R", &show.root, "0", 0, 65535, "the root, or the sender of a message",
                .default_text = "rank 0"),
    CLI_BYTES("bytes", 'b', "SIZE", &show.bytes, "64K", "size of a block"),
    CLI_FLAG("reproducible", 0, &show.reproducible, "only schedules that keep the canonical order of sums"),
    CLI_FLAG("in-place", 0, &show.in_place, "an all-to-all whose input is its output"),
};

static void list_algorithms(const struct schedule_shape *shape, FILE *output)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape->collective, &count);
    fprintf(output, "%s has these algorithms; show one with --algorithm NAME\n", collective_name(shape->collective));
    for (size_t i = 0; i < count; i++) {
        const char *reason = algorithm_refuses(&algorithms[i], shape);
        fprintf(output, "  %-26s  %s%s%s%s\n", algorithms[i].name, algorithms[i].summary, reason ? " (not here: " : "",
                reason ? reason : "", reason ? ")" : "");
    }
}

static weft_status show_schedules(const struct algorithm *algorithm, const struct schedule_shape *shape, FILE *output,
                                  struct error *error)
{
    uint32_t first = show.all ? 0 : (uint32_t)show.rank, last = show.all ? shape->ranks - 1 : first;
    for (uint32_t rank = first; rank <= last; rank++) {
        struct schedule *schedule;
        weft_status status = schedule_generate(algorithm, shape, rank, &schedule, error);
        if (status != WEFT_OK)
            return status;
        if (rank == first)
            schedule_print_frame(schedule, shape, output);
        schedule_print(schedule, output);
        schedule_free(schedule);
    }
    return WEFT_OK;
}

static weft_status schedule_show_run(struct command_call *call, struct error *error)
{
    enum collective collective;
    weft_status status = collective_parse(call->words[0], &collective, error);
    if (status != WEFT_OK)
        return status;
    struct placement placement;
    status = placement_open(&placement, &show.on, error);
    if (status != WEFT_OK)
        return status;
    struct schedule_shape shape = {.collective = collective,
                                   .root = (uint32_t)show.root,
                                   .reproducible = show.reproducible,
                                   .in_place = show.in_place,
                                   .block_bytes = show.bytes};
    placement_apply(&placement, &shape);
    if (show.rank >= shape.ranks || show.root >= shape.ranks) {
        placement_close(&placement);
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--rank %" PRId64 " and --root %" PRId64 " must be below the number of ranks, %u", show.rank,
                         show.root, shape.ranks);
    }
    if (collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = (shape.root + 1) % shape.ranks;
    const struct algorithm *algorithm = NULL;
    if (!*show.algorithm)
        list_algorithms(&shape, call->output);
    else if (!(algorithm = algorithm_find(collective, show.algorithm, error)))
        status = WEFT_ERROR_ARGUMENT;
    else
        status = show_schedules(algorithm, &shape, call->output, error);
    placement_close(&placement);
    return status;
}

static const struct command command_show = {
    .name = "show",
    .summary = "print the schedule that a rank runs",
    .description =
        "Prints the steps of one rank, lane by lane. The steps of a lane run one after another; lanes run in "
        "parallel, and a step waits only for the steps it names.",
    .examples = "weft schedule show allreduce\n"
                "weft schedule show allreduce --ranks 8 --algorithm ring\n"
                "weft schedule show allreduce --ranks 8 --nodes 2 --algorithm two-level --bytes 4M --rank 3\n",
    .words = "COLLECTIVE",
    COMMAND_OPTIONS(show_options),
    .run = schedule_show_run,
};

/* ---- verify ---- */

static struct {
    bool all;
    const char *ranks, *algorithm;
    int64_t threads;
} verify;

static const struct cli_option verify_options[] = {
    CLI_FLAG("all", 0, &verify.all, "all collectives"),
    CLI_TEXT("ranks", 'n', "RANGE", &verify.ranks, "1..16", "numbers of ranks: 8, or 1..64"),
    CLI_TEXT("algorithm", 'a', "NAME", &verify.algorithm, "", "only this algorithm", .default_text = "all"),
    CLI_INTEGER("threads", 't', "N", &verify.threads, "2", 1, 256, "number of worker threads"),
};

static weft_status parse_range(const char *text, int64_t *first, int64_t *last, struct error *error)
{
    const char *dots = strstr(text, "..");
    char least[32];
    if (!dots || (size_t)(dots - text) >= sizeof least) {
        weft_status status = text_parse_integer(text, "--ranks", 1, 1024, first, error);
        *last = *first;
        return status;
    }
    memcpy(least, text, (size_t)(dots - text));
    least[dots - text] = '\0';
    weft_status status = text_parse_integer(least, "the beginning of --ranks", 1, 1024, first, error);
    return status == WEFT_OK ? text_parse_integer(dots + 2, "the end of --ranks", *first, 1024, last, error) : status;
}

/* Keep the jobs that were asked for, in their order; returns how many. */
static size_t select_jobs(struct sweep_job *jobs, size_t count, enum collective only)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if ((verify.all || jobs[i].collective == only) &&
            (!*verify.algorithm || strcmp(verify.algorithm, jobs[i].algorithm->name) == 0))
            jobs[kept++] = jobs[i];
    return kept;
}

/* Print a line per algorithm; returns the number of sets of schedules proved. */
static uint64_t print_proofs(const struct sweep_job *jobs, size_t count, FILE *output)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count;) {
        const struct sweep_job *first = &jobs[i];
        uint64_t proved = 0;
        double seconds = 0;
        for (; i < count && jobs[i].algorithm == first->algorithm; i++) {
            proved += jobs[i].count;
            seconds += jobs[i].seconds;
        }
        fprintf(output, "%-15s %-26s %6" PRIu64 " sets of schedules proved %8.2f s\n",
                collective_name(first->collective), first->algorithm->name, proved, seconds);
        total += proved;
    }
    return total;
}

static weft_status verify_range(enum collective only, uint32_t first, uint32_t last, FILE *output, struct error *error)
{
    uint32_t ranks[1024];
    for (uint32_t n = first; n <= last; n++)
        ranks[n - first] = n;
    struct sweep_job *jobs;
    size_t count;
    uint64_t start = clock_now();
    weft_status status = sweep_all(ranks, last - first + 1, &jobs, &count, error);
    if (status != WEFT_OK)
        return status;
    count = select_jobs(jobs, count, only);
    status = sweep_run(jobs, count, (uint32_t)verify.threads, sweep_verify, error);
    uint64_t total = status == WEFT_OK ? print_proofs(jobs, count, output) : 0;
    free(jobs);
    if (status != WEFT_OK)
        return status;
    if (!total)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no collective has an algorithm '%s' for these numbers of ranks",
                         verify.algorithm);
    fprintf(output, "%" PRIu64 " sets of schedules proved, %u to %u ranks, %.2f s\n", total, first, last,
            (double)(clock_now() - start) * 1e-9);
    return WEFT_OK;
}

static weft_status run_verify(struct command_call *call, struct error *error)
{
    int64_t first = 1, last = 1;
    enum collective only = COLLECTIVE_ALLREDUCE;
    weft_status status = parse_range(verify.ranks, &first, &last, error);
    if (status == WEFT_OK && verify.all == (call->word_count != 0))
        status = error_set(error, WEFT_ERROR_ARGUMENT, "name one collective, or give --all");
    if (status == WEFT_OK && call->word_count)
        status = collective_parse(call->words[0], &only, error);
    if (status == WEFT_OK && call->word_count && *verify.algorithm && !algorithm_find(only, verify.algorithm, error))
        status = WEFT_ERROR_ARGUMENT;
    return status == WEFT_OK ? verify_range(only, (uint32_t)first, (uint32_t)last, call->output, error) : status;
}

static const struct command command_verify = {
    .name = "verify",
    .summary = "prove that schedules compute what they claim",
    .description =
        "Runs the schedules of all ranks symbolically, on many placements of ranks on nodes, for small and large "
        "blocks, in place and out of place, with registered and ordinary buffers. It proves that every "
        "contribution arrives exactly once, sums follow the canonical tree where promised, sends and receives "
        "match, nothing waits forever, and no two memory accesses are unordered. Above 64 ranks it samples the "
        "placements.",
    .examples = "weft schedule verify allreduce --ranks 2..8\n"
                "weft schedule verify --all --ranks 1..64\n",
    .words = "[COLLECTIVE]",
    COMMAND_OPTIONS(verify_options),
    .run = run_verify,
};

const struct command command_schedule = {
    .name = "schedule",
    .group = COMMAND_UNDERSTAND,
    .summary = "show, prove and load the schedules that collectives run",
    COMMAND_SUBCOMMANDS(&command_schedule_load, &command_show, &command_verify),
};
