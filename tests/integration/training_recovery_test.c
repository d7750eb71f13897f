/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft_training_recover() where it matters which rank has come how far: ranks that have not completed the last step
 * get values and moments from one that has, whichever they are; before the first step initial values are set again; a
 * state that no rank has is read from the checkpoint that the training saved last, though rank 0 did not save it.
 * And what it refuses. own_training_recovery_test loses real processes.
 */
#include "training/parallel/training.h"

#include "../unit/temporary.h"
#include "../world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CHECK_SAYS(word)                                                                                               \
    do {                                                                                                               \
        if (!strstr(weft_message(context), word)) {                                                                    \
            fprintf(stderr, "'%s' lacks '%s'\n", weft_message(context), word);                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { COUNT = 5000, STEPS = 4, MORE = 3 };

static weft_status begin_with_copies(weft_context *context, weft_comm *comm, weft_optimizer optimizer, int zero,
                                     int copy_every, weft_training **training)
{
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.optimizer = optimizer;
    config.micro_batches = 4;
    config.zero = zero;
    config.copy_every = copy_every;
    weft_status status = weft_training_open(context, comm, &config, training);
    if (status != WEFT_OK)
        return status;
    weft_training_parameter(*training, &(weft_parameter){.name = "p", .shape = {COUNT}});
    status = weft_training_start(*training);
    for (int i = 0; status == WEFT_OK && i < COUNT; i++)
        weft_training_values(*training, 0)[i] = (float)(i % 7);
    return status == WEFT_OK ? weft_training_share(*training) : status;
}

static weft_status begin_with_zero(weft_context *context, weft_comm *comm, weft_optimizer optimizer, int zero,
                                   weft_training **training)
{
    return begin_with_copies(context, comm, optimizer, zero, 0, training);
}

static weft_status begin_training(weft_context *context, weft_comm *comm, weft_optimizer optimizer,
                                  weft_training **training)
{
    return begin_with_zero(context, comm, optimizer, 0, training);
}

/* A gradient that depends on the values and on the number of the micro-batch. */
static weft_status take_steps(weft_training *training, int steps)
{
    weft_status status = WEFT_OK;
    for (int step = 0; status == WEFT_OK && step < steps; step++)
        for (int left = weft_training_micro_batches(training); status == WEFT_OK && left > 0; left--) {
            const float number = (float)weft_training_micro_batch(training);
            const float *values = weft_training_values(training, 0);
            float *gradient = weft_training_gradient(training, 0);
            for (int i = 0; i < COUNT; i++)
                gradient[i] = values[i] * 0.5F - number * 0.01F + (float)(i % 5);
            status = weft_training_ready(training, 0);
            if (status == WEFT_OK)
                status = left > 1 ? weft_training_accumulate(training) : weft_training_step(training, 0.1, NULL);
        }
    return status;
}

/* Break the context of every rank, after all have come here. */
static void fail_together(weft_context *context, int rank)
{
    if (rank == 0 && weft_barrier(weft_world(context)) == WEFT_OK)
        weft_abort(context, "of this test");
    while (weft_barrier(weft_world(context)) == WEFT_OK)
        ;
}

/* ---- ranks that have not completed the last step ---- */

struct fallen_back {
    weft_optimizer optimizer;
    unsigned ranks; /* a bit for each that has not completed the last step */
    float *rank_values[3];
};

/* As if this rank had not completed its last step. */
static void fall_back(weft_training *training, const float *arrays[3])
{
    weft_training_arrays now;
    weft_training_get_arrays(training, &now);
    float *to[] = {now.values, now.first_moments, now.second_moments};
    for (int i = 0; i < 3; i++)
        if (to[i])
            memcpy(to[i], arrays[i], now.elements * sizeof(float));
    training->steps--;
}

static void keep_arrays(weft_training *training, float *arrays[3])
{
    weft_training_arrays now;
    weft_training_get_arrays(training, &now);
    const float *from[] = {now.values, now.first_moments, now.second_moments};
    for (int i = 0; i < 3; i++) {
        arrays[i] = calloc(now.elements, sizeof(float));
        if (from[i])
            memcpy(arrays[i], from[i], now.elements * sizeof(float));
    }
}

static int fall_behind(weft_context *context, int rank, void *argument)
{
    struct fallen_back *fallen = argument;
    weft_training *training;
    float *arrays[3];
    CHECK(begin_training(context, weft_world(context), fallen->optimizer, &training) == WEFT_OK);
    CHECK(take_steps(training, STEPS - 1) == WEFT_OK);
    keep_arrays(training, arrays);
    CHECK(take_steps(training, 1) == WEFT_OK);
    if (fallen->ranks) {
        if (fallen->ranks >> rank & 1)
            fall_back(training, (const float **)arrays);
        fail_together(context, rank);
        if (weft_training_recover(training) != WEFT_OK) {
            fprintf(stderr, "rank %d: %s\n", rank, weft_message(context));
            return 1;
        }
        CHECK(weft_training_steps(training) == STEPS && !weft_training_is_new(training));
        CHECK(!training->former && !training->copies);
    }
    CHECK(take_steps(training, MORE) == WEFT_OK);
    CHECK(weft_training_steps(training) == STEPS + MORE);
    memcpy(fallen->rank_values[rank], weft_training_values(training, 0), COUNT * sizeof(float));
    for (int i = 0; i < 3; i++)
        free(arrays[i]);
    weft_training_close(training);
    return 0;
}

static void ranks_without_the_last_step_get_it(void **state)
{
    for (weft_optimizer optimizer = WEFT_OPTIMIZER_ADAMW; optimizer <= WEFT_OPTIMIZER_LARS; optimizer++) {
        struct fallen_back fallen = {.optimizer = optimizer};
        float *expected = calloc(COUNT, sizeof *expected);
        for (int r = 0; r < 3; r++)
            fallen.rank_values[r] = calloc(COUNT, sizeof(float));
        for (fallen.ranks = 0; fallen.ranks < 7; fallen.ranks++) {
            assert_int_equal(world_run(&(struct world){.ranks = 3}, fall_behind, &fallen), 0);
            if (!fallen.ranks)
                memcpy(expected, fallen.rank_values[0], COUNT * sizeof *expected);
            for (int r = 0; r < 3; r++)
                assert_memory_equal(fallen.rank_values[r], expected, COUNT * sizeof *expected);
        }
        for (int r = 0; r < 3; r++)
            free(fallen.rank_values[r]);
        free(expected);
    }
}

/* ---- before the first step ---- */

static int fail_early(weft_context *context, int rank, void *argument)
{
    weft_training *training;
    CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_SGD, &training) == WEFT_OK);
    CHECK(!weft_training_is_new(training));
    fail_together(context, rank);
    CHECK(weft_training_recover(training) == WEFT_OK);
    CHECK(weft_training_is_new(training) && weft_training_steps(training) == 0);
    for (int i = 0; i < COUNT; i++)
        weft_training_values(training, 0)[i] = rank == 0 ? 3 : 4;
    CHECK(weft_training_share(training) == WEFT_OK && !weft_training_is_new(training));
    CHECK(weft_training_values(training, 0)[COUNT - 1] == 3);
    CHECK(take_steps(training, 1) == WEFT_OK && weft_training_steps(training) == 1);
    weft_training_close(training);
    return 0;
}

static void a_training_without_a_step_is_new_again(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, fail_early, NULL), 0);
}

/* ---- the state is lost ---- */

struct lost_state {
    const char *directory;
    int zero;
    bool is_lost;
    float *rank_values[3];
};

/* In the directory of the training, a later checkpoint of another one. */
static weft_status save_strange(weft_context *context, const char *directory)
{
    weft_training *strange;
    weft_status status = begin_training(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, &strange);
    strange->steps = 1000;
    if (status == WEFT_OK)
        status = weft_training_save(strange, directory, 0);
    weft_training_close(strange);
    return status;
}

/* As if this rank had joined after the last checkpoint. */
static void forget_checkpoint(weft_training *training)
{
    free(training->directory);
    training->directory = NULL;
}

/* Rank 1's part is lost, without ZeRO that of every rank. */
static int lose_state(weft_context *context, int rank, void *argument)
{
    struct lost_state *lost = argument;
    weft_training *training;
    CHECK(begin_with_zero(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, lost->zero, &training) == WEFT_OK);
    CHECK(take_steps(training, STEPS) == WEFT_OK);
    if (lost->is_lost) {
        CHECK(weft_training_save(training, lost->directory, 0) == WEFT_OK);
        CHECK(save_strange(context, lost->directory) == WEFT_OK);
        CHECK(take_steps(training, 1) == WEFT_OK);
        if (rank == 0)
            forget_checkpoint(training);
        training->is_updating = lost->zero == 0 || rank == 1;
        fail_together(context, rank);
        CHECK(weft_training_recover(training) == WEFT_OK && weft_training_steps(training) == STEPS);
        CHECK(training->checkpoint == STEPS && strcmp(training->directory, lost->directory) == 0);
        CHECK(!training->former && !training->copies && !training->is_updating);
    }
    CHECK(take_steps(training, MORE) == WEFT_OK && weft_training_steps(training) == STEPS + MORE);
    memcpy(lost->rank_values[rank], weft_training_values(training, 0), COUNT * sizeof(float));
    weft_training_close(training);
    return 0;
}

static void a_lost_state_is_read_from_the_last_own_checkpoint(void **state)
{
    for (int zero = 0; zero < 3; zero++) {
        struct lost_state lost = {.directory = temporary_directory(), .zero = zero};
        float *expected = calloc(COUNT, sizeof *expected);
        for (int r = 0; r < 3; r++)
            lost.rank_values[r] = calloc(COUNT, sizeof(float));
        for (int is_lost = 0; is_lost < 2; is_lost++) {
            lost.is_lost = is_lost;
            assert_int_equal(world_run(&(struct world){.ranks = 3}, lose_state, &lost), 0);
            if (!is_lost)
                memcpy(expected, lost.rank_values[0], COUNT * sizeof *expected);
            for (int r = 0; r < 3; r++)
                assert_memory_equal(lost.rank_values[r], expected, COUNT * sizeof *expected);
        }
        assert_int_equal(file_remove_tree(lost.directory, NULL), WEFT_OK);
        for (int r = 0; r < 3; r++)
            free(lost.rank_values[r]);
        free(expected);
    }
}

/* Rank 1's part is lost, and the others have copies of it: of the last step, or of the first one and a newer checkpoint. */
static int lose_copied_state(weft_context *context, int rank, void *argument)
{
    const struct lost_state *lost = argument;
    for (int every = 1; every <= 100; every += 99) {
        weft_training *training;
        CHECK(begin_with_copies(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, lost->zero, every, &training) ==
              WEFT_OK);
        CHECK(take_steps(training, STEPS) == WEFT_OK && weft_training_save(training, lost->directory, 0) == WEFT_OK);
        CHECK(take_steps(training, 2) == WEFT_OK);
        training->is_updating = rank == 1;
        fail_together(context, rank);
        CHECK(weft_training_recover(training) == WEFT_OK);
        CHECK(weft_training_steps(training) == (every == 1 ? STEPS + 2 : STEPS));
        CHECK(!training->former && training->copies && !training->is_updating);
        training->is_updating = rank == 2; /* again, before any step: there are copies by now */
        fail_together(context, rank);
        CHECK(weft_training_recover(training) == WEFT_OK);
        CHECK(weft_training_steps(training) == (every == 1 ? STEPS + 2 : STEPS));
        CHECK(take_steps(training, 1) == WEFT_OK);
        weft_training_close(training);
    }
    return 0;
}

static void a_lost_part_is_there_as_a_copy(void **state)
{
    for (int zero = 1; zero < 3; zero++) {
        struct lost_state lost = {.directory = temporary_directory(), .zero = zero};
        assert_int_equal(world_run(&(struct world){.ranks = 3}, lose_copied_state, &lost), 0);
        assert_int_equal(file_remove_tree(lost.directory, NULL), WEFT_OK);
    }
}

/* A checkpoint was loaded: copies of later steps are of a training that is given up. */
static int lose_state_after_load(weft_context *context, int rank, void *argument)
{
    const char *directory = argument;
    weft_training *training;
    bool found;
    CHECK(begin_with_copies(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, 1, 1, &training) == WEFT_OK);
    CHECK(take_steps(training, STEPS) == WEFT_OK && weft_training_save(training, directory, 0) == WEFT_OK);
    CHECK(take_steps(training, MORE) == WEFT_OK);
    CHECK(weft_training_load(training, directory, &found) == WEFT_OK && found);
    training->is_updating = rank == 1;
    fail_together(context, rank);
    CHECK(weft_training_recover(training) == WEFT_OK && weft_training_steps(training) == STEPS);
    weft_training_close(training);
    return 0;
}

static void copies_do_not_outlive_a_load(void **state)
{
    char directory[256];
    snprintf(directory, sizeof directory, "%s", temporary_directory());
    assert_int_equal(world_run(&(struct world){.ranks = 3}, lose_state_after_load, directory), 0);
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

/* A state that all ranks have goes to all, and so does the knowledge of the checkpoint. */
static int learn_of_checkpoint(weft_context *context, int rank, void *argument)
{
    const char *directory = argument;
    weft_training *training;
    CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_SGD, &training) == WEFT_OK);
    CHECK(take_steps(training, STEPS) == WEFT_OK && weft_training_save(training, directory, 0) == WEFT_OK);
    if (rank != 1)
        forget_checkpoint(training);
    fail_together(context, rank);
    CHECK(weft_training_recover(training) == WEFT_OK && weft_training_steps(training) == STEPS);
    CHECK(training->directory && strcmp(training->directory, directory) == 0 && training->checkpoint == STEPS);
    weft_training_close(training);
    return 0;
}

static void all_ranks_learn_of_the_checkpoint(void **state)
{
    char directory[256];
    snprintf(directory, sizeof directory, "%s", temporary_directory());
    assert_int_equal(world_run(&(struct world){.ranks = 3}, learn_of_checkpoint, directory), 0);
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

/* Without a checkpoint. */
static int lose_everything(weft_context *context, int rank, void *argument)
{
    const int zero = *(const int *)argument;
    weft_training *training;
    CHECK(begin_with_zero(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, zero, &training) == WEFT_OK);
    CHECK(take_steps(training, 1) == WEFT_OK);
    training->is_updating = true;
    fail_together(context, rank);
    CHECK(weft_training_recover(training) == WEFT_ERROR_DATA);
    CHECK_SAYS(zero ? "lost with a rank that held a part of it" : "were lost before they had sent it to the others");
    weft_training_close(training);
    return 0;
}

static void a_lost_state_without_a_checkpoint_is_a_message(void **state)
{
    for (int zero = 0; zero < 2; zero++)
        assert_int_equal(world_run(&(struct world){.ranks = 2}, lose_everything, &zero), 0);
}

/* ---- several trainings ---- */

/* The first one changes the world for both; or the program does. */
static int recover_both(weft_context *context, int rank, void *argument)
{
    weft_training *trainings[2];
    for (int i = 0; i < 2; i++) {
        CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_ADAMW, &trainings[i]) == WEFT_OK);
        CHECK(take_steps(trainings[i], i + 1) == WEFT_OK);
    }
    fail_together(context, rank);
    if (*(const bool *)argument)
        CHECK(weft_shrink(context) == WEFT_OK);
    for (int i = 0; i < 2; i++)
        CHECK(weft_training_recover(trainings[i]) == WEFT_OK && weft_training_steps(trainings[i]) == (uint64_t)i + 1);
    for (int i = 0; i < 2; i++) {
        CHECK(take_steps(trainings[i], 1) == WEFT_OK);
        weft_training_close(trainings[i]);
    }
    return 0;
}

static void several_trainings_recover_in_one_world(void **state)
{
    for (int shrinks = 0; shrinks < 2; shrinks++)
        assert_int_equal(world_run(&(struct world){.ranks = 3}, recover_both, &(bool){shrinks}), 0);
}

/* ---- after a mistake ---- */

/* A rank is lost after a step that all ranks refused. */
static int fail_after_mistake(weft_context *context, int rank, void *argument)
{
    weft_training *training;
    CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_SGD, &training) == WEFT_OK);
    CHECK(take_steps(training, 1) == WEFT_OK);
    for (int left = weft_training_micro_batches(training); left > 1; left--)
        CHECK(weft_training_accumulate(training) == WEFT_OK);
    CHECK(weft_training_step(training, 0.1, NULL) == WEFT_ERROR_MISMATCH);
    fail_together(context, rank);
    CHECK(weft_training_recover(training) == WEFT_OK && weft_training_steps(training) == 1);
    weft_training_close(training);
    return 0;
}

static void an_older_mistake_does_not_prevent_recovery(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, fail_after_mistake, NULL), 0);
}

/* ---- what is refused ---- */

static int recover_wrongly(weft_context *context, int rank, void *argument)
{
    weft_training *training, *part, *own;
    weft_comm *half;
    CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_SGD, &training) == WEFT_OK);
    CHECK(weft_training_recover(training) == WEFT_ERROR_STATE);
    CHECK_SAYS("no rank is lost, and none waits to join or is to leave");
    CHECK(take_steps(training, 1) == WEFT_OK && weft_training_waiting(training) == 0);
    CHECK(weft_training_ready(training, 7) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_training_note(training, 0, 1) == WEFT_OK);
    CHECK(weft_training_recover(training) == WEFT_ERROR_ARGUMENT);
    CHECK_SAYS("there is no parameter 7");
    CHECK(take_steps(training, 1) == WEFT_OK && weft_training_steps(training) == 2);
    weft_training_close(training);

    CHECK(weft_comm_duplicate(weft_world(context), &half) == WEFT_OK);
    CHECK(begin_training(context, half, WEFT_OPTIMIZER_SGD, &part) == WEFT_OK);
    fail_together(context, rank);
    CHECK(weft_training_recover(part) == WEFT_ERROR_STATE);
    CHECK_SAYS("over weft_world()");
    weft_training_close(part);

    CHECK(begin_training(context, weft_world(context), WEFT_OPTIMIZER_OWN, &own) == WEFT_OK);
    fail_together(context, rank);
    CHECK(weft_training_recover(own) == WEFT_ERROR_STATE);
    CHECK_SAYS("optimizer of the program's own");
    weft_training_close(own);
    return 0;
}

static void what_cannot_be_recovered_is_a_message(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, recover_wrongly, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_without_the_last_step_get_it),
        cmocka_unit_test(a_training_without_a_step_is_new_again),
        cmocka_unit_test(a_lost_state_is_read_from_the_last_own_checkpoint),
        cmocka_unit_test(a_lost_part_is_there_as_a_copy),
        cmocka_unit_test(copies_do_not_outlive_a_load),
        cmocka_unit_test(all_ranks_learn_of_the_checkpoint),
        cmocka_unit_test(a_lost_state_without_a_checkpoint_is_a_message),
        cmocka_unit_test(several_trainings_recover_in_one_world),
        cmocka_unit_test(an_older_mistake_does_not_prevent_recovery),
        cmocka_unit_test(what_cannot_be_recovered_is_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
