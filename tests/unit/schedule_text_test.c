/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules as texts: every schedule that is printed reads back as the same schedule; a schedule written by hand is proved for
 * any number of ranks; what is wrong is refused with its line, or with the step and the reason.
 */
#include "core/schedule/text/print.h"
#include "core/schedule/text/read.h"
#include "core/schedule/verify/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A ring, in which all that is known of a block's way is its number. */
static const char ring[] = "weft schedule 1\n"
                           "collective  allgather\n"
                           "algorithm   my-ring   # a comment\n"
                           "ranks       any\n"
                           "segment     64K\n"
                           "\n"
                           "rank *\n"
                           "  lane 1\n"
                           "    copy input[0] to output[rank]\n"
                           "  lane 0\n"
                           "    for k in 0..ranks-2\n"
                           "      send output[(rank-k)%ranks] to (rank+1)%ranks (after step k of lane 1)\n"
                           "    end\n"
                           "  lane 1\n"
                           "    for k in 1..ranks-1\n"
                           "      receive from (rank-1)%ranks into output[(rank-k)%ranks]\n"
                           "    end\n";

static struct schedule_text *parsed(const char *text)
{
    struct schedule_text *written;
    struct error error = {0};
    if (schedule_text_parse(text, strlen(text), "test", &written, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return written;
}

static char *printed(struct schedule *const *schedules, const struct schedule_shape *shape)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    schedule_print_frame(schedules[0], shape, out);
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        schedule_print(schedules[rank], out);
    fclose(out);
    return text;
}

static weft_status print_and_read(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                                  struct error *error)
{
    struct schedule **schedules, **again;
    uint64_t *count = context;
    assert_int_equal(sweep_generate(algorithm, shape, &schedules, error), WEFT_OK);
    char *text = printed(schedules, shape);
    struct schedule_text *written = parsed(text);
    again = calloc(shape->ranks, sizeof(struct schedule *));
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        if (schedule_text_of_rank(written, shape, rank, &again[rank], error) != WEFT_OK)
            fail_msg("%s", error->text);
        assert_int_equal(again[rank]->step_count, schedules[rank]->step_count);
        assert_int_equal(again[rank]->scratch_chunks, schedules[rank]->scratch_chunks);
        assert_int_equal(again[rank]->slots, schedules[rank]->slots);
        assert_true(again[rank]->hash == again[0]->hash);
        for (uint32_t i = 0; i < schedules[rank]->step_count; i++) {
            struct step a = schedules[rank]->steps[i], b = again[rank]->steps[i];
            bool grouped = a.kind == STEP_REDUCE_SPREAD;
            if (a.kind >= STEP_EXPOSE && a.kind != STEP_READ && a.kind != STEP_DELIVER)
                a.peer = b.peer = 0; /* groups are numbered in another order; the text tells them apart */
            if (grouped)
                a.operands = b.operands = 0;
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
    char *second = printed(again, shape);
    assert_string_equal(text, second);
    schedule_text_free(written);
    sweep_free(again, shape->ranks);
    sweep_free(schedules, shape->ranks);
    free(second);
    free(text);
    ++*count;
    return WEFT_OK;
}

static void every_schedule_reads_back_as_itself(void **state)
{
    uint64_t count = 0;
    for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
        size_t algorithms;
        const struct algorithm *table = algorithms_of((enum collective)collective, &algorithms);
        struct error error = {0};
        for (size_t i = 0; i < algorithms; i++)
            for (uint32_t ranks = 1; ranks <= 9; ranks++)
                assert_int_equal(
                    sweep_shapes((enum collective)collective, &table[i], ranks, print_and_read, &count, &error),
                    WEFT_OK);
    }
    assert_true(count > 1000);
}

static void one_text_serves_any_number_of_ranks(void **state)
{
    struct schedule_text *written = parsed(ring);
    assert_string_equal(schedule_text_algorithm(written), "my-ring");
    assert_int_equal(schedule_text_ranks(written), 0);
    for (uint32_t ranks = 1; ranks <= 40; ranks += ranks < 9 ? 1 : 7) {
        struct schedule_shape shape = {.collective = COLLECTIVE_ALLGATHER, .ranks = ranks, .block_bytes = 1 << 20};
        struct error error = {0};
        struct schedule **schedules;
        if (schedule_text_prove(written, &shape, &schedules, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        sweep_free(schedules, ranks);
    }
    schedule_text_free(written);
}

/* The text with `from` replaced by `to`, once. */
static char *changed(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(to) + 1;
    char *result = malloc(size);
    snprintf(result, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return result;
}

static void check_refusal(const char *text, uint32_t ranks, const char *tells)
{
    struct schedule_text *written = NULL;
    struct error error = {0};
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLGATHER, .ranks = ranks, .block_bytes = 4096};
    struct schedule **schedules = NULL;
    weft_status status = schedule_text_parse(text, strlen(text), "test", &written, &error);
    if (status == WEFT_OK)
        shape.collective = schedule_text_collective(written);
    if (status == WEFT_OK)
        status = schedule_text_prove(written, &shape, &schedules, &error);
    assert_int_not_equal(status, WEFT_OK);
    assert_null(schedules);
    if (!strstr(error.text, tells))
        fail_msg("'%s' should say '%s'", error.text, tells);
    schedule_text_free(written);
}

static void what_cannot_be_read_is_told_with_its_line(void **state)
{
    static const struct {
        const char *from, *to, *tells;
    } mistakes[] = {
        {"weft schedule 1", "weft schedule 2", "line 1: the version of the form is 2"},
        {"weft schedule 1", "allgather", "begins with 'weft schedule 1'"},
        {"allgather", "allgathr", "line 2: there is no collective 'allgathr'; did you mean 'allgather'"},
        {"my-ring", "my ring", "line 3: 'ring' follows 'algorithm'"},
        {"ranks       any", "ranks 0", "line 4: the number of ranks is 0"},
        {"ranks       any", "ranks 4\nranks 4", "line 5: 'ranks' is given twice"},
        {"ranks       any", "", "lacks 'ranks'"},
        {"segment     64K", "segment 5000", "multiple of 4096"},
        {"segment     64K", "segment 64K in 3 slots", "the number of slots is 3"},
        {"segment     64K", "color red", "'color red' is not a keyword of the header"},
        {"rank *", "rank 1", "has no section for rank 0 of 4"},
        {"rank *", "rank 0..4", "a section is for ranks 0 to 4; there are 4"},
        {"  lane 1\n", "", "steps belong to a lane"},
        {"lane 1", "lane 16", "line 8: a lane is 16; it must be from 0 to 15"},
        {"copy", "cpoy", "line 9: there is no step 'cpoy'; did you mean 'copy'?"},
        {"copy", "7 copy", "this is step 0 of lane 1, not 7"},
        {"input[0]", "input[0..1]", "one range has 2 chunks, the other 1"},
        {"input[0]", "inputs[0]", "'input', 'output' or 'scratch' should come before 'inputs[0]"},
        {"output[rank]", "input[0]", "'output' or 'scratch' should come before 'input[0]"},
        {"output[rank]", "output[rnak]", "'rnak]' is not a number"},
        {"output[rank]", "output[rank] and more", "line 9: 'and more' follows a step"},
        {"(rank+1)%ranks", "(rank+1)%0", "line 12: a number is divided by 0"},
        {"(rank+1)%ranks", "rank+1", "a peer is 4; it must be from 0 to 3"},
        {"(rank+1)%ranks", "99999999999", "a number is too large"},
        {"(rank+1)%ranks", "(((((((((((((((((((((((((((((((((1", "brackets are 32 deep"},
        {"k in 0..ranks-2\n", "k in 0..ranks-2\nfor k in 1..2\nend\n", "the name 'k' is already in use"},
        {"k in 0..ranks-2", "rank in 0..ranks-2", "the name 'rank' is already in use"},
        {"    end\n", "", "this loop or condition has no 'end'"},
        {"    end\n", "end\nend\n", "'end' without a loop or condition"},
        {"k in 0..ranks-2\n", "k in 0..2000000000\nend\nfor k in 0..ranks-2\n", "has more than 200000 lines"},
        {"rank *\n", "rank *\nscratch 99999999\n", "the chunks of scratch is 99999999"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char *text = changed(ring, mistakes[i].from, mistakes[i].to);
        check_refusal(text, 4, mistakes[i].tells);
        free(text);
    }
}

static void a_wrong_schedule_is_refused_with_the_step_and_the_reason(void **state)
{
    static const struct {
        const char *from, *to, *tells;
    } mistakes[] = {
        {" (after step k of lane 1)", "",
         "rank 0, lane 0, step 0 (send), iteration 0 reads chunk 0 of rank 0's output, which has not been"},
        {"(after step k of lane 1)", "(after step ranks of lane 1)",
         "rank 0, lane 0, step 0 (send): waits for more steps than the lane has"},
        {"for k in 1..ranks-1", "for k in 1..ranks-2", "waits forever (deadlock)"},
        {"into output[(rank-k)%ranks]", "into output[(rank-k+1)%ranks]", "without being ordered"},
        {"(rank-1)%ranks into", "(rank-2)%ranks into", "deadlock"},
        {"send output[(rank-k)%ranks]", "send output[rank]",
         "rank 0 ends with 3 in block 1, part 0, iteration 0, instead of 1"},
        {"to (rank+1)%ranks", "to rank", "names a peer that is not another rank"},
        {"copy input[0]", "copy input[1]", "reaches beyond the end of a buffer"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char *text = changed(ring, mistakes[i].from, mistakes[i].to);
        check_refusal(text, 4, mistakes[i].tells);
        free(text);
    }
}

/* Where a rank knows the sizes of its own blocks only, schedules must not depend on others'. */
static void schedules_that_need_unknown_sizes_are_refused(void **state)
{
    static const char near[] = "weft schedule 1\ncollective gatherv\nalgorithm near\nranks 2\nroot 0\n"
                               "rank 0\nlane 0\ncopy input[0] to output[0]\nawait signal 1 of 1, lane 0 of all\n"
                               "read input[0] of 1 into output[1]\nsignal all\n"
                               "rank 1\nlane 0\nexpose input[0]\nsignal all\nawait signal 1 of 1, lane 0 of all\n";
    static const char segments[] = "weft schedule 1\ncollective gatherv\nalgorithm far\nranks 2\nroot 0\nsegment 64K\n"
                                   "rank 0\nlane 0\ncopy input[0] to output[0]\nreceive from 1 into output[1]\n"
                                   "rank 1\nlane 0\nsend input[0] to 0\n";
    check_refusal(near, 2, "needs the sizes of other ranks' blocks: send messages");
    check_refusal(segments, 2, "gatherv by far is segmented, but no rank knows the largest block");
    /* As a gather, which has blocks of one size, both are right; and so is a gatherv without segments. */
    const struct {
        const char *text, *from, *to;
    } right[] = {{near, "gatherv", "gather"}, {segments, "gatherv", "gather"}, {segments, "segment 64K\n", ""}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct schedule_text *written = NULL;
        struct schedule **schedules = NULL;
        struct error error = {0};
        char *text = changed(right[i].text, right[i].from, right[i].to);
        assert_int_equal(schedule_text_parse(text, strlen(text), "test", &written, &error), WEFT_OK);
        struct schedule_shape shape = {.collective = schedule_text_collective(written),
                                       .ranks = 2,
                                       .nodes = (uint32_t[]){0, 0},
                                       .block_bytes = 4096};
        if (schedule_text_prove(written, &shape, &schedules, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        for (int rank = 0; rank < 2; rank++)
            schedule_free(schedules[rank]);
        free(schedules);
        schedule_text_free(written);
        free(text);
    }
}

static void shapes_that_a_text_is_not_for_are_refused(void **state)
{
    struct schedule_text *written =
        parsed("weft schedule 1\ncollective broadcast\nalgorithm two\nranks 2\nroot 1\n"
               "rank 1\nlane 0\nsend output[0] to 0\nrank 0\nlane 0\nreceive from 1 into output[0]\n");
    struct schedule_shape shape = {.collective = COLLECTIVE_BROADCAST, .ranks = 2, .root = 1};
    struct schedule **schedules;
    struct error error = {0};
    assert_int_equal(schedule_text_root(written, 0), 1);
    assert_int_equal(schedule_text_prove(written, &shape, &schedules, &error), WEFT_OK);
    sweep_free(schedules, 2);
    shape.root = 0;
    assert_int_equal(schedule_text_prove(written, &shape, &schedules, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "another root"));
    shape.root = 1;
    shape.ranks = 3;
    error_clear(&error);
    assert_int_equal(schedule_text_prove(written, &shape, &schedules, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "another number of ranks"));
    schedule_text_free(written);
}

/* Lane 1 of rank 0 copies what lane 0 has written: no wait says so, but lane 1 received an answer to what lane 0 sent.
 */
static void order_that_comes_about_through_another_rank_counts(void **state)
{
    static const char there_and_back[] =
        "weft schedule 1\ncollective alltoall\nalgorithm echo\nranks 2\n"
        "rank 0\nscratch 1\nlane 0\ncopy input[0] to scratch[0]\nsend input[1] to 1\n"
        "lane 1\nreceive from 1 into output[1], channel 1\ncopy scratch[0] to output[0]\n"
        "rank 1\nlane 0\ncopy input[1] to output[1]\nreceive from 0 into output[0]\nsend input[0] to 0, channel 1\n";
    struct schedule_text *written = parsed(there_and_back);
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLTOALL, .ranks = 2, .nodes = (uint32_t[]){0, 1}};
    struct schedule **schedules;
    struct error error = {0};
    if (schedule_text_prove(written, &shape, &schedules, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    sweep_free(schedules, 2);
    schedule_text_free(written);
    char *text = changed(there_and_back, "receive from 0 into output[0]\nsend input[0] to 0, channel 1\n",
                         "send input[0] to 0, channel 1\nreceive from 0 into output[0]\n");
    check_refusal(text, 2, "without being ordered");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_reads_back_as_itself),
        cmocka_unit_test(one_text_serves_any_number_of_ranks),
        cmocka_unit_test(what_cannot_be_read_is_told_with_its_line),
        cmocka_unit_test(a_wrong_schedule_is_refused_with_the_step_and_the_reason),
        cmocka_unit_test(schedules_that_need_unknown_sizes_are_refused),
        cmocka_unit_test(shapes_that_a_text_is_not_for_are_refused),
        cmocka_unit_test(order_that_comes_about_through_another_rank_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
