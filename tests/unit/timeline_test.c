/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline's sums, from a file whose sums are known; and files that say what no timeline says. */
#include "observe/inspect/timeline.h"

#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BEGIN "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
#define END   "\n]}\n"
#define RANK(pid, machine)                                                                                             \
    "{\"name\":\"process_name\",\"pid\":" pid ",\"args\":{\"host\":\"h" pid "\",\"machine\":\"" machine "\"}}"
#define OPERATION(pid, ts, dur)                                                                                        \
    "{\"name\":\"allreduce\",\"cat\":\"operation\",\"ph\":\"X\",\"pid\":" pid ",\"ts\":" ts ",\"dur\":" dur            \
    ",\"args\":{\"algorithm\":\"ring\",\"bytes\":64,\"sequence\":7,\"waited_us\":2}}"
#define STEP(category, pid, ts, dur)                                                                                   \
    "{\"cat\":\"" category "\",\"ph\":\"X\",\"pid\":" pid ",\"ts\":" ts ",\"dur\":" dur ",\"args\":{\"sequence\":7}}"

static weft_status read_text(const char *text, struct timeline *timeline, struct error *error)
{
    const char *directory = temporary_directory(), *path = temporary_file(directory, "timeline", text, strlen(text));
    weft_status status = timeline_read(path, timeline, error);
    file_remove_tree(directory, NULL);
    return status;
}

static void sums(void **state)
{
    struct timeline timeline;
    /* Ranks 2 and 5 share a machine; 9 is elsewhere. Of 2's and 5's memory work, [10, 20) and [12, 16), the message
     * [14, 30) covers [14, 20) and [14, 16). */
    weft_status status = read_text(BEGIN RANK("2", "m") ",\n" OPERATION("2", "10", "30") ",\n" //
                                   STEP("near", "2", "10", "10") ",\n" RANK("5", "m") ",\n"    //
                                   OPERATION("5", "13", "27") ",\n" STEP("near", "5", "12", "4") ",\n" STEP(
                                       "message", "5", "14", "16") ",\n" RANK("9", "n") ",\n" //
                                   OPERATION("9", "12", "20") END,
                                   &timeline, NULL);
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(timeline.rank_count, 3);
    assert_int_equal(timeline.ranks[0].rank, 2);
    assert_int_equal(timeline.ranks[1].rank, 5);
    assert_int_equal(timeline.ranks[2].rank, 9);
    assert_string_equal(timeline.ranks[2].host, "h9");
    assert_true(timeline.ranks[1].late_most > 2.999e-6 && timeline.ranks[1].late_most < 3.001e-6);
    assert_int_equal(timeline.ranks[1].late_last, 1);
    assert_int_equal(timeline.kind_count, 1);
    const struct timeline_kind *kind = &timeline.kinds[0];
    assert_string_equal(kind->algorithm, "ring");
    assert_int_equal(kind->calls, 3);
    assert_int_equal(kind->bytes, 192);
    assert_true(kind->inner > 13.999e-6 && kind->inner < 14.001e-6);
    assert_true(kind->outer > 15.999e-6 && kind->outer < 16.001e-6);
    assert_true(kind->overlapped > 7.999e-6 && kind->overlapped < 8.001e-6);
    timeline_free(&timeline);
}

static void what_no_timeline_says_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "{\"displayTimeUnit\"",
        BEGIN "{\"name\":",
        BEGIN RANK("0", "m") ",\n",         /* cut short */
        BEGIN OPERATION("0", "1", "1") END, /* of a rank that is not told of */
        BEGIN RANK("1048575", "m") ",\n" OPERATION("7", "1", "1") END,
        BEGIN RANK("1048576", "m") END,
        BEGIN RANK("-1", "m") END,
        BEGIN RANK("3", "m") ",\n" RANK("3", "m") END, /* twice */
        BEGIN RANK("3", "m") ",\n" RANK("2", "m") END, /* out of order */
        BEGIN RANK("0", "m") ",\n" OPERATION("0", "1e999", "1") END,
        BEGIN RANK("0", "m") ",\n" OPERATION("0", "1", "-1e300") END,
        BEGIN "{\"name\":\"process_name\",\"pid\":0,\"args\":{\"events\":-1}}" END,
        BEGIN "{\"name\":\"process_name\",\"pid\":0,\"args\":{\"lost\":1e19}}" END,
        BEGIN "[]" END,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct timeline timeline = {0};
        struct error error = {0};
        assert_int_equal(read_text(texts[i], &timeline, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, "timeline"));
        assert_null(timeline.ranks);
    }
}

static void many_kinds_are_no_kinds(void **state)
{
    size_t room = 4096 * 120, used;
    char *text = malloc(room);
    struct timeline timeline = {0};
    struct error error = {0};
    used = (size_t)snprintf(text, room, "%s", BEGIN RANK("0", "m"));
    for (int i = 0; i < 4096; i++)
        used += (size_t)snprintf(text + used, room - used,
                                 ",\n{\"name\":\"%d\",\"cat\":\"operation\",\"ph\":\"X\",\"pid\":0,\"ts\":1}", i);
    snprintf(text + used, room - used, "%s", END);
    assert_int_equal(read_text(text, &timeline, &error), WEFT_ERROR_DATA);
    free(text);
}

static void texts_are_printable(void **state)
{
    struct timeline timeline;
    assert_int_equal(read_text(BEGIN
                               "{\"name\":\"process_name\",\"pid\":0,\"args\":{\"host\":\"a\\u001b[2J\xff\"}}" END,
                               &timeline, NULL),
                     WEFT_OK);
    assert_string_equal(timeline.ranks[0].host, "a?[2J?");
    timeline_free(&timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(what_no_timeline_says_is_refused),
        cmocka_unit_test(many_kinds_are_no_kinds),
        cmocka_unit_test(texts_are_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
