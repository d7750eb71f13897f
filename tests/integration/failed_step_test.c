/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step that fails while its ranks wait for the norm: they complete it with the result that another run of it had,
 * regroup, and their weights and moments move to another mesh. There they have the bits of one rank.
 */
#include "small_training.h"
#include "training/parallel/state_transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

#define STEPS         3
#define ELEMENTS_MOST 400000
#define TRIES         6

/* Shared by the processes of all worlds. */
struct shared {
    enum optimizer_kind optimizer;
    struct mesh before, after;
    struct executor_result last;               /* of the last step, on one rank */
    float arrays[STATE_ARRAYS][ELEMENTS_MOST]; /* then, by the whole network's offsets */
    unsigned delay;                            /* microseconds in which the other ranks come to the norm */
    atomic_uint late;                          /* ranks that had not */
};

struct part {
    struct small_training training;
    struct shared *shared;
};

/* Compare the pieces with the arrays of one rank, or on this copy them there. */
static int visit_state(const struct part *part, struct executor *executor, bool copy)
{
    weft_context *context = part->training.context;
    const int rank = part->training.rank;
    struct state_pieces pieces;
    struct error error = {0};
    CHECK(part->training.whole->elements <= ELEMENTS_MOST);
    CHECK(executor_state_pieces(executor, part->training.whole, &pieces, &error) == WEFT_OK);
    CHECK(pieces.count > 0);
    for (size_t i = 0; i < pieces.count; i++) {
        const struct state_piece *piece = &pieces.pieces[i];
        const float *const arrays[STATE_ARRAYS] = {piece->values, piece->first_moments, piece->second_moments};
        for (int array = 0; array < STATE_ARRAYS; array++) {
            float *one =
                &part->shared->arrays[array][part->training.whole->parameters[piece->parameter].offset + piece->first];
            if (arrays[array] && copy)
                memcpy(one, arrays[array], piece->count * sizeof *one);
            CHECK(!arrays[array] || memcmp(one, arrays[array], piece->count * sizeof *one) == 0);
        }
    }
    free(pieces.pieces);
    return 0;
}

/* ---- one rank, which nothing happens to ---- */

static int run_undisturbed(weft_context *context, int rank, void *argument)
{
    struct shared *shared = argument;
    struct part part = {{.context = context, .rank = rank, .optimizer = shared->optimizer}, shared};
    const struct mesh mesh = {.extent = {1, 1, 1}};
    struct model_description *own;
    struct executor *executor;
    struct error error = {0};
    if (small_training_open(&part.training) || small_training_executor(&part.training, &mesh, &own, &executor) ||
        small_training_begin(&part.training, executor, own))
        return 1;
    for (unsigned step = 0; step < STEPS; step++)
        CHECK(small_training_step(executor, step, &shared->last, &error) == WEFT_OK);
    if (visit_state(&part, executor, true))
        return 1;
    executor_close(executor);
    model_description_free(own);
    small_training_close(&part.training);
    return 0;
}

/* ---- several, whose last step fails ---- */

/* In the process of rank 0: its gradient is whole, and it ends the job instead of sending its part of the norm. */
static struct {
    weft_context *context;
    unsigned delay;
    void (*sum_of_squares)(struct device *device, size_t count, const void *x, double *sums);
} breaker;

static void break_in_norm(struct device *device, size_t count, const void *x, double *sums)
{
    if (breaker.context) {
        usleep(breaker.delay);
        weft_abort(breaker.context, "broken on purpose");
    }
    breaker.context = NULL;
    breaker.sum_of_squares(device, count, x, sums);
}

static int move_to_other_mesh(const struct part *part, struct executor *former)
{
    weft_context *context = part->training.context;
    const int rank = part->training.rank;
    struct model_description *own;
    struct executor *executor;
    struct state_pieces old, new;
    struct state_layout *from, *to;
    struct error error = {0};
    bool speaks;
    executor_keep_state(former);
    if (small_training_executor(&part->training, &part->shared->after, &own, &executor))
        return 1;
    CHECK(executor_state_pieces(former, part->training.whole, &old, &error) == WEFT_OK);
    CHECK(executor_state_pieces(executor, part->training.whole, &new, &error) == WEFT_OK);
    CHECK(state_layout_open(context, weft_world(context), &old, &from, &speaks, &error) == WEFT_OK);
    CHECK(state_layout_open(context, weft_world(context), &new, &to, &speaks, &error) == WEFT_OK);
    CHECK(state_layout_move(from, to, &error) == WEFT_OK);
    state_layout_close(from);
    state_layout_close(to);
    free(old.pieces);
    free(new.pieces);
    if (visit_state(part, executor, false))
        return 1;
    executor_close(executor);
    model_description_free(own);
    return 0;
}

static int run_broken(weft_context *context, int rank, void *argument)
{
    struct shared *shared = argument;
    struct part part = {{.context = context, .rank = rank, .optimizer = shared->optimizer}, shared};
    struct model_description *own;
    struct executor *executor;
    struct executor_result result;
    struct error error = {0};
    if (small_training_open(&part.training) ||
        small_training_executor(&part.training, &shared->before, &own, &executor) ||
        small_training_begin(&part.training, executor, own))
        return 1;
    for (unsigned step = 0; step < STEPS - 1; step++)
        CHECK(small_training_step(executor, step, &result, &error) == WEFT_OK);
    if (rank == 0) {
        breaker.context = context;
        breaker.delay = shared->delay;
        breaker.sum_of_squares = part.training.sums->sum_of_squares;
        part.training.sums->sum_of_squares = break_in_norm;
    }
    CHECK(!executor_has_gradient(executor, STEPS));
    CHECK(small_training_step(executor, STEPS - 1, &result, &error) == WEFT_ERROR_ABORTED);
    CHECK(!executor_has_gradient(executor, STEPS - 1));
    uint32_t late = !executor_has_gradient(executor, STEPS);
    CHECK(weft_shrink(context) == WEFT_OK);
    CHECK(weft_allreduce(&late, &late, 1, WEFT_U32, WEFT_SUM, weft_world(context)) == WEFT_OK);
    shared->late = late;
    if (!late) {
        CHECK(executor_complete_step(executor, &shared->last, &error) == WEFT_OK);
        CHECK(!executor_has_gradient(executor, STEPS));
        if (visit_state(&part, executor, false) || move_to_other_mesh(&part, executor))
            return 1;
    }
    executor_close(executor);
    model_description_free(own);
    small_training_close(&part.training);
    return 0;
}

static void ranks_complete_a_step_and_move(void **state)
{
    static const struct {
        enum optimizer_kind optimizer;
        struct mesh before, after;
    } cases[] = {
        {OPTIMIZER_ADAMW, {{4, 1, 1}}, {{2, 2, 1}}},
        {OPTIMIZER_SGD, {{2, 2, 1}}, {{1, 4, 1}}},
        {OPTIMIZER_LAMB, {{1, 4, 1}}, {{4, 1, 1}}},
        {OPTIMIZER_LARS, {{1, 3, 1}}, {{3, 1, 1}}},
    };
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct world one = {.ranks = 1, .processes = true},
                           many = {.ranks = (int)mesh_ranks(&cases[i].before), .processes = true};
        shared->optimizer = cases[i].optimizer;
        shared->before = cases[i].before;
        shared->after = cases[i].after;
        assert_int_equal(world_run(&one, run_undisturbed, shared), 0);
        shared->delay = 10000;
        for (int attempt = 0; attempt < TRIES; attempt++, shared->delay *= 4) {
            assert_int_equal(world_run(&many, run_broken, shared), 0);
            if (!shared->late)
                break;
        }
        assert_int_equal(shared->late, 0);
    }
    munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_complete_a_step_and_move)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
