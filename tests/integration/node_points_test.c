/* SPDX-License-Identifier: Apache-2.0 */
/* What programs print and report reaches the journal, each point once, whatever blocks it comes in; and none of it
 * makes an agent deaf. */
#include "engine_support.h"

#define STREAMS 4 /* one rank each, and lines of none */

/* Points whose steps count from 0, by rank; none is missing, none comes twice. */
struct points {
    uint64_t last, outputs;
    int64_t next[STREAMS];
    bool ended;
    uint32_t code;
    char first_output[200];
};

static bool count_record(void *context, const struct journal_record *record)
{
    struct points *points = context;
    points->last = record->sequence;
    if (record->kind == JOURNAL_METRICS && record->output.stream != JOURNAL_MEASURED) {
        const uint32_t rank = record->output.rank == JOURNAL_NO_RANK ? STREAMS - 1 : record->output.rank;
        long long step = -1;
        assert_true(rank < STREAMS);
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)record->size, record->text);
        if (sscanf(line, "{\"step\": %lld,", &step) != 1 || step != points->next[rank])
            fail_msg("rank %u: step %lld, not %lld: %s", rank, step, (long long)points->next[rank], line);
        points->next[rank]++;
    } else if (record->kind == JOURNAL_OUTPUT) {
        if (!points->outputs++)
            snprintf(points->first_output, sizeof points->first_output, "%.*s", (int)record->size, record->text);
    } else if (journal_is_end(record->kind)) {
        points->ended = true;
        points->code = record->exited.code;
    }
    return true;
}

/* Until the node ends, two minutes at most. */
static struct points points_of(struct engine *engine, const struct engine_order *order)
{
    struct points points = {0};
    struct error error = {0};
    for (uint64_t end = clock_after(120); !points.ended && clock_now() < end;) {
        struct pollfd ready = {engine->descriptor, POLLIN, 0};
        if (engine->poll(engine, &order->attempt, 0, points.last, count_record, &points, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        poll(&ready, 1, 20);
    }
    assert_true(points.ended);
    if (points.code != 0 || points.outputs)
        fail_msg("code %u, output: %s", points.code, points.first_output);
    return points;
}

/* Perl's output is that of C: blocks of 8 KiB, that end anywhere in a line. */
#define PRINT                                                                                                          \
    "perl -e 'for ($i = 0; $i < %d; $i++) { printf(\"{\\\"step\\\": %%d, \\\"loss\\\": %%g, \\\"%s\\\": 1}\\n\", $i, " \
    "1 / ($i + 1)); %s }'"

/* Blocks that end anywhere in a line come seldom, or one after the other; alone, and by ranks. */
static void points_come_in_blocks(void **state)
{
    if (!getenv("WEFT"))
        skip();
    static const struct {
        const char *name, *then, *padding;
        int count, ranks;
    } cases[] = {
        {"slow", "select(undef, undef, undef, 0.01);",
         "a_long_name_of_a_metric_that_fills_the_block_soon_so_that_there_are_many", 400, 0},
        {"slow-ranks", "select(undef, undef, undef, 0.01);", "a_long_name_of_a_metric_that_fills_the_block_soon", 400,
         2},
        {"heavy", "", "a", 200000, 0},
        {"heavy-ranks", "", "b", 100000, 2},
        {"halves", "$| = 1; print(\"{\\\"step\\\": \"); sleep(2); printf(\"%d, \\\"loss\\\": 1}\\n\", $i + 1); last;",
         "c", 1, 0},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    struct engine *engine = open_engine();
    char scripts[CASES][2000];
    struct engine_order orders[CASES];
    for (int i = 0; i < CASES; i++) {
        char program[1000];
        snprintf(program, sizeof program, PRINT, cases[i].count, cases[i].padding, cases[i].then);
        if (cases[i].ranks)
            snprintf(scripts[i], sizeof scripts[i], "$WEFT run --no-record -n %d -- %s", cases[i].ranks, program);
        else
            snprintf(scripts[i], sizeof scripts[i], "%s", program);
        orders[i] = order_of(cases[i].name, 1, scripts[i]);
        start(engine, &orders[i]);
    }
    for (int i = 0; i < CASES; i++) {
        struct points points = points_of(engine, &orders[i]);
        const bool halves = i == CASES - 1;
        for (int rank = 0; rank < STREAMS; rank++) {
            const bool prints = cases[i].ranks ? rank < cases[i].ranks : rank == STREAMS - 1;
            if (points.next[rank] != (prints ? cases[i].count + halves : 0))
                fail_msg("%s: rank %d: %lld points", cases[i].name, rank, (long long)points.next[rank]);
        }
    }
    engine->close(engine);
}

static bool has_said_two(const struct heard *heard)
{
    return strstr(heard->output, "two?") != NULL;
}

/* A question waits for its answer on the same line: it is shown. What begins as a point and never ends is output. */
static void a_line_that_has_no_end_is_shown(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("rests", 1,
                 "for i in 1 2 3 4 5 6; do echo one; printf 'x'; sleep 0.2; done; printf 'two?'; sleep 3; echo; "
                 "printf '[rank 1] {no'; sleep 1; echo ' point'; printf '{\"loss\": '");
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_two));
    assert_false(has_ended(&heard));
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    assert_non_null(strstr(heard.output, "one\nxone\nxone\nxone\nxone\nxone\nxtwo?\n[rank 1] {no point\n{\"loss\": "));
    assert_string_equal(heard.metrics, "");
    engine->close(engine);
}

/* The file of metrics is the program's: it can be of any size. */
static void a_file_without_an_end_keeps_no_agent_busy(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("sparse", 1,
                 "echo '{\"near\": 1}' >>$WEFT_METRICS; sleep 1; truncate -s 4T $WEFT_METRICS; echo '{\"far\": 2}' "
                 ">>$WEFT_METRICS; truncate -s +9K $WEFT_METRICS; echo '{\"last\": 3}' >>$WEFT_METRICS; truncate -s "
                 "8T $WEFT_METRICS; echo ready; sleep 600");
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    assert_int_equal(heard.cause, JOURNAL_STOPPED);
    assert_string_equal(heard.metrics, "{\"near\": 1}|-1\n{\"far\": 2}|-1\n{\"last\": 3}|-1\n");
    engine->close(engine);
}

/* More than one turn takes, all of it in the end. */
static void a_long_file_is_read_to_its_end(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("long", 1,
                 "python3 -c '\nimport os\nwith open(os.environ[\"WEFT_METRICS\"], \"a\") as file:\n"
                 "    for i in range(150000):\n        file.write(\"{\\\"step\\\": %d, \\\"loss\\\": 1}\\n\" % i)'");
    start(engine, &order);
    assert_int_equal(points_of(engine, &order).next[STREAMS - 1], 150000);
    engine->close(engine);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "agent") == 0)
        return node_agent_main(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(points_come_in_blocks, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_line_that_has_no_end_is_shown, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_file_without_an_end_keeps_no_agent_busy, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_long_file_is_read_to_its_end, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
