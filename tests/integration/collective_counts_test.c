/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts that ranks do not share: gatherv and scatterv where only the root knows all of them, types that matter only
 * where elements move, and the message when a rank gives other than what another one expects of it.
 */
#include "../world.h"
#include "base/random.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#define MOST ((size_t)60000) /* elements of a block */

/* ---- gatherv and scatterv ---- */

/* What rank `r` gives in trial `trial`: nothing, one, a few, or many. */
static size_t given(uint64_t trial, int r)
{
    static const size_t limits[4] = {1, 2, 100, MOST};
    return random_below(trial, (uint64_t)r, limits[random_below(trial + 1000, (uint64_t)r, 4)]);
}

static char element(uint64_t trial, int r, size_t byte)
{
    return (char)random_bits(trial + 77 * (uint64_t)r, byte / 8 * 8) + (char)byte;
}

static int gather_once(weft_context *context, int rank, uint64_t trial, char *const buffers[2])
{
    weft_comm *world = weft_world(context);
    const int ranks = weft_comm_size(world), root = (int)(trial % (uint64_t)ranks);
    const weft_type type = (weft_type)(trial % WEFT_TYPES);
    const size_t size = weft_type_size(type), gap = trial % 3;
    const bool placed = trial % 2, in_place = placed && trial % 4 == 1 && rank == root;
    size_t counts[8], displacements[8], end = 0;
    for (int r = ranks - 1; r >= 0; r--) { /* where they are placed, the last rank's comes first */
        counts[r] = rank == root || r == rank ? given(trial, r) : SIZE_MAX;
        displacements[r] = rank == root ? end + gap : SIZE_MAX;
        end += given(trial, r) + gap;
    }
    char *input = buffers[0], *output = buffers[1];
    if (rank == root)
        memset(output, 0x5a, end * size + 1);
    if (in_place)
        input = output + displacements[rank] * size;
    for (size_t i = 0; i < counts[rank] * size; i++)
        input[i] = element(trial, rank, i);
    CHECK(weft_gatherv(counts[rank] ? input : NULL, rank == root ? output : NULL, counts, placed ? displacements : NULL,
                       type, root, world) == WEFT_OK);
    size_t packed = 0;
    for (int r = 0; rank == root && r < ranks; r++) {
        const char *block = output + (placed ? displacements[r] : packed) * size;
        packed += counts[r];
        for (size_t i = 0; i < counts[r] * size; i++)
            CHECK(block[i] == element(trial, r, i));
        if (placed && gap) /* nothing lands beside them */
            CHECK(block[-1] == 0x5a && block[counts[r] * size] == 0x5a);
    }
    return 0;
}

static int scatter_once(weft_context *context, int rank, uint64_t trial, char *const buffers[2])
{
    weft_comm *world = weft_world(context);
    const int ranks = weft_comm_size(world), root = (int)(trial % (uint64_t)ranks);
    const weft_type type = (weft_type)(trial % WEFT_TYPES);
    const size_t size = weft_type_size(type), gap = trial % 3, own = given(trial, rank) * size;
    const bool placed = trial % 2, in_place = placed && trial % 4 == 1 && rank == root;
    size_t counts[8], displacements[8], end = 0, packed = 0;
    char *input = buffers[0], *output = buffers[1];
    for (int r = ranks - 1; r >= 0; r--) {
        counts[r] = rank == root || r == rank ? given(trial, r) : SIZE_MAX;
        displacements[r] = rank == root ? end + gap : SIZE_MAX;
        end += given(trial, r) + gap;
    }
    for (int r = 0; rank == root && r < ranks; packed += counts[r++])
        for (size_t i = 0; i < counts[r] * size; i++)
            input[(placed ? displacements[r] : packed) * size + i] = element(trial, r, i);
    memset(output, 0x5a, own + 1);
    if (in_place)
        output = input + displacements[rank] * size;
    CHECK(weft_scatterv(rank == root ? input : NULL, counts, placed ? displacements : NULL, own ? output : NULL, type,
                        root, world) == WEFT_OK);
    for (size_t i = 0; i < own; i++)
        CHECK(output[i] == element(trial, rank, i));
    CHECK(in_place || output[own] == 0x5a);
    return 0;
}

static int gather_and_scatter_all(weft_context *context, int rank, void *argument)
{
    const size_t bytes = 8 * (MOST + 3) * 8;
    char *registered[2] = {weft_alloc(context, bytes), weft_alloc(context, bytes)};
    char *ordinary[2] = {malloc(bytes), malloc(bytes)};
    for (uint64_t trial = 0; trial < 40; trial++)
        if (gather_once(context, rank, trial, (trial + (uint64_t)rank) % 3 ? registered : ordinary) ||
            scatter_once(context, rank, trial, (trial + (uint64_t)rank) % 3 ? ordinary : registered))
            return 1;
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_free(context, registered[i]);
        free(ordinary[i]);
    }
    return 0;
}

static void test_only_the_root_knows_the_counts(void **state)
{
    static const int uneven[] = {0, 1, 0, 1, 1};
    for (int ranks = 1; ranks <= 5; ranks++) {
        assert_int_equal(world_run(&(struct world){.ranks = ranks}, gather_and_scatter_all, NULL), 0);
        assert_int_equal(world_run(&(struct world){.ranks = ranks, .ranks_per_node = 1}, gather_and_scatter_all, NULL),
                         0);
    }
    assert_int_equal(world_run(&(struct world){.ranks = 5, .node_of = uneven}, gather_and_scatter_all, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 3, .processes = true}, gather_and_scatter_all, NULL), 0);
}

/* ---- types ---- */

/* Ranks 0 and 1 exchange i32, ranks 2 and 3 f64; nobody else anything. Rank 3 gives nothing to a gatherv of u8. */
static int types_of_pairs(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    const weft_type type = rank < 2 ? WEFT_I32 : WEFT_F64;
    int32_t words[3] = {rank, 10 + rank, 20 + rank}, word[3] = {0};
    double numbers[3] = {rank, 0.5 + rank, 0.25 + rank}, number[3] = {0};
    size_t counts[4] = {0};
    counts[rank ^ 1] = 3;
    for (int i = 0; i < 3; i++) {
        CHECK(weft_alltoallv(rank < 2 ? (void *)words : numbers, counts, NULL, rank < 2 ? (void *)word : number, counts,
                             NULL, type, world) == WEFT_OK);
        CHECK(rank >= 2 || (word[0] == (rank ^ 1) && word[2] == 20 + (rank ^ 1)));
        CHECK(rank < 2 || (number[0] == (rank ^ 1) && number[2] == 0.25 + (rank ^ 1)));
    }
    uint8_t byte = (uint8_t)(65 + rank), bytes[4] = {0};
    const size_t given_counts[4] = {1, 1, 1, 0};
    CHECK(weft_gatherv(&byte, bytes, given_counts, NULL, rank == 3 ? WEFT_F64 : WEFT_U8, 0, world) == WEFT_OK);
    CHECK(rank || !strcmp((char *)bytes, "ABC"));
    const size_t nothing[4] = {0};
    CHECK(weft_alltoallv(NULL, nothing, NULL, NULL, nothing, NULL, (weft_type)rank, world) == WEFT_OK);
    CHECK(weft_barrier(world) == WEFT_OK);
    return 0;
}

static void test_types_matter_only_where_elements_move(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 4}, types_of_pairs, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .ranks_per_node = 1}, types_of_pairs, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .ranks_per_node = 2}, types_of_pairs, NULL), 0);
}

/* ---- messages ---- */

enum { RANKS = 3 };

/* A collective in which some rank is wrong: counts[i][j] is what rank i says of rank j. */
struct quarrel {
    enum { GATHERV, ALLGATHERV, ALLTOALLV, SCATTERV } collective;
    size_t sent[RANKS][RANKS];     /* of an all-to-all; otherwise what rank i passes as its counts */
    size_t received[RANKS][RANKS]; /* of an all-to-all */
    weft_type types[RANKS];
    const char *words[5];
};

static int quarrel(weft_context *context, int rank, void *argument)
{
    const struct quarrel *quarrel = argument;
    weft_comm *world = weft_world(context);
    static const char *const names[] = {"in gatherv (operation 2 of world)", "in allgatherv (operation 2 of world)",
                                        "in alltoallv (operation 2 of world)", "in scatterv (operation 2 of world)"};
    char *input = calloc(1, 1 << 20), *output = calloc(1, 1 << 20);
    const size_t *sent = quarrel->sent[rank];
    const weft_type type = quarrel->types[rank];
    weft_status status = weft_barrier(world);
    if (status == WEFT_OK && quarrel->collective == GATHERV)
        status = weft_gatherv(input, output, sent, NULL, type, 0, world);
    else if (status == WEFT_OK && quarrel->collective == ALLGATHERV)
        status = weft_allgatherv(input, output, sent, NULL, type, world);
    else if (status == WEFT_OK && quarrel->collective == SCATTERV)
        status = weft_scatterv(input, sent, NULL, output, type, 0, world);
    else if (status == WEFT_OK)
        status = weft_alltoallv(input, sent, NULL, output, quarrel->received[rank], NULL, type, world);
    if (status == WEFT_OK) /* a giver may be through before anybody looks at what it gave */
        status = weft_barrier(world);
    free(input);
    free(output);
    const char *message = weft_message(context);
    if (rank == 0)
        fprintf(stderr, "  %s\n", message);
    int wrong = status != WEFT_ERROR_MISMATCH || !strstr(message, names[quarrel->collective]);
    for (int i = 0; i < 5 && quarrel->words[i]; i++)
        wrong |= !strstr(message, quarrel->words[i]);
    if (wrong)
        fprintf(stderr, "rank %d: %s: %s\n", rank, weft_status_name(status), message);
    return wrong;
}

static void run_quarrel(struct quarrel quarrels)
{
    assert_int_equal(world_run(&(struct world){.ranks = RANKS}, quarrel, &quarrels), 0);
    assert_int_equal(world_run(&(struct world){.ranks = RANKS, .ranks_per_node = 1}, quarrel, &quarrels), 0);
}

static void test_a_gatherv_names_who_gives_what(void **state)
{
    run_quarrel((struct quarrel){GATHERV,
                                 {{1, 2, 8}, {0, 2, 0}, {0, 0, 12}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 2 on host", "gives 12 f32 to rank 0 on host", "expects 8 f32"}});
    run_quarrel((struct quarrel){GATHERV,
                                 {{1, 50000, 8}, {0, 40000, 0}, {0, 0, 8}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 1 on host", "gives 40000 f32 to rank 0 on host", "expects 50000 f32"}});
    run_quarrel((struct quarrel){GATHERV,
                                 {{1, 2, 8}, {0, 2, 0}, {0, 0, 8}},
                                 {{0}},
                                 {WEFT_F32, WEFT_I32, WEFT_F32},
                                 {"rank 1 on host", "gives 2 i32 to rank 0 on host", "expects 2 f32"}});
}

static void test_a_scatterv_names_who_expects_what(void **state)
{
    run_quarrel((struct quarrel){SCATTERV,
                                 {{1, 2, 8}, {0, 2, 0}, {0, 0, 12}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 0 on host", "gives 8 f32 to rank 2 on host", "expects 12 f32"}});
    run_quarrel((struct quarrel){SCATTERV,
                                 {{1, 2, 8}, {0, 2, 0}, {0, 0, 8}},
                                 {{0}},
                                 {WEFT_F32, WEFT_I32, WEFT_F32},
                                 {"rank 0 on host", "gives 2 f32 to rank 1 on host", "expects 2 i32"}});
}

static void test_an_alltoallv_names_who_sends_what(void **state)
{
    run_quarrel((struct quarrel){ALLTOALLV,
                                 {{0, 1, 2}, {3, 0, 4}, {12, 5, 0}},
                                 {{0, 3, 8}, {1, 0, 5}, {2, 4, 0}},
                                 {WEFT_I32, WEFT_I32, WEFT_I32},
                                 {"rank 2 on host", "gives 12 i32 to rank 0 on host", "expects 8 i32"}});
    run_quarrel((struct quarrel){ALLTOALLV,
                                 {{0, 0, 0}, {0, 0, 70000}, {0, 0, 0}},
                                 {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
                                 {WEFT_I32, WEFT_I32, WEFT_I32},
                                 {"rank 1 on host", "gives 70000 i32 to rank 2 on host", "expects 0 i32"}});
    run_quarrel((struct quarrel){ALLTOALLV,
                                 {{0, 1, 0}, {0, 0, 0}, {0, 0, 0}},
                                 {{0, 0, 0}, {1, 0, 0}, {0, 0, 0}},
                                 {WEFT_F32, WEFT_U32, WEFT_I8},
                                 {"rank 0 on host", "gives 1 f32 to rank 1 on host", "expects 1 u32"}});
}

static void test_an_allgatherv_names_who_gives_what(void **state)
{
    /* Rank 2 gives other than what all expect; rank 1 expects of rank 2 other than all. */
    run_quarrel((struct quarrel){ALLGATHERV,
                                 {{1, 2, 8}, {1, 2, 8}, {1, 2, 12}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 2 on host", "gives 12 f32 to rank ", "expects 8 f32"}});
    run_quarrel((struct quarrel){ALLGATHERV,
                                 {{1, 2, 12}, {1, 2, 8}, {1, 2, 12}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 2 on host", "gives 12 f32 to rank 1 on host", "expects 8 f32"}});
    run_quarrel((struct quarrel){ALLGATHERV,
                                 {{0, 2, 30000}, {0, 2, 30000}, {1, 2, 30000}},
                                 {{0}},
                                 {WEFT_F32, WEFT_F32, WEFT_F32},
                                 {"rank 0 on host", "gives 0 f32 to rank 2 on host", "expects 1 f32"}});
}

static int to_itself(weft_context *context, int rank, void *argument)
{
    const size_t one[1] = {1}, two[1] = {2};
    float input[2] = {0}, output[2] = {0};
    CHECK(weft_alltoallv(input, two, NULL, output, one, NULL, WEFT_F32, weft_world(context)) == WEFT_ERROR_ARGUMENT);
    CHECK(strstr(weft_message(context), "rank 0 of alltoallv sends 2 elements to itself but receives 1 from itself"));
    return 0;
}

static void test_what_a_rank_sends_to_itself_must_agree(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 1}, to_itself, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_root_knows_the_counts),
        cmocka_unit_test(test_types_matter_only_where_elements_move),
        cmocka_unit_test(test_a_gatherv_names_who_gives_what),
        cmocka_unit_test(test_a_scatterv_names_who_expects_what),
        cmocka_unit_test(test_an_alltoallv_names_who_sends_what),
        cmocka_unit_test(test_an_allgatherv_names_who_gives_what),
        cmocka_unit_test(test_what_a_rank_sends_to_itself_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
