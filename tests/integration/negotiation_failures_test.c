/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with named operations: disagreement, bad arguments, ranks that join, close, stall or die; and the timeline. */
#include "negotiation_support.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <time.h>

#include <setjmp.h>

#include <cmocka.h>

static bool says(const char *message, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(message, *words)) {
            fprintf(stderr, "'%s' lacks '%s'\n", message, *words);
            return false;
        }
    return true;
}

/* ---- disagreement ---- */

static int disagree(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    float values[6] = {1, 1, 1, 1, 1, 1}, other = 1;
    const int64_t shapes[][2] = {{2, 3}, {3, 2}};
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int round = 0; round < 4; round++) { /* agreement in between is forgotten and learned again */
        const int64_t *shape = shapes[round % 2 == 0 && rank == 1];
        weft_operation *good = submit_sum(negotiator, "good", &other, 1),
                       *bad = submit_one(negotiator, WEFT_NAMED_ALLREDUCE, "bad", values, values, WEFT_F32, 2, shape,
                                         WEFT_OP_MAX);
        CHECK(good && bad);
        const weft_status status = weft_operation_wait(bad);
        if (round % 2 == 0) {
            CHECK(status == WEFT_ERROR_MISMATCH);
            CHECK(says(weft_message(NULL), (const char *const[]){"'bad'", "rank 0 calls allreduce of f32 [2, 3] (max)",
                                                                 "rank 1 calls allreduce of f32 [3, 2] (max)", NULL}));
        } else {
            CHECK(status == WEFT_OK);
        }
        weft_operation_free(bad);
        CHECK(finish(good) == WEFT_OK);
    }
    weft_operation *kinds =
        rank == 0 ? submit_sum(negotiator, "kinds", &other, 1) : submit_empty(negotiator, WEFT_NAMED_BARRIER, "kinds");
    CHECK(weft_operation_wait(kinds) == WEFT_ERROR_MISMATCH);
    CHECK(says(weft_message(NULL),
               (const char *const[]){"rank 0 calls allreduce of f32 [1] (sum)", "rank 1 calls barrier", NULL}));
    weft_operation_free(kinds);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_disagreement(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, disagree, NULL), 0);
}

/* ---- arguments ---- */

static int bad_arguments(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    weft_operation *operation, *twice;
    float values[4] = {0};
    const int64_t shape[] = {4}, negative[] = {-1}, splits[] = {1, 2};
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    const weft_tensor good = {values, values, WEFT_F32, 1, shape}, no_shape = {values, values, WEFT_F32, 1, negative},
                      no_output = {values, NULL, WEFT_F32, 1, shape}, truth = {values, values, WEFT_BOOL, 1, shape},
                      whole = {values, values, WEFT_I32, 1, shape}, scalar = {values, NULL, WEFT_F32, 0, NULL},
                      no_type = {values, values, (weft_type)99, 1, shape};
    const struct {
        weft_named_call call;
        const char *message;
    } cases[] = {
        {{.kind = (weft_named_kind)77, .name = "x", .tensors = &good, .count = 1}, "77 is no kind"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .tensors = &good, .count = 1}, "needs a name"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x"}, "given 0 tensors"},
        {{.kind = WEFT_NAMED_BARRIER, .name = "x", .tensors = &good, .count = 1}, "needs none"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x", .tensors = &no_shape, .count = 1}, "impossible shape"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x", .tensors = &no_type, .count = 1}, "no type"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x", .tensors = &no_output, .count = 1}, "no output"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x", .tensors = &truth, .count = 1}, "bool"},
        {{.kind = WEFT_NAMED_ALLREDUCE, .name = "x", .tensors = &good, .count = 1, .op = WEFT_OP_BITWISE_OR},
         "must be sum"},
        {{.kind = WEFT_NAMED_ADASUM, .name = "x", .tensors = &whole, .count = 1}, "Adasum needs"},
        {{.kind = WEFT_NAMED_ALLGATHER, .name = "x", .tensors = &scalar, .count = 1}, "no dimensions"},
        {{.kind = WEFT_NAMED_BROADCAST, .name = "x", .tensors = &good, .count = 1, .root = 2}, "no root 2"},
        {{.kind = WEFT_NAMED_ALLTOALL, .name = "x", .tensors = &no_output, .count = 1, .splits = splits},
         "add up to less than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_named_call call = cases[i].call;
        call.prescale = call.postscale = 1;
        CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_ERROR_ARGUMENT);
        CHECK(says(weft_message(NULL), (const char *const[]){cases[i].message, NULL}));
    }
    CHECK(weft_operation_submit(NULL, &cases[0].call, &operation) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_operation_submit(negotiator, NULL, &operation) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_operation_submit(negotiator, &cases[0].call, NULL) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_operation_wait(NULL) == WEFT_ERROR_ARGUMENT);
    if (rank == 0) { /* in flight: rank 1 submits it later */
        operation = submit_sum(negotiator, "twice", values, 4);
        twice = submit_sum(negotiator, "twice", values, 4);
        CHECK(operation && !twice);
        CHECK(says(weft_message(NULL), (const char *const[]){"'twice'", "is in flight on rank 0", NULL}));
    }
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    if (rank == 1)
        CHECK((operation = submit_sum(negotiator, "twice", values, 4)) != NULL);
    CHECK(finish(operation) == WEFT_OK);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_arguments(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, bad_arguments, NULL), 0);
}

/* ---- ranks that join ---- */

static int join_one_by_one(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int repeat = 0; repeat < 2; repeat++) {
        float value;
        for (int step = 0; step < ranks; step++) { /* rank r makes r + 1 steps */
            if (step > rank)
                break;
            value = 1;
            CHECK(finish(submit_sum(negotiator, "gradient", &value, 1)) == WEFT_OK);
            /* A rank may have joined already, or not yet; ranks above are there. */
            CHECK(value >= (float)(ranks - step) && value <= (float)ranks);
        }
        if (rank == ranks - 1 && ranks > 1) {
            /* All others have joined or will: a broadcast has to fail once one has, and other ranks do not submit it. */
            const int64_t shape[] = {1};
            weft_operation *operation =
                submit_one(negotiator, WEFT_NAMED_BROADCAST, "late", &value, &value, WEFT_F32, 1, shape, WEFT_OP_SUM);
            CHECK(weft_operation_wait(operation) == WEFT_ERROR_STATE);
            CHECK(says(weft_message(NULL), (const char *const[]){"broadcast 'late'", "has joined", NULL}));
            weft_operation_free(operation);
        }
        weft_operation *join = submit_empty(negotiator, WEFT_NAMED_JOIN, "join");
        CHECK(join);
        CHECK(weft_operation_wait(join) == WEFT_OK);
        CHECK(weft_operation_last_joined(join) == ranks - 1);
        weft_operation_free(join);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static int submit_after_join(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    float value = 1;
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    if (rank == 1)
        CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    weft_operation *join = submit_empty(negotiator, WEFT_NAMED_JOIN, "join");
    CHECK(join);
    if (rank == 0) {
        CHECK(!submit_sum(negotiator, "after", &value, 1));
        CHECK(says(weft_message(NULL), (const char *const[]){"'after'", "this rank has joined", NULL}));
        CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    }
    CHECK(finish(join) == WEFT_OK);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_submit_after_join(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, submit_after_join, NULL), 0);
}

static void test_join(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks}, join_one_by_one, NULL), 0);
}

/* What a rank has submitted before it joins runs with the zeros of the others, known or not. */
static int submit_before_join(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int repeat = 0; repeat < 20; repeat++) {
        float values[2] = {1, 1};
        CHECK(finish(submit_sum(negotiator, "known", &values[0], 1)) == WEFT_OK && values[0] == 2);
        weft_operation *known = NULL, *news = NULL;
        values[0] = 1;
        if (rank == 0) {
            char name[32];
            snprintf(name, sizeof name, "new%d", repeat);
            known = submit_sum(negotiator, "known", &values[0], 1);
            news = submit_sum(negotiator, name, &values[1], 1);
            CHECK(known && news);
        }
        CHECK(finish(submit_empty(negotiator, WEFT_NAMED_JOIN, "join")) == WEFT_OK);
        CHECK(rank != 0 || (finish(known) == WEFT_OK && finish(news) == WEFT_OK && values[0] == 1 && values[1] == 1));
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_submit_before_join(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, submit_before_join, NULL), 0);
}

/* ---- closing ---- */

static int close_early(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    float value = 1;
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    if (rank == 0) {
        weft_operation *operation = submit_sum(negotiator, "alone", &value, 1);
        CHECK(weft_operation_wait(operation) == WEFT_ERROR_STATE);
        CHECK(says(weft_message(NULL), (const char *const[]){"closed", NULL}));
        weft_operation_free(operation);
        CHECK(!submit_sum(negotiator, "later", &value, 1));
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    CHECK(finish(submit_sum(negotiator, "again", &value, 1)) == WEFT_OK);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_closing(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, close_early, NULL), 0);
}

/* ---- stalls: processes, whose standard error goes to a file ---- */

static int stall(weft_context *context, int rank, void *argument)
{
    char text[4096] = "";
    weft_negotiator *negotiator;
    weft_negotiator_config config = WEFT_NEGOTIATOR_CONFIG_DEFAULT;
    float value = 1, known = 1;
    FILE *said = tmpfile();
    const int kept = dup(STDERR_FILENO);
    config.stall_seconds = 0.5;
    config.stall_end_seconds = 3;
    CHECK(said && weft_negotiator_open(weft_world(context), &config, &negotiator) == WEFT_OK);
    CHECK(finish(submit_sum(negotiator, "known", &known, 1)) == WEFT_OK);
    if (rank != 0) { /* waits for something else */
        weft_operation *other = submit_sum(negotiator, "other", &value, 1);
        CHECK(other && weft_operation_wait(other) == WEFT_ERROR_STATE);
        weft_operation_free(other);
        weft_negotiator_close(negotiator);
        fclose(said);
        return 0;
    }
    dup2(fileno(said), STDERR_FILENO);
    weft_operation *first = submit_sum(negotiator, "known", &known, 1),
                   *second = submit_sum(negotiator, "new", &value, 1);
    const weft_status status = weft_operation_wait(first);
    dup2(kept, STDERR_FILENO);
    CHECK(status == WEFT_ERROR_STATE && weft_operation_wait(second) == WEFT_ERROR_STATE);
    CHECK(
        says(weft_message(NULL), (const char *const[]){"waited for more than 3 s", "'new' waits for rank 1 (", NULL}));
    weft_operation_free(first);
    weft_operation_free(second);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    rewind(said);
    CHECK(fread(text, 1, sizeof text - 1, said) > 0);
    CHECK(says(text, (const char *const[]){"waited for more than 0.5 s", "'known' waits for rank 1 (",
                                           "'new' waits for rank 1 (", "'other' waits for rank 0 (",
                                           "the negotiator ends", NULL}));
    fclose(said);
    return 0;
}

static void test_stalls(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2, .processes = true}, stall, NULL), 0);
}

/* ---- a rank that dies ---- */

static int die(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    float value = 1;
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    const weft_status status = finish(submit_sum(negotiator, "x", &value, 1));
    CHECK(status == WEFT_OK || (rank != 1 && status == WEFT_ERROR_PEER)); /* rank 1 may have its result, and be gone */
    if (rank == 1)
        _exit(0);
    weft_operation *first = submit_sum(negotiator, "x", &value, 1), *second = submit_sum(negotiator, "y", &value, 1);
    if (first) {
        CHECK(weft_operation_wait(first) == WEFT_ERROR_PEER);
        CHECK(says(weft_message(NULL), (const char *const[]){"rank 1", NULL}));
    }
    if (second)
        CHECK(weft_operation_wait(second) == WEFT_ERROR_PEER);
    weft_operation_free(first);
    weft_operation_free(second);
    CHECK(weft_negotiator_close(negotiator) == WEFT_ERROR_PEER);
    CHECK(weft_shrink(context) == WEFT_OK);
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    value = 1;
    CHECK(finish(submit_sum(negotiator, "x", &value, 1)) == WEFT_OK);
    CHECK(value == 2);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_death(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3, .processes = true}, die, NULL), 0);
}

/* ---- the timeline ---- */

static bool has_event(const cJSON *events, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
        if (strcmp(cJSON_GetObjectItem(event, "name")->valuestring, name) == 0)
            return true;
    fprintf(stderr, "there is no event %s\n", name);
    return false;
}

static cJSON *read_timeline(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = 0;
    return cJSON_Parse(text);
}

static int draw(weft_context *context, int rank, void *argument)
{
    const char *path = argument;
    weft_negotiator *negotiator;
    float values[3] = {0};
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    CHECK(weft_negotiator_timeline(negotiator, "/nowhere/file", true) == (rank == 0 ? WEFT_ERROR_SYSTEM : WEFT_OK));
    CHECK(weft_negotiator_timeline(negotiator, path, true) == WEFT_OK);
    for (int repeat = 0; repeat < 3; repeat++) {
        weft_operation *first = submit_sum(negotiator, "gradient \"a\"", values, 1),
                       *second = submit_sum(negotiator, "gradient b", values + 1, 2);
        CHECK(finish(first) == WEFT_OK && finish(second) == WEFT_OK);
        CHECK(finish(submit_empty(negotiator, WEFT_NAMED_BARRIER, "b")) == WEFT_OK);
    }
    CHECK(weft_negotiator_timeline(negotiator, NULL, false) == WEFT_OK);
    if (rank == 0) {
        cJSON *events = read_timeline(path);
        CHECK(events && has_event(events, "NEGOTIATE_ALLREDUCE") && has_event(events, "ALLREDUCE") &&
              has_event(events, "WEFT_ALLREDUCE") && has_event(events, "CYCLE_START") && has_event(events, "BARRIER"));
        cJSON_Delete(events);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_timeline(void **state)
{
    char path[] = "/tmp/negotiation_timeline_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(world_run(&(struct world){.ranks = 2}, draw, path), 0);
    close(descriptor);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_submit_after_join),
        cmocka_unit_test(test_submit_before_join),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
