/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of training steps: all shapes are proved, take the time that their authors give for them, and every mutant
 * is refused unless it only waits for more.
 */
#include "training/parallel/step/show.h"
#include "training/parallel/step/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_RANKS  8
#define MOST_STAGES 32

struct written {
    struct step_shape shape;
    uint32_t first_unit[MOST_STAGES + 1];
    struct step_schedule schedules[MOST_RANKS];
};

/* `units` for each stage, one more for the even ones. */
static void write_all(struct written *written, const struct step_shape *shape, uint32_t units)
{
    struct error error = {0};
    *written = (struct written){.shape = *shape};
    for (uint32_t s = 0; s < shape->stages; s++)
        written->first_unit[s + 1] = written->first_unit[s] + units + (units > 1 && s % 2 == 0);
    written->shape.first_unit = written->first_unit;
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        if (step_write(&written->shape, rank, &written->schedules[rank], &error) != WEFT_OK)
            fail_msg("%s", error.text);
}

static void free_all(struct written *written)
{
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++)
        step_free(&written->schedules[rank]);
}

static void show_all(const struct written *written)
{
    struct buffer text = {0};
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++)
        step_print(&written->schedules[rank], &text);
    printf("%s", buffer_string(&text));
    buffer_free(&text);
}

static bool may_interleave(unsigned order)
{
    return order == STEP_INTERLEAVED || order == STEP_EVALUATION;
}

/* All shapes that make sense, up to MOST_RANKS pipeline ranks. */
static void for_all_shapes(uint32_t most_ranks, uint32_t most_micro_batches, uint32_t most_units,
                           void (*work)(struct written *written))
{
    static const uint32_t micro_batches[] = {1, 2, 3, 4, 6, 8, 11, 16, 24, 60};
    for (uint32_t ranks = 1; ranks <= most_ranks; ranks++)
        for (unsigned order = STEP_GPIPE; order <= STEP_EVALUATION; order++)
            for (uint32_t local = 1; local <= (may_interleave(order) && ranks > 1 ? 3 : 1); local++)
                for (size_t m = 0; m < ARRAY_SIZE(micro_batches) && micro_batches[m] <= most_micro_batches; m++)
                    for (uint32_t zero = 0; zero <= 3; zero++)
                        for (uint32_t variant = 0; variant < 2 * most_units; variant++) {
                            const struct step_shape shape = {.order = (enum step_pipeline)order,
                                                             .pipeline = ranks,
                                                             .stages = ranks * local,
                                                             .micro_batches = micro_batches[m],
                                                             .data = zero ? 2 : 1 + variant % 2,
                                                             .zero = zero,
                                                             .prefetch = 1 + variant % 2,
                                                             .shares_within = variant / 2 % 2,
                                                             .tied = variant % 2,
                                                             .recomputes = variant % 2};
                            if (order == STEP_INTERLEAVED && micro_batches[m] % ranks)
                                continue;
                            struct written written;
                            write_all(&written, &shape, 1 + variant / 2);
                            work(&written);
                            free_all(&written);
                        }
}

static size_t proved;

static void prove(struct written *written)
{
    struct error error = {0};
    if (step_verify(&written->shape, written->schedules, &error) != WEFT_OK) {
        show_all(written);
        fail_msg("%s, %u ranks, %u stages, %u micro-batches, ZeRO-%u: %s", step_pipeline_name(written->shape.order),
                 written->shape.pipeline, written->shape.stages, written->shape.micro_batches, written->shape.zero,
                 error.text);
    }
    proved++;
}

static void all_shapes_are_proved(void **state)
{
    for_all_shapes(MOST_RANKS, 16, 3, prove);
    printf("%zu shapes proved\n", proved);
}

/* A whole pass of another micro-batch, so that the send had its time to move. */
static void check_receives(struct written *written)
{
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++) {
        const struct step_schedule *schedule = &written->schedules[rank];
        for (uint32_t at = 0; at < schedule->count; at++) {
            const struct step_operation *receive = &schedule->operations[at];
            if (receive->kind != OPERATION_RECEIVE_GRADIENT)
                continue;
            for (uint32_t d = 0; d < receive->dependency_count; d++) {
                const uint32_t send = schedule->dependencies[receive->dependency + d];
                uint32_t between = send;
                if (schedule->operations[send].kind != OPERATION_SEND_GRADIENT)
                    continue;
                while (between < at && schedule->operations[between].kind != OPERATION_BACKWARD_INPUT)
                    between++;
                if (between == at) {
                    show_all(written);
                    fail_msg("rank %u: the receive at %u waits for the send at %u, no pass after", rank, at, send);
                }
                proved++;
            }
        }
    }
}

static void no_receive_waits_for_the_send_of_the_pass_before(void **state)
{
    (void)state;
    proved = 0;
    for_all_shapes(MOST_RANKS, 24, 2, check_receives);
    assert_true(proved > 10000);
}

static void compare_counts(struct written *written)
{
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++) {
        const struct step_schedule *schedule = &written->schedules[rank];
        struct step_schedule counts;
        assert_int_equal(step_count(&written->shape, rank, &counts, NULL), WEFT_OK);
        if (counts.slots != schedule->slots || counts.inputs != schedule->inputs ||
            counts.gathered != schedule->gathered)
            fail_msg("%s, rank %u of %u, %u stages, %u micro-batches, ZeRO-%u: %u, %u and %u, not %u, %u and %u",
                     step_pipeline_name(written->shape.order), rank, written->shape.pipeline, written->shape.stages,
                     written->shape.micro_batches, written->shape.zero, counts.slots, counts.inputs, counts.gathered,
                     schedule->slots, schedule->inputs, schedule->gathered);
        assert_null(counts.operations);
    }
}

static void counts_are_those_of_schedules(void **state)
{
    for_all_shapes(MOST_RANKS, 60, 2, compare_counts);
}

/* From norm to norm: the same operations in the same order, and what they depend on comes before. */
static void compare_rotated(struct written *written)
{
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++) {
        const struct step_schedule *schedule = &written->schedules[rank];
        const size_t count = schedule->count;
        struct step_schedule rotated;
        size_t first = 0;
        assert_int_equal(step_write(&written->shape, rank, &rotated, NULL), WEFT_OK);
        assert_int_equal(step_rotate(&rotated, NULL), WEFT_OK);
        while (first < count && schedule->operations[first].kind != OPERATION_NORM)
            first++;
        if (first == count) /* an evaluation */
            first = count - 1;
        else
            assert_int_equal(rotated.operations[count - 1].kind, OPERATION_NORM);
        for (size_t i = 0; i < count; i++) {
            const struct step_operation *before = &schedule->operations[(first + 1 + i) % count],
                                        *after = &rotated.operations[i];
            assert_memory_equal(before, after, sizeof *before);
            for (uint32_t d = 0; d < after->dependency_count; d++) {
                const uint32_t number = rotated.dependencies[after->dependency + d],
                               expected = schedule->dependencies[before->dependency + d];
                assert_true(number < i);
                assert_int_equal((number + first + 1) % count, expected);
            }
        }
        step_free(&rotated);
    }
}

static void rotated_steps_are_the_same(void **state)
{
    for_all_shapes(MOST_RANKS, 16, 2, compare_rotated);
}

/* ---- times ---- */

#define FORWARD_SECONDS 3.0
#define INPUT_SECONDS   4.0
#define WEIGHTS_SECONDS 2.5

struct durations {
    const struct step_shape *shape;
    double local; /* stages of a rank: each takes that share of the time */
};

/* All stages take equal time, and so do the units of each. */
static double duration_of(void *context, const struct step_operation *operation)
{
    const struct durations *durations = context;
    const uint32_t *first_unit = durations->shape->first_unit;
    const double pieces = operation->stage == STEP_NONE
                              ? 1
                              : durations->local * (first_unit[operation->stage + 1] - first_unit[operation->stage]);
    switch (operation->kind) {
    case OPERATION_FORWARD:
        return FORWARD_SECONDS / pieces;
    case OPERATION_BACKWARD_INPUT:
        return INPUT_SECONDS / pieces;
    case OPERATION_BACKWARD_WEIGHTS:
        return WEIGHTS_SECONDS / pieces;
    default:
        return 0;
    }
}

static double steps_seconds(enum step_pipeline order, uint32_t ranks, uint32_t local, uint32_t micro_batches)
{
    const struct step_shape shape = {.order = order,
                                     .pipeline = ranks,
                                     .stages = ranks * local,
                                     .micro_batches = micro_batches,
                                     .data = 1,
                                     .prefetch = 1};
    struct written written;
    struct step_times times;
    struct error error = {0};
    write_all(&written, &shape, 1);
    if (step_play(&written.shape, written.schedules, duration_of, &(struct durations){&written.shape, local}, &times,
                  &error) != WEFT_OK)
        fail_msg("%s", error.text);
    const double seconds = times.seconds;
    const double computing = micro_batches * (FORWARD_SECONDS + INPUT_SECONDS + WEIGHTS_SECONDS);
    assert_true(step_bubble(&written.shape, written.schedules, &times) - (1 - computing / seconds) < 1e-12);
    step_times_free(&written.shape, &times);
    free_all(&written);
    return seconds;
}

/*
 * The bubbles of the papers, where there are enough micro-batches and messages take no time, with one difference: a
 * gradient is sent before those of the first unit's weights are computed, so these overlap with the rank before.
 */
static void bubbles_are_those_of_the_formulas(void **state)
{
    const double pass = FORWARD_SECONDS + INPUT_SECONDS + WEIGHTS_SECONDS;
    for (uint32_t ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (uint32_t micro_batches = 2 * ranks; micro_batches <= 4 * ranks; micro_batches += ranks) {
            const double busy = micro_batches * pass, others = ranks - 1, bubble = others * (pass - WEIGHTS_SECONDS);
            assert_float_equal(steps_seconds(STEP_GPIPE, ranks, 1, micro_batches), busy + bubble, 1e-9);
            assert_float_equal(steps_seconds(STEP_1F1B, ranks, 1, micro_batches), busy + bubble, 1e-9);
            for (uint32_t local = 2; ranks > 1 && local <= 3; local++) {
                const double seconds = steps_seconds(STEP_INTERLEAVED, ranks, local, micro_batches);
                assert_true(seconds > busy + bubble / local - 1e-9); /* not all of a stage's weights overlap */
                assert_true(seconds < busy + others * pass / local + 1e-9);
            }
            assert_float_equal(steps_seconds(STEP_ZERO_BUBBLE_H1, ranks, 1, micro_batches),
                               busy + bubble - others * WEIGHTS_SECONDS, 1e-9);
        }
}

/* ---- mutants ---- */

enum step_mutation { DROP, REPEAT, SWAP, LOOSEN, STAGE, UNIT, MICRO_BATCH, SLOT, INPUT, BUFFER, KIND, STEP_MUTATIONS };

static struct tally {
    size_t mutants, refused, harmless;
} tally;

/* Mutants that are as good: neighbors of a list that have nothing to do with each other in another order, and another
 * name for memory that no other operation uses. */
static bool is_harmless(const struct written *written, const struct step_schedule *original, size_t at,
                        enum step_mutation mutation)
{
    const struct step_operation *operation = &original->operations[at];
    if (mutation == SWAP)
        return operation->kind != operation[1].kind || operation->unit != operation[1].unit ||
               (operation->kind == OPERATION_FORWARD && operation->micro_batch != operation[1].micro_batch);
    return mutation == BUFFER && operation->kind == OPERATION_BACKWARD_INPUT && written->shape.pipeline == 1 &&
           written->first_unit[1] == 1;
}

static bool mutate_step(struct step_schedule *mutant, size_t at, enum step_mutation mutation)
{
    struct step_operation *operations = mutant->operations, *operation = &operations[at];
    switch (mutation) {
    case DROP:
        memmove(operation, operation + 1, (mutant->count - at - 1) * sizeof *operation);
        mutant->count--;
        break;
    case REPEAT:
        memmove(operation + 1, operation, (mutant->count - at) * sizeof *operation);
        mutant->count++;
        break;
    case SWAP:
        if (at + 1 == mutant->count)
            return false;
        struct step_operation other = operations[at + 1];
        operations[at + 1] = *operation;
        *operation = other;
        break;
    case LOOSEN:
        if (operation->dependency_count == 0)
            return false;
        operation->dependency_count--;
        break;
    case STAGE:
        operation->stage++;
        break;
    case UNIT:
        operation->unit++;
        break;
    case MICRO_BATCH:
        operation->micro_batch++;
        break;
    case SLOT:
        operation->slot++;
        break;
    case INPUT:
        operation->input++;
        break;
    case BUFFER:
        operation->buffer++;
        break;
    default:
        operation->kind = (enum step_operation_kind)((operation->kind + 1) % OPERATION_KINDS);
        break;
    }
    /* Operations have moved: dependencies name the same ones as before. */
    for (size_t i = 0; i < mutant->dependency_count; i++) {
        uint32_t *number = &mutant->dependencies[i];
        if (mutation == DROP && *number >= at && *number > 0)
            --*number;
        else if (mutation == REPEAT && *number > at)
            ++*number;
        else if (mutation == SWAP && (*number == at || *number == at + 1))
            *number = (uint32_t)(at + (*number == at));
    }
    return true;
}

static void mutate_all_steps(struct written *written)
{
    for (uint32_t rank = 0; rank < written->shape.pipeline; rank++) {
        const struct step_schedule original = written->schedules[rank];
        struct step_schedule *mutant = &written->schedules[rank];
        mutant->operations = malloc((original.count + 1) * sizeof *mutant->operations);
        mutant->dependencies = malloc((original.dependency_count + 1) * sizeof *mutant->dependencies);
        for (size_t at = 0; at < original.count; at++)
            for (unsigned mutation = 0; mutation < STEP_MUTATIONS; mutation++) {
                struct error error = {0};
                mutant->count = original.count;
                memcpy(mutant->operations, original.operations, original.count * sizeof *original.operations);
                if (original.dependency_count)
                    memcpy(mutant->dependencies, original.dependencies,
                           original.dependency_count * sizeof *original.dependencies);
                if (!mutate_step(mutant, at, (enum step_mutation)mutation))
                    continue;
                tally.mutants++;
                if (step_verify(&written->shape, written->schedules, &error) != WEFT_OK) {
                    assert_int_equal(error.status, WEFT_ERROR_SCHEDULE);
                    assert_true(strlen(error.text) > 20);
                    tally.refused++;
                    continue;
                }
                tally.harmless++;
                if (!is_harmless(written, &original, at, (enum step_mutation)mutation)) {
                    struct buffer text = {0};
                    step_print_operation(&original, at, &text);
                    fail_msg("%s, %u ranks, ZeRO-%u, mutation %u of rank %u: accepted: %s",
                             step_pipeline_name(written->shape.order), written->shape.pipeline, written->shape.zero,
                             mutation, rank, buffer_string(&text));
                }
            }
        free(mutant->operations);
        free(mutant->dependencies);
        *mutant = original;
    }
}

static void every_mutant_is_refused_or_only_reordered(void **state)
{
    for_all_shapes(3, 4, 2, mutate_all_steps);
    printf("%zu mutants: %zu refused, %zu with two independent operations swapped\n", tally.mutants, tally.refused,
           tally.harmless);
    assert_true(tally.refused > 9 * tally.harmless);
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

/* A block for each pass of each rank. */
static void timelines_have_a_block_for_each_pass(void **state)
{
    const struct step_shape shape = {
        .order = STEP_GPIPE, .pipeline = 2, .stages = 2, .micro_batches = 3, .data = 1, .prefetch = 1};
    struct written written;
    struct step_times times;
    struct error error = {0};
    struct buffer svg = {0};
    write_all(&written, &shape, 1);
    assert_int_equal(step_play(&written.shape, written.schedules, duration_of, &(struct durations){&written.shape, 1},
                               &times, &error),
                     WEFT_OK);
    step_draw(&written.shape, written.schedules, &times, &svg);
    const char *text = buffer_string(&svg);
    assert_int_equal(count_of(text, "<title>A training step on 2 pipeline ranks, gpipe, 3 micro-batches: "), 1);
    assert_int_equal(count_of(text, "<g><title>forward, stage"), 2 * 3);
    assert_int_equal(count_of(text, "<g><title>backward-input, stage"), 2 * 3);
    assert_int_equal(count_of(text, "<g><title>backward-weights, stage"), 2 * 3);
    assert_int_equal(count_of(text, "<g>"), count_of(text, "</g>"));
    assert_int_equal(count_of(text, "</svg>"), 1);
    buffer_free(&svg);
    step_times_free(&written.shape, &times);
    free_all(&written);
}

static void impossible_shapes_are_refused(void **state)
{
    static const uint32_t first_unit[] = {0, 1, 2, 3, 4};
    const struct {
        struct step_shape shape;
        const char *says;
    } cases[] = {
        {{.pipeline = 2, .stages = 3, .micro_batches = 4, .data = 1, .prefetch = 1}, "do not divide"},
        {{.pipeline = 2, .stages = 4, .micro_batches = 4, .data = 1, .prefetch = 1}, "need 'interleaved'"},
        {{STEP_INTERLEAVED, .pipeline = 2, .stages = 4, .micro_batches = 3, .data = 1, .prefetch = 1}, "multiple of 2"},
        {{.pipeline = 1, .stages = 1, .micro_batches = 0, .data = 1, .prefetch = 1}, "impossible"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct step_shape shape = cases[i].shape;
        struct step_schedule schedule;
        struct error error = {0};
        shape.first_unit = first_unit;
        assert_int_equal(step_write(&shape, 0, &schedule, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_are_proved),
        cmocka_unit_test(no_receive_waits_for_the_send_of_the_pass_before),
        cmocka_unit_test(counts_are_those_of_schedules),
        cmocka_unit_test(rotated_steps_are_the_same),
        cmocka_unit_test(bubbles_are_those_of_the_formulas),
        cmocka_unit_test(every_mutant_is_refused_or_only_reordered),
        cmocka_unit_test(timelines_have_a_block_for_each_pass),
        cmocka_unit_test(impossible_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
