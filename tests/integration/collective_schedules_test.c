/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that the user loads really run: Weft's own schedules, printed and loaded, give the right results on one node
 * and on two, in whatever order lanes move; a file that is wrong, or not everybody's, is refused on all ranks and
 * changes nothing.
 */
#include "../support/disorder.h"
#include "../world.h"
#include "core/collective/communicator/comm.h"
#include "core/schedule/text/print.h"
#include "core/schedule/verify/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANKS 4
#define MOST  40000

static const struct {
    const char *collective, *algorithm;
    bool far; /* it can serve ranks on two nodes */
    bool near;
} cases[] = {
    {"allreduce", "exchange", false, true},     {"allreduce", "direct", false, true},
    {"allreduce", "ring", true, true},          {"allreduce", "halving-doubling", true, true},
    {"allreduce", "double-tree", true, true},   {"allreduce", "two-level", true, false},
    {"reduce_scatter", "pairwise", true, true}, {"reduce_scatter", "direct", false, true},
    {"allgather", "bruck", true, true},         {"allgather", "two-level", true, false},
    {"alltoall", "pairwise", true, true},       {"alltoall", "direct", false, true},
    {"broadcast", "two-level", true, false},    {"broadcast", "double-tree", true, true},
    {"barrier", "dissemination", true, true},
};

static int complain(int rank, const char *what, const char *message)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, message);
    return 1;
}

/* Rank 0 writes what `weft schedule show --all` prints; all wait for it. */
static void write_file(weft_comm *comm, const char *path, size_t index, uint64_t bytes)
{
    if (weft_comm_rank(comm) == 0) {
        enum collective collective;
        struct schedule **schedules;
        collective_parse(cases[index].collective, &collective, NULL);
        struct schedule_shape shape = {.collective = collective,
                                       .ranks = RANKS,
                                       .nodes = comm->node_count > 1 ? comm->nodes : NULL,
                                       .block_bytes = bytes};
        if (sweep_generate(algorithm_find(collective, cases[index].algorithm, NULL), &shape, &schedules, NULL) !=
            WEFT_OK)
            abort();
        FILE *file = fopen(path, "w");
        schedule_print_frame(schedules[0], &shape, file);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            schedule_print(schedules[rank], file);
        fclose(file);
        sweep_free(schedules, RANKS);
    }
    weft_barrier(comm);
}

static uint32_t drawn(int rank, size_t at)
{
    return (uint32_t)at * 2654435761u + (uint32_t)rank * 40503u;
}

/* Run one collective over blocks of `count` numbers and look at every result. */
static bool is_right(weft_comm *comm, const char *collective, size_t count, uint32_t *input, uint32_t *output)
{
    int rank = weft_comm_rank(comm);
    bool right = true;
    for (size_t i = 0; i < RANKS * count; i++)
        input[i] = drawn(rank, i);
    memset(output, 255, RANKS * count * sizeof *output);
    if (strcmp(collective, "allreduce") == 0 || strcmp(collective, "reduce_scatter") == 0) {
        bool scatters = *collective == 'r';
        right = scatters ? weft_reduce_scatter(input, output, count, WEFT_U32, WEFT_SUM, comm) == WEFT_OK
                         : weft_allreduce(input, output, count, WEFT_U32, WEFT_SUM, comm) == WEFT_OK;
        for (size_t i = 0; i < count; i++) {
            uint32_t sum = 0;
            for (int r = 0; r < RANKS; r++)
                sum += drawn(r, i + (scatters ? (size_t)rank * count : 0));
            right = right && output[i] == sum;
        }
    } else if (strcmp(collective, "allgather") == 0 || strcmp(collective, "alltoall") == 0) {
        bool all_to_all = collective[3] == 't';
        right = all_to_all ? weft_alltoall(input, output, count, WEFT_U32, comm) == WEFT_OK
                           : weft_allgather(input, output, count, WEFT_U32, comm) == WEFT_OK;
        for (size_t i = 0; i < RANKS * count; i++)
            right = right && output[i] == drawn((int)(i / count), i % count + (all_to_all ? (size_t)rank * count : 0));
    } else if (strcmp(collective, "broadcast") == 0) {
        right = weft_broadcast(input, count, WEFT_U32, 0, comm) == WEFT_OK;
        for (size_t i = 0; i < count; i++)
            right = right && input[i] == drawn(0, i);
    } else {
        right = weft_barrier(comm) == WEFT_OK;
    }
    return right;
}

static int run_cases(weft_context *context, int rank, void *argument)
{
    static const size_t counts[] = {0, 1, 7, 501, 5000, MOST};
    const char *path = argument;
    weft_comm *comm = weft_world(context);
    uint32_t *input = weft_alloc(context, RANKS * MOST * sizeof *input),
             *output = malloc(RANKS * MOST * sizeof *output);
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !failed; i++) {
        if (comm->node_count > 1 ? !cases[i].far : !cases[i].near)
            continue;
        bool tiny = strcmp(cases[i].algorithm, "exchange") == 0;
        for (unsigned large = 0; large <= !tiny && !failed; large++) {
            write_file(comm, path, i, large ? 1 << 24 : 4);
            if (weft_comm_load_schedule(comm, path) != WEFT_OK)
                failed = complain(rank, cases[i].algorithm, weft_message(context));
            for (size_t k = 0; k < sizeof counts / sizeof *counts && !failed; k++) {
                if (tiny && counts[k] > SCHEDULE_INLINE_BYTES / sizeof *input)
                    continue;
                disorder_set(comm, k % 2 == 0);
                if (!is_right(comm, cases[i].collective, counts[k], input, output))
                    failed = complain(rank, cases[i].algorithm, "wrong result");
            }
            disorder_set(comm, false);
            if (!failed && strcmp(weft_comm_algorithm(comm, cases[i].collective, 1, WEFT_U32), cases[i].algorithm) != 0)
                failed = complain(rank, cases[i].algorithm, "another algorithm served");
        }
        weft_comm_set_algorithm(comm, cases[i].collective, NULL);
    }
    if (failed)
        weft_abort(context, "a result was wrong");
    weft_free(context, input);
    free(output);
    return failed;
}

static void loaded_schedules_give_right_results(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-schedules-%d", getpid());
    assert_int_equal(world_run(&(struct world){.ranks = RANKS}, run_cases, path), 0);
    assert_int_equal(world_run(&(struct world){.ranks = RANKS, .ranks_per_node = 2}, run_cases, path), 0);
    assert_true(disorder_turns() > 0);
    unlink(path);
}

static const char good[] = "weft schedule 1\ncollective allreduce\nalgorithm mine\nranks 2\n"
                           "rank *\nscratch 1\nlane 0\nsend input[0] to 1-rank\n"
                           "rank 0\nlane 1\nreceive-reduce scratch[0] = input[0] + from 1, finished\n"
                           "rank 1\nlane 1\nreceive-reduce scratch[0] = from 0 + input[0], finished\n"
                           "rank *\nlane 1\nif rank >= 0\ncopy scratch[0] to output[0] (after step 0 of lane 0)\nend\n";

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static int expect(weft_context *context, weft_comm *comm, const char *path, weft_status status, const char *tells)
{
    float one = 1, sum = 0;
    int rank = weft_comm_rank(comm);
    if (weft_comm_load_schedule(comm, path) != status || !strstr(weft_message(context), tells))
        return complain(rank, tells, weft_message(context));
    if (weft_allreduce(&one, &sum, 1, WEFT_F32, WEFT_SUM, comm) != WEFT_OK || sum != 2)
        return complain(rank, "after a refusal", weft_message(context));
    return 0;
}

static int refusals(weft_context *context, int rank, void *argument)
{
    weft_comm *comm = weft_world(context), *two;
    char paths[3][96], text[sizeof good + 64];
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s-%d-%d", (char *)argument, i, rank);
    put(paths[0], good);
    snprintf(text, sizeof text, "%s# rank %d's own\n", good, rank);
    put(paths[1], text);
    put(paths[2], good);
    if (rank == 1) {
        put(paths[2], good);
        truncate(paths[2], (off_t)strlen(good) - 4); /* the last 'end' is gone */
    }
    int failed = expect(context, comm, paths[1], WEFT_ERROR_ARGUMENT, "different texts") ||
                 expect(context, comm, paths[2], WEFT_ERROR_DATA,
                        rank == 1 ? "has no 'end'" : "rank 1 could not load its schedule") ||
                 expect(context, comm, "/nowhere", WEFT_ERROR_SYSTEM, "/nowhere");
    if (!failed && strcmp(weft_comm_algorithm(comm, "allreduce", 1, WEFT_F32), "mine") == 0)
        failed = complain(rank, "refused", "but it serves");
    /* Its canonical order is not claimed: a reproducible communicator refuses it. */
    weft_comm_set_reproducible(comm, true);
    failed = failed || expect(context, comm, paths[0], WEFT_ERROR_ARGUMENT, "reproducible");
    weft_comm_set_reproducible(comm, false);
    if (!failed && weft_comm_load_schedule(comm, paths[0]) != WEFT_OK)
        failed = complain(rank, "good", weft_message(context));
    if (!failed && strcmp(weft_comm_algorithm(comm, "allreduce", 1000, WEFT_F32), "mine") != 0)
        failed = complain(rank, "good", "it does not serve");
    /* Another communicator keeps its own algorithms; freeing one frees its schedules. */
    if (!failed && (weft_comm_duplicate(comm, &two) != WEFT_OK || weft_comm_load_schedule(two, paths[0]) != WEFT_OK ||
                    weft_comm_free(two) != WEFT_OK))
        failed = complain(rank, "duplicate", weft_message(context));
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    return failed;
}

static void what_is_wrong_is_refused_everywhere_and_changes_nothing(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-schedules-%d", getpid());
    assert_int_equal(world_run(&(struct world){.ranks = 2}, refusals, path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_schedules_give_right_results),
        cmocka_unit_test(what_is_wrong_is_refused_everywhere_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
