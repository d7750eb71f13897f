/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench`: how long collectives take here, with nccl-tests' columns, every result checked. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/launch_self.h"
#include "cli/measure/bench_print.h"
#include "cli/measure/bench_progress.h"
#include "cli/measure/bench_sweep.h"
#include "cli/measure/bench_train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "u32", "i64", "u64", NULL};
static const char *const ops[] = {"sum", "average", "product", "min", "max", "scaled-sum", NULL};
static const char *const buffer_kinds[] = {"registered", "ordinary", NULL};
static const char *const places[] = {"both", "out", "in", NULL};

static struct {
    int64_t ranks, factor, root, rounds;
    uint64_t least, most;
    const char *type, *op, *buffers, *place, *algorithm, *schedule, *trace;
    double compute;
    bool reproducible, json, sweep;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("What is measured"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 65536, "start N ranks on this machine",
                .default_text = "the ranks that weft run, mpirun, srun or torchrun started"),
    CLI_BYTES("min", 'b', "BYTES", &chosen.least, "4",
              "smallest size; for gathers and scatters, the whole larger side"),
    CLI_BYTES("max", 'e', "BYTES", &chosen.most, "64M", "largest size"),
    CLI_INTEGER("factor", 'f', "N", &chosen.factor, "4", 2, 1024, "factor between sizes", .advanced = true),
    CLI_CHOICE("type", 't', "TYPE", &chosen.type, "f32", types, "type of the elements"),
    CLI_CHOICE("op", 'o', "OP", &chosen.op, "sum", ops, "the reduction; scaled-sum halves the sum"),
    CLI_CHOICE("place", 'p', "PLACE", &chosen.place, "both", places,
               "result in the input's memory, elsewhere, or both in turn", .advanced = true),
    CLI_INTEGER("root", 'r', "RANK", &chosen.root, "0", 0, 65535, "root of broadcast and reduce", .advanced = true),
    CLI_CHOICE("buffers", 0, "KIND", &chosen.buffers, "registered", buffer_kinds,
               "memory from weft_alloc() or from malloc()", .advanced = true),
    CLI_FLAG("reproducible", 0, &chosen.reproducible, "keep the canonical order of sums on any placement",
             .advanced = true),
    CLI_NUMBER("compute", 0, "SECONDS", &chosen.compute, "0.02", 0, 60, "overlap: time computed between start and wait",
               .advanced = true),
    CLI_GROUP("Algorithm"),
    CLI_TEXT("algorithm", 'a', "NAME", &chosen.algorithm, NULL, "use this algorithm instead of the tuner's choice"),
    CLI_FLAG("sweep", 0, &chosen.sweep,
             "measure every algorithm and compare the tuner's choice with the best; kept for weft explain"),
    CLI_INTEGER("rounds", 0, "N", &chosen.rounds, "3", 1, BENCH_SWEEP_ROUNDS_MOST,
                "with --sweep: measurements of each algorithm at each size", .advanced = true),
    CLI_TEXT("schedule", 0, "FILE", &chosen.schedule, NULL, "use the schedule in this file (see weft schedule load)",
             .advanced = true),
    CLI_GROUP("Output"),
    CLI_FLAG("json", 0, &chosen.json, "print a line of JSON for each size"),
    CLI_TEXT("trace", 0, "FILE", &chosen.trace, NULL, "write a timeline of all ranks to FILE (see weft trace show)",
             .advanced = true),
};

/* The collective that the command line names. */
static weft_status find_collective(const struct command_call *call, const struct bench_collective **collective,
                                   struct error *error)
{
    const char *name = call->words[0];
    size_t count = 0;
    *collective = bench_collective_find(name);
    if (*collective)
        return WEFT_OK;
    while (bench_collective_names[count])
        count++;
    const char *nearest = text_nearest(name, bench_collective_names, count);
    if (nearest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "weft bench knows no collective '%s'; did you mean '%s'?", name,
                         nearest);
    return error_set(error, WEFT_ERROR_ARGUMENT, "weft bench knows no collective '%s'; 'weft bench --help' lists them",
                     name);
}

static weft_status bench_check_choices(const struct bench_collective *collective, struct error *error)
{
    bool is_float = chosen.type[0] == 'f' || chosen.type[0] == 'b';
    if (chosen.least > chosen.most)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--min is %" PRIu64 " bytes, which is more than --max, %" PRIu64,
                         chosen.least, chosen.most);
    if (collective && collective->reduces && strcmp(chosen.op, "scaled-sum") == 0 && !is_float)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--op is scaled-sum, which %s cannot do; take a floating-point --type", chosen.type);
    return WEFT_OK;
}

/* A collective that supports only one place is measured there. */
static void choose_places(struct bench_case *what)
{
    enum bench_places possible = what->collective->places;
    what->out_of_place = possible != BENCH_IN_PLACE_ONLY;
    what->in_place = possible != BENCH_OUT_OF_PLACE_ONLY;
    if (possible == BENCH_EITHER_PLACE && strcmp(chosen.place, "both") != 0) {
        what->in_place = strcmp(chosen.place, "in") == 0;
        what->out_of_place = !what->in_place;
    }
}

/* The measurement of waiting that `name` means; NULL: it is a collective. */
static weft_status (*find_progress(const char *name))(const struct bench_progress *what, struct error *error)
{
    return strcmp(name, "overlap") == 0 ? bench_overlap : strcmp(name, "waiting") == 0 ? bench_waiting : NULL;
}

/* ---- measuring ---- */

/* Measure one size; rank 0 prints it. */
static weft_status do_size(const struct command_call *call, const struct bench_case *what, struct bench *bench,
                           size_t bytes, size_t *errors, struct error *error)
{
    struct bench_row row = {.type = chosen.type,
                            .op = what->collective->reduces ? chosen.op : "none",
                            .measured = {what->out_of_place, what->in_place}};
    for (int place = 0; place < 2; place++) {
        if (!row.measured[place])
            continue;
        weft_status status = bench_measure(bench, bytes, place, &row.results[place], error);
        if (status != WEFT_OK)
            return status;
        *errors += row.results[place].errors;
    }
    row.algorithm = weft_comm_algorithm(what->comm, call->words[0], row.results[!row.measured[0]].count, what->type);
    if (!row.algorithm)
        return error_set(error, WEFT_ERROR_STATE, "%s", weft_message(what->context));
    if (weft_comm_rank(what->comm) != 0)
        return WEFT_OK;
    if (chosen.json)
        return bench_print_json(call->output, what, &row, error);
    bench_print_row(call->output, what, &row);
    return WEFT_OK;
}

/* Advance *bytes, at first 0, to the next size; false at the end. */
static bool next_size(const struct bench_case *what, uint64_t *bytes)
{
    size_t granule = bench_collective_granule(what->collective, what->type, weft_comm_size(what->comm));
    if (*bytes == 0) {
        *bytes = chosen.least < granule ? granule : chosen.least;
        return *bytes <= chosen.most;
    }
    if (!bench_collective_has_data(what->collective) || *bytes > chosen.most / (uint64_t)chosen.factor)
        return false;
    *bytes *= (uint64_t)chosen.factor;
    return true;
}

static weft_status sweep_sizes(const struct command_call *call, const struct bench_case *what, struct bench *bench,
                               size_t *errors, struct error *error)
{
    struct bench_sweep sweep = {.what = what,
                                .bench = bench,
                                .in_place = !what->out_of_place,
                                .reproducible = chosen.reproducible,
                                .json = chosen.json,
                                .rounds = (uint32_t)chosen.rounds,
                                .output = call->output};
    weft_status status = bench_sweep_open(&sweep, error);
    for (uint64_t bytes = 0; status == WEFT_OK && next_size(what, &bytes);)
        status = bench_sweep_size(&sweep, bytes, error);
    if (status == WEFT_OK)
        status = bench_sweep_end(&sweep, error);
    *errors += sweep.errors;
    bench_sweep_close(&sweep);
    return status;
}

static weft_status print_sizes(const struct command_call *call, const struct bench_case *what, struct bench *bench,
                               size_t *errors, struct error *error)
{
    weft_status status = WEFT_OK;
    if (weft_comm_rank(what->comm) == 0 && !chosen.json)
        bench_print_head(call->output, what);
    for (uint64_t bytes = 0; status == WEFT_OK && next_size(what, &bytes);)
        status = do_size(call, what, bench, bytes, errors, error);
    return status;
}

static weft_status do_sizes(const struct command_call *call, struct bench_case *what, struct error *error)
{
    size_t errors = 0;
    uint64_t first = 0;
    struct bench *bench;
    if (!next_size(what, &first))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--max is %" PRIu64 " bytes, but %s of %s over %d ranks has at least %" PRIu64, chosen.most,
                         call->words[0], chosen.type, weft_comm_size(what->comm), first);
    what->most_bytes = bench_collective_has_data(what->collective) ? chosen.most : 0;
    weft_status status = bench_open(what, &bench, error);
    if (status != WEFT_OK)
        return status;
    status =
        chosen.sweep ? sweep_sizes(call, what, bench, &errors, error) : print_sizes(call, what, bench, &errors, error);
    bench_close(bench);
    if (status == WEFT_OK && errors)
        return error_set(error, WEFT_ERROR_DATA, "%zu elements of the results were wrong", errors);
    return status;
}

/* Configure the communicator by the options, and measure. */
static weft_status do_bench(const struct command_call *call, struct bench_case *what, struct error *error)
{
    int ranks = weft_comm_size(what->comm);
    if (chosen.ranks && chosen.ranks != ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--ranks is %" PRId64
                         ", but this world has %d; leave --ranks out where a launcher says how many",
                         chosen.ranks, ranks);
    if (what->root >= ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--root is %d, but there are only ranks 0 to %d", what->root,
                         ranks - 1);
    weft_status status =
        command_check(what->context, weft_comm_set_reproducible(what->comm, chosen.reproducible), error);
    if (status == WEFT_OK && chosen.algorithm)
        status =
            command_check(what->context, weft_comm_set_algorithm(what->comm, call->words[0], chosen.algorithm), error);
    if (status == WEFT_OK && chosen.schedule)
        status = command_check(what->context, weft_comm_load_schedule(what->comm, chosen.schedule), error);
    return status == WEFT_OK ? do_sizes(call, what, error) : status;
}

static weft_status bench_run(struct command_call *call, struct error *error)
{
    weft_context *context = NULL;
    struct bench_case what = {
        .type = (weft_type)cli_choice_index(chosen.type, types),
        .op = {(weft_op_kind)cli_choice_index(chosen.op, ops), strcmp(chosen.op, "scaled-sum") == 0 ? 0.5 : 1.0},
        .root = (int)chosen.root,
        .registered = strcmp(chosen.buffers, "registered") == 0,
    };
    weft_status (*progress)(const struct bench_progress *, struct error *) = find_progress(call->words[0]);
    weft_status status = progress ? WEFT_OK : find_collective(call, &what.collective, error);
    if (status == WEFT_OK)
        status = bench_check_choices(what.collective, error);
    if (status == WEFT_OK && !progress)
        choose_places(&what);
    if (chosen.trace)
        setenv("WEFT_TRACE", chosen.trace, 1);
    if (status == WEFT_OK)
        status = command_check(NULL, weft_init(NULL, &context), error);
    if (status != WEFT_OK)
        return status;
    if (chosen.ranks > 1 && weft_comm_size(weft_world(context)) == 1) {
        status = command_check(context, weft_finalize(context), error);
        return status == WEFT_OK ? launch_self(call, chosen.ranks, error) : status;
    }
    what.context = context;
    what.comm = weft_world(context);
    const struct bench_progress waits = {call->output,          context,        chosen.least,    chosen.most,
                                         (size_t)chosen.factor, chosen.compute, what.registered, chosen.json};
    status = progress ? progress(&waits, error) : do_bench(call, &what, error);
    if (status == WEFT_OK)
        return command_check(NULL, weft_finalize(context), error);
    weft_finalize(context);
    return status;
}

const struct command command_bench = {
    .name = "bench",
    .group = COMMAND_MEASURE,
    .summary = "measure a collective over a range of sizes and check every result; or measure training",
    .description =
        "COLLECTIVE is allreduce, reduce_scatter, allgather, broadcast, reduce, scan, exscan, alltoall, sendreceive (each rank "
        "to the next) or barrier. The columns are those of nccl-tests: time is the median of batches of calls, "
        "each the mean over ranks; alg is bytes divided by time; bus is alg corrected for the collective, for "
        "comparison with the speed of a link; cpu is processor time per rank and call. From 16 MiB on, calls "
        "alternate between two sets of buffers. With --sweep, every algorithm that the tuner may choose is "
        "measured (out of place, unless --place is in) and compared with the tuner's choice, which is measured "
        "twice.\n\n"
        "Two more words show how ranks wait. overlap: starts an all-reduce, computes for --compute seconds without "
        "calling Weft, then waits; total is all of it, wait only the end. waiting: all ranks wait for rank 0, "
        "which is late; shows the processor time that the wait takes.",
    COMMAND_SUBCOMMANDS(&command_bench_train),
    .words = "COLLECTIVE",
    COMMAND_OPTIONS(options),
    .examples = "  weft bench allreduce -n 4 --min 4 --max 64M\n"
                "  weft bench allgather -n 2 --sweep\n"
                "  weft bench alltoall -n 2 --type bf16 --json\n"
                "  weft bench overlap -n 2 --min 1M --max 1M\n"
                "  mpirun -n 4 weft bench allreduce\n",
    .run = bench_run,
};
