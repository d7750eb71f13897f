/* SPDX-License-Identifier: Apache-2.0 */
/* Output on its way into the journal: a turn takes a bounded piece, and half a point is not read. */
#include "platform/agent/output.h"

#include "base/clock.h"
#include "temporary.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MEBIBYTE ((size_t)1 << 20)

struct place {
    const char *directory;
    struct journal_writer journal;
    struct node_output output;
    int write; /* where stream 0 comes from */
};

static void open_place(struct place *place)
{
    int ends[2];
    memset(place, 0, sizeof *place);
    place->directory = temporary_directory();
    assert_int_equal(journal_writer_open(&place->journal, temporary_path(place->directory, "journal"), NULL, NULL),
                     WEFT_OK);
    node_output_open(&place->output, &place->journal, place->directory, NULL);
    assert_true(place->output.metrics >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    place->output.streams[0].descriptor = ends[0];
    place->write = ends[1];
}

static void print(struct place *place, const char *text)
{
    assert_int_equal(write(place->write, text, strlen(text)), strlen(text));
    node_output_read(&place->output, 0);
}

/* What is in the journal: how many points, and all that is output. */
static uint32_t points_of(const struct place *place, char *text, size_t room)
{
    struct journal_reader reader;
    struct journal_record record;
    bool found = true;
    uint32_t points = 0;
    *text = '\0';
    assert_int_equal(journal_reader_open(&reader, place->journal.directory, 0, NULL), WEFT_OK);
    while (journal_reader_next(&reader, &record, &found, NULL) == WEFT_OK && found) {
        const size_t used = strlen(text);
        points += record.kind == JOURNAL_METRICS;
        if (record.kind == JOURNAL_OUTPUT)
            snprintf(text + used, room - used, "%.*s;", (int)record.size, record.text);
    }
    journal_reader_close(&reader);
    return points;
}

static void close_place(struct place *place)
{
    close(place->write);
    node_output_close(&place->output);
    journal_writer_close(&place->journal);
    assert_int_equal(file_remove_tree(place->directory, NULL), WEFT_OK);
}

/* Lines of 1 KiB each into the file of metrics. */
static void write_metrics(const struct place *place, size_t lines)
{
    char line[1025];
    snprintf(line, sizeof line, "{\"loss\": 1,%1011s}\n", "");
    assert_int_equal(strlen(line), 1024);
    int file = open(temporary_path(place->directory, "metrics"), O_WRONLY | O_APPEND);
    assert_true(file >= 0);
    for (size_t i = 0; i < lines; i++)
        assert_int_equal(write(file, line, 1024), 1024);
    close(file);
}

static void a_turn_takes_a_bounded_piece(void **state)
{
    struct place place;
    char text[200];
    open_place(&place);
    write_metrics(&place, 8192);
    int turns = 0;
    for (uint64_t before = 0; place.output.metrics_read < 8 * MEBIBYTE; before = place.output.metrics_read, turns++) {
        assert_true(node_output_tick(&place.output));
        assert_in_range(place.output.metrics_read - before, 1, MEBIBYTE + MEBIBYTE / 8);
        if (place.output.metrics_read < 8 * MEBIBYTE)
            assert_true(node_output_next(&place.output) <= clock_now()); /* at once */
    }
    assert_in_range(turns, 7, 8);
    node_output_tick(&place.output);
    assert_true(node_output_next(&place.output) > clock_now());
    assert_int_equal(points_of(&place, text, sizeof text), 8192);
    close_place(&place);
}

static void closing_takes_all_turns(void **state)
{
    struct place place;
    char text[200];
    open_place(&place);
    write_metrics(&place, 5000);
    node_output_close(&place.output);
    assert_int_equal(points_of(&place, text, sizeof text), 5000);
    close_place(&place);
}

static void half_a_point_waits_for_the_other_half(void **state)
{
    static const char *const halves[][2] = {{"{", "\"step\": 1, \"loss\": 1}\n"},
                                            {"[rank 7 a] {\"step\"", ": 1, \"loss\": 1}\n"},
                                            {"[ra", "nk 7] {\"step\": 1, \"loss\": 1}\n"},
                                            {"[rank 7] ", "{\"step\": 1, \"loss\": 1}\n"},
                                            {"{\"step\": 1, \"loss\": 1}", "\n"}};
    struct place place;
    char text[200];
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        open_place(&place);
        print(&place, halves[i][0]);
        poll(NULL, 0, 600);
        assert_false(node_output_tick(&place.output));
        print(&place, halves[i][1]);
        assert_int_equal(points_of(&place, text, sizeof text), 1);
        assert_string_equal(text, "");
        close_place(&place);
    }
}

/* It is a point where it is, and is not shown as well. */
static void a_point_may_begin_with_blanks_and_lack_its_end(void **state)
{
    static const char *const lines[] = {"  {\"step\": 1, \"loss\": 1}\n", "\t{\"step\": 1, \"loss\": 1} \n",
                                        "[rank 7]  {\"step\": 1, \"loss\": 1}\n", "{\"step\": 1, \"loss\": 1}",
                                        "[rank 7]   {\"step\": 1, \"loss\": 1}"};
    struct place place;
    char text[200];
    for (int closed = 0; closed < 2; closed++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            open_place(&place);
            print(&place, lines[i]);
            poll(NULL, 0, 600);
            node_output_tick(&place.output);
            if (closed) { /* by the program; else its agent ends first */
                close(place.write);
                node_output_read(&place.output, 0);
                place.write = open("/dev/null", O_WRONLY | O_CLOEXEC);
            } else {
                node_output_close(&place.output);
            }
            assert_int_equal(points_of(&place, text, sizeof text), 1);
            assert_string_equal(text, "");
            close_place(&place);
        }
    /* Text that is no secret stays as it is. */
    open_place(&place);
    print(&place, "  {\"loss\": 1}\n\n   \n {");
    close(place.write);
    node_output_read(&place.output, 0);
    place.write = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(points_of(&place, text, sizeof text), 0);
    assert_string_equal(text, "  {\"loss\": 1}\n\n   \n; {;");
    close_place(&place);
}

/* Half a second, from its own first bytes on. */
static void a_rest_of_text_is_shown_in_time(void **state)
{
    struct place place;
    char text[200];
    open_place(&place);
    print(&place, "one\ntw");
    poll(NULL, 0, 400);
    print(&place, "o\nthr");
    poll(NULL, 0, 300);
    node_output_tick(&place.output);
    points_of(&place, text, sizeof text);
    assert_string_equal(text, "one\n;two\n;");
    poll(NULL, 0, 400);
    assert_true(node_output_tick(&place.output));
    print(&place, "ee {\n");
    points_of(&place, text, sizeof text);
    assert_string_equal(text, "one\n;two\n;thr;ee {\n;");
    close_place(&place);
}

/* A program that prints without end waits, and once it has ended the rest is taken at once. */
static void a_flood_is_read_at_a_rate(void **state)
{
    struct place place;
    static char lines[32768];
    uint64_t printed = 0;
    (void)state;
    memset(lines, 'x', sizeof lines);
    lines[sizeof lines - 1] = '\n';
    open_place(&place);
    const uint64_t began = clock_now();
    while (node_output_is_due(&place.output) && printed < 4 * NODE_OUTPUT_BURST) {
        assert_int_equal(write(place.write, lines, sizeof lines), sizeof lines);
        node_output_read(&place.output, 0);
        printed += sizeof lines;
    }
    const double seconds = (double)(clock_now() - began) * 1e-9;
    assert_true(printed >= NODE_OUTPUT_BURST);
    assert_true((double)printed <= NODE_OUTPUT_BURST + (seconds + 0.1) * NODE_OUTPUT_RATE);
    assert_true(node_output_next(&place.output) > clock_now());
    node_output_hurry(&place.output);
    assert_true(node_output_is_due(&place.output));
    close_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_is_read_at_a_rate),
        cmocka_unit_test(a_turn_takes_a_bounded_piece),
        cmocka_unit_test(closing_takes_all_turns),
        cmocka_unit_test(half_a_point_waits_for_the_other_half),
        cmocka_unit_test(a_point_may_begin_with_blanks_and_lack_its_end),
        cmocka_unit_test(a_rest_of_text_is_shown_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
