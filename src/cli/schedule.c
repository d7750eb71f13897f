/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule`: shows the plans that ranks run, and proves them. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/placement.h"
#include "schedule/print.h"
#include "schedule/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- show ------------------------------------------------------------------------------------------------------ */

static struct {
    int64_t ranks, rank, root, nodes;
    const char *algorithm;
    uint64_t bytes;
    bool reproducible, in_place;
} show;

static const struct cli_option show_options[] = {
    CLI_INTEGER("ranks", 'n', "N", &show.ranks, "4", 1, 65536, "how many ranks take part"),
    CLI_TEXT("algorithm", 'a', "NAME", &show.algorithm, "", "the algorithm; without it those there are get listed"),
    CLI_INTEGER("rank", 'r', "R", &show.rank, "0", 0, 65535, "whose plan; the others differ in their peers"),
    CLI_INTEGER("root", 0, "R", &show.root, "0", 0, 65535, "the root, or the sender of a message"),
    CLI_INTEGER("nodes", 'N', "N", &show.nodes, "1", 1, 65536, "nodes that the ranks lie on, in equal runs"),
    CLI_BYTES("bytes", 'b', "SIZE", &show.bytes, "64K", "bytes of a block"),
    CLI_FLAG("reproducible", 0, &show.reproducible, "only plans that keep the canonical order of sums"),
    CLI_FLAG("in-place", 0, &show.in_place, "an all-to-all whose input is its output"),
};

static void list_algorithms(const struct plan_shape *shape, FILE *output)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape->collective, &count);
    fprintf(output, "%s has these algorithms; show one with --algorithm NAME\n", collective_name(shape->collective));
    for (size_t i = 0; i < count; i++) {
        const char *reason = algorithm_refuses(&algorithms[i], shape);
        fprintf(output, "  %-18s  %s%s%s%s\n", algorithms[i].name, algorithms[i].summary, reason ? " (not here: " : "",
                reason ? reason : "", reason ? ")" : "");
    }
}

static weft_status run_show(struct command_call *call, struct error *error)
{
    enum collective collective;
    weft_status status = collective_parse(call->words[0], &collective, error);
    if (status != WEFT_OK)
        return status;
    if (show.rank >= show.ranks || show.root >= show.ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--rank %" PRId64 " and --root %" PRId64 " must be below --ranks %" PRId64, show.rank,
                         show.root, show.ranks);
    uint32_t *nodes;
    status = placement_of((uint32_t)show.ranks, (uint32_t)show.nodes, &nodes, error);
    if (status != WEFT_OK)
        return status;
    struct plan_shape shape = {.collective = collective,
                               .ranks = (uint32_t)show.ranks,
                               .root = (uint32_t)show.root,
                               .nodes = nodes,
                               .reproducible = show.reproducible,
                               .in_place = show.in_place,
                               .block_bytes = show.bytes};
    if (collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = (shape.root + 1) % shape.ranks;
    const struct algorithm *algorithm = NULL;
    struct plan *plan = NULL;
    if (!*show.algorithm) {
        list_algorithms(&shape, call->output);
    } else if (!(algorithm = algorithm_find(collective, show.algorithm, error))) {
        status = WEFT_ERROR_ARGUMENT;
    } else {
        status = plan_generate(algorithm, &shape, (uint32_t)show.rank, &plan, error);
        if (status == WEFT_OK)
            plan_print(plan, call->output);
    }
    plan_free(plan);
    free(nodes);
    return status;
}

static const struct command command_show = {
    .name = "show",
    .summary = "print the plan that a rank runs",
    .description =
        "Prints the steps of one rank, lane by lane. Steps of a lane follow one another; lanes run side by side, "
        "a step waiting only for what it says.",
    .examples = "weft schedule show allreduce\n"
                "weft schedule show allreduce --ranks 8 --algorithm ring\n"
                "weft schedule show allreduce --ranks 8 --nodes 2 --algorithm two-level --bytes 4M --rank 3\n",
    .words = "COLLECTIVE",
    .least_words = 1,
    .most_words = 1,
    .options = show_options,
    .option_count = sizeof show_options / sizeof *show_options,
    .run = run_show,
};

/* ---- verify ---------------------------------------------------------------------------------------------------- */

static struct {
    bool all;
    const char *ranks, *algorithm;
} verify;

static const struct cli_option verify_options[] = {
    CLI_FLAG("all", 0, &verify.all, "all collectives"),
    CLI_TEXT("ranks", 'n', "RANGE", &verify.ranks, "1..16", "numbers of ranks: 8, or 1..64"),
    CLI_TEXT("algorithm", 'a', "NAME", &verify.algorithm, "", "only this algorithm"),
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

/* Prove every algorithm (or the one asked for) of one collective; a line for each. */
static weft_status verify_collective(enum collective collective, int64_t first, int64_t last, FILE *output,
                                     uint64_t *total, struct error *error)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(collective, &count);
    for (size_t i = 0; i < count; i++) {
        if (*verify.algorithm && strcmp(verify.algorithm, algorithms[i].name) != 0)
            continue;
        uint64_t proved = 0, start = clock_now();
        for (int64_t ranks = first; ranks <= last; ranks++) {
            weft_status status =
                sweep_shapes(collective, &algorithms[i], (uint32_t)ranks, sweep_verify, &proved, error);
            if (status != WEFT_OK)
                return status;
        }
        fprintf(output, "%-15s %-19s %6" PRIu64 " sets of plans proved %8.2f s\n", collective_name(collective),
                algorithms[i].name, proved, (double)(clock_now() - start) * 1e-9);
        fflush(output);
        *total += proved;
    }
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
    uint64_t total = 0, start = clock_now();
    for (unsigned i = 0; i < COLLECTIVES && status == WEFT_OK; i++)
        if (verify.all || i == only)
            status = verify_collective((enum collective)i, first, last, call->output, &total, error);
    if (status != WEFT_OK)
        return status;
    if (!total)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no collective has an algorithm '%s' for these numbers of ranks",
                         verify.algorithm);
    fprintf(call->output, "%" PRIu64 " sets of plans proved, %" PRId64 " to %" PRId64 " ranks, %.2f s\n", total, first,
            last, (double)(clock_now() - start) * 1e-9);
    return WEFT_OK;
}

static const struct command command_verify = {
    .name = "verify",
    .summary = "prove that plans compute what they claim",
    .description = "Runs the plans of all ranks symbolically, on many placements of ranks on nodes, for small and "
                   "large blocks, in place "
                   "and not, with buffers registered and ordinary: every contribution arrives exactly once, sums "
                   "follow the canonical "
                   "tree where promised, sends and receives match, nothing waits for ever, no two accesses of memory "
                   "are unordered.",
    .examples = "weft schedule verify allreduce --ranks 2..8\n"
                "weft schedule verify --all --ranks 1..64\n",
    .words = "[COLLECTIVE]",
    .most_words = 1,
    .options = verify_options,
    .option_count = sizeof verify_options / sizeof *verify_options,
    .run = run_verify,
};

static const struct command *const subcommands[] = {&command_show, &command_verify};

const struct command command_schedule = {
    .name = "schedule",
    .group = COMMAND_UNDERSTAND,
    .summary = "show and prove the plans that collectives run",
    .subcommands = subcommands,
    .subcommand_count = sizeof subcommands / sizeof *subcommands,
};
