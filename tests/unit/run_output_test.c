/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's nodes have printed: pages backwards and forwards and what is added, against lists that were kept. */
#include "base/random.h"
#include "platform/agent/journal/file.h"
#include "platform/agent/order.h"
#include "platform/runs/internal/output_scan.h"
#include "platform/runs/output.h"

#include "temporary.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define LINES_MOST 4000

static const char *directory;
static const struct attempt attempt = {"7", 3};

/* All that was printed, in order. */
static struct {
    uint64_t time;
    uint32_t node, rank, stream;
    char text[64];
} printed[LINES_MOST];
static size_t count;

/* Of each node: the segment that is written, and the sequence of the next record. */
static struct {
    struct buffer segment;
    uint64_t first, next;
} nodes[4];

static int begin(void **state)
{
    directory = temporary_directory();
    count = 0;
    memset(nodes, 0, sizeof nodes);
    return 0;
}

static int end(void **state)
{
    for (int i = 0; i < 4; i++)
        buffer_free(&nodes[i].segment);
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

static void journal_of(uint32_t node, char path[FILE_PATH_BYTES])
{
    char inner[FILE_PATH_BYTES];
    assert_int_equal(node_directory(inner, directory, &attempt, node, NULL), WEFT_OK);
    assert_int_equal(file_join(path, inner, "journal", NULL), WEFT_OK);
}

static void write_segment(uint32_t node)
{
    char path[FILE_PATH_BYTES], journal[FILE_PATH_BYTES];
    journal_of(node, journal);
    assert_int_equal(file_make_directory(journal, NULL), WEFT_OK);
    assert_int_equal(journal_segment_path(path, journal, nodes[node].first, NULL), WEFT_OK);
    assert_int_equal(file_write(path, buffer_begin(&nodes[node].segment), buffer_size(&nodes[node].segment), NULL),
                     WEFT_OK);
}

/* A record of lines, or of another kind. */
static void put_record(uint32_t node, struct journal_record *record, uint64_t time)
{
    if (nodes[node].first == 0)
        nodes[node].first = nodes[node].next = 1;
    record->time = time;
    record->sequence = nodes[node].next++;
    journal_put(&nodes[node].segment, record);
}

static void begin_segment(uint32_t node)
{
    write_segment(node);
    buffer_consume(&nodes[node].segment, buffer_size(&nodes[node].segment));
    nodes[node].first = nodes[node].next;
}

/* Journals of `node_count` nodes with records of one to three lines, in small segments. */
static void print_at_random(uint32_t node_count, size_t lines, uint64_t seed)
{
    uint64_t n = 0, time = 1700000000000000;
    while (count < lines) {
        uint32_t node = (uint32_t)random_below(seed, n++, node_count);
        uint32_t rank = (uint32_t)random_below(seed, n++, 5);
        char text[300] = "";
        time += 1 + random_below(seed, n++, 1000);
        if (random_below(seed, n++, 6) == 0) {
            struct journal_record beat = {.kind = JOURNAL_HEARTBEAT};
            put_record(node, &beat, time++);
        }
        struct journal_record record = {
            .kind = JOURNAL_OUTPUT,
            .output = {1 + (uint32_t)random_below(seed, n++, 2), rank == 4 ? JOURNAL_NO_RANK : rank}};
        for (uint64_t i = 0, of = 1 + random_below(seed, n++, 3); i < of && count < lines; i++) {
            snprintf(printed[count].text, sizeof printed[count].text, "line %zu says %" PRIu64, count,
                     random_below(seed, n++, 10));
            printed[count].time = time;
            printed[count].node = node;
            printed[count].rank = record.output.rank;
            printed[count].stream = record.output.stream;
            size_t used = strlen(text);
            if (rank < 4)
                used += (size_t)snprintf(text + used, sizeof text - used, "[rank %u] ", rank);
            snprintf(text + used, sizeof text - used, "%s\n", printed[count++].text);
        }
        record.text = text;
        record.size = (uint32_t)strlen(text);
        put_record(node, &record, time);
        if (random_below(seed, n++, 20) == 0)
            begin_segment(node);
    }
    for (uint32_t i = 0; i < node_count; i++)
        if (nodes[i].first)
            write_segment(i);
}

static struct run_output_query query_of(uint32_t node_count)
{
    return (struct run_output_query){directory,      attempt,        node_count, RUN_OUTPUT_ANY,
                                     RUN_OUTPUT_ANY, RUN_OUTPUT_ANY, NULL};
}

static bool fits(const struct run_output_query *query, size_t i)
{
    return (query->node == RUN_OUTPUT_ANY || printed[i].node == query->node) &&
           (query->rank == RUN_OUTPUT_ANY || printed[i].rank == query->rank) &&
           (query->stream == RUN_OUTPUT_ANY || printed[i].stream == query->stream) &&
           (!query->search || strcasestr(printed[i].text, query->search));
}

static struct run_output_page page_of(const struct run_output_query *query, const char *cursor, bool forwards,
                                      size_t most)
{
    struct run_output_page page;
    struct error error = {0};
    if (run_output_page(query, cursor, forwards, most, &page, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(page.count <= most);
    return page;
}

static void is_same(const struct run_output_line *line, size_t i)
{
    assert_string_equal(line->text, printed[i].text);
    assert_int_equal(line->node, printed[i].node);
    assert_int_equal(line->rank, printed[i].rank);
    assert_int_equal(line->stream, printed[i].stream);
    assert_true(line->time == printed[i].time);
}

/* Everything by pages of `most`, in both directions. */
static void page_through(const struct run_output_query *query, size_t most)
{
    char cursor[RUN_OUTPUT_CURSOR_BYTES] = "";
    size_t i = count;
    for (bool more = true; more;) {
        struct run_output_page page = page_of(query, *cursor ? cursor : NULL, false, most);
        for (size_t k = page.count; k-- > 0;) {
            while (i-- > 0 && !fits(query, i))
                ;
            assert_true(i < count);
            is_same(&page.lines[k], i);
        }
        more = page.more;
        memcpy(cursor, page.before, sizeof cursor);
        run_output_page_free(&page);
    }
    while (i-- > 0)
        assert_false(fits(query, i));
    cursor[0] = '\0';
    i = 0;
    for (bool more = true; more;) {
        struct run_output_page page = page_of(query, *cursor ? cursor : NULL, true, most);
        for (size_t k = 0; k < page.count; k++, i++) {
            while (i < count && !fits(query, i))
                i++;
            assert_true(i < count);
            is_same(&page.lines[k], i);
        }
        more = page.more;
        memcpy(cursor, page.after, sizeof cursor);
        run_output_page_free(&page);
    }
    while (i < count)
        assert_false(fits(query, i++));
}

static void pages_are_what_was_printed(void **state)
{
    print_at_random(4, 1500, 1);
    struct run_output_query query = query_of(4);
    static const size_t sizes[] = {1, 7, 100, 10000};
    for (size_t i = 0; i < 4; i++)
        page_through(&query, sizes[i]);
    for (int64_t node = 0; node < 4; node++) {
        query.node = node;
        page_through(&query, 33);
    }
    query.node = RUN_OUTPUT_ANY;
    query.rank = 2;
    page_through(&query, 10);
    query.stream = 2;
    page_through(&query, 10);
    query.rank = RUN_OUTPUT_ANY;
    query.search = "SAYS 7";
    page_through(&query, 10);
    static const char *const searches[] = {"l", "LINE 1", "0", "says 3", "line 1499 says", "s 9", " "};
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        query.search = searches[i];
        page_through(&query, 200);
    }
    query.search = "nothing has this";
    page_through(&query, 10);
}

/* The last lines and what comes then: nothing is left out, nothing comes twice. */
static void watching_goes_on_from_a_page(void **state)
{
    char journal[FILE_PATH_BYTES];
    struct error error = {0};
    struct journal_writer writers[2] = {{.file = -1}, {.file = -1}};
    const struct journal_limits limits = {.segment_bytes = 2000};
    for (uint32_t node = 0; node < 2; node++) {
        journal_of(node, journal);
        assert_int_equal(journal_writer_open(&writers[node], journal, &limits, NULL), WEFT_OK);
    }
    struct run_output_query query = query_of(2);
    unsigned written = 0, seen[2] = {0}, next[2] = {0};
#define WRITE(lines)                                                                                                   \
    for (unsigned k = 0; k < (lines); k++, written++) {                                                                \
        char text[32];                                                                                                 \
        uint32_t to = (uint32_t)random_below(5, written, 2);                                                           \
        int size = snprintf(text, sizeof text, "%u\n", next[to]++);                                                    \
        struct journal_record record = {                                                                               \
            .kind = JOURNAL_OUTPUT, .output = {1, JOURNAL_NO_RANK}, .text = text, .size = (uint32_t)size};             \
        assert_int_equal(journal_append(&writers[to], &record, NULL), WEFT_OK);                                        \
    }
#define TAKE(page)                                                                                                     \
    for (size_t k = 0; k < (page).count; k++)                                                                          \
    assert_int_equal(atoi((page).lines[k].text), seen[(page).lines[k].node]++)
    for (int way = 0; way < 3; way++) {
        struct run_output_follow *follow;
        seen[0] = seen[1] = 0;
        WRITE(100);
        struct run_output_page page = page_of(&query, NULL, false, 10000);
        if (way < 2)
            TAKE(page);
        if (run_output_follow(&query, way == 0 ? page.ends : NULL, way == 1 ? page.after : NULL, &follow, &error) !=
            WEFT_OK)
            fail_msg("%s", error.text);
        run_output_page_free(&page);
        for (unsigned round = 0; round < 30; round++) {
            WRITE(random_below(6, round, 100));
            for (bool more = true; more;) {
                if (run_output_follow_next(follow, &page, &error) != WEFT_OK)
                    fail_msg("%s", error.text);
                TAKE(page);
                more = page.more;
                run_output_page_free(&page);
            }
            assert_int_equal(seen[0] + seen[1], written);
        }
        run_output_follow_close(follow);
    }
    for (uint32_t node = 0; node < 2; node++)
        journal_writer_close(&writers[node]);
}

/* Nodes that print more than is read at a time, one of them empty lines: each turn is small, and all nodes have their
 * share of it. */
static void watching_takes_small_turns(void **state)
{
    enum { RECORDS = 100, BYTES = 8000, TURN = 256 << 10 };
    static char text[BYTES];
    struct run_output_follow *follow;
    struct run_output_page page;
    struct run_output_query query = query_of(4);
    size_t lines[4] = {0}, wanted[4] = {0}, turns = 0;
    for (uint32_t node = 0; node < 4; node++) {
        const size_t length = node == 3 ? 1 : 80;
        for (size_t i = 0; i < BYTES; i++)
            text[i] = i % length == length - 1 ? '\n' : 'x';
        for (uint64_t i = 0; i < RECORDS; i++) {
            struct journal_record record = {
                .kind = JOURNAL_OUTPUT, .output = {1, JOURNAL_NO_RANK}, .text = text, .size = BYTES};
            put_record(node, &record, 1700000000000000 + i);
            wanted[node] += BYTES / length;
        }
        write_segment(node);
    }
    assert_int_equal(run_output_follow(&query, NULL, NULL, &follow, NULL), WEFT_OK);
    for (bool more = true; more; turns++) {
        size_t bytes = 0;
        assert_int_equal(run_output_follow_next(follow, &page, NULL), WEFT_OK);
        for (size_t i = 0; i < page.count; i++) {
            bytes += strlen(page.lines[i].text) + 1;
            lines[page.lines[i].node]++;
        }
        assert_in_range(bytes, 0, TURN + BYTES);
        assert_in_range(page.count, 0, 4096 + BYTES);
        if (turns == 3) /* by then each was the first of a turn */
            for (uint32_t node = 0; node < 4; node++)
                assert_in_range(lines[node], wanted[node] / RECORDS, wanted[node]);
        more = page.more;
        run_output_page_free(&page);
    }
    assert_memory_equal(lines, wanted, sizeof lines);
    run_output_follow_close(follow);
}

static void what_is_dropped_is_told(void **state)
{
    char journal[FILE_PATH_BYTES];
    struct journal_writer writer = {.file = -1};
    const struct journal_limits limits = {.segment_bytes = 2000, .output_bytes = 5000};
    journal_of(0, journal);
    assert_int_equal(journal_writer_open(&writer, journal, &limits, NULL), WEFT_OK);
    for (int i = 0; i < 1000; i++) {
        char text[32];
        int size = snprintf(text, sizeof text, "line %d\n", i);
        struct journal_record record = {
            .kind = JOURNAL_OUTPUT, .output = {2, JOURNAL_NO_RANK}, .text = text, .size = (uint32_t)size};
        assert_int_equal(journal_append(&writer, &record, NULL), WEFT_OK);
    }
    struct run_output_query query = query_of(1);
    struct run_output_page page = page_of(&query, NULL, false, 10000);
    unsigned notes = 0, lines = 0;
    for (size_t i = 0; i < page.count; i++) {
        notes += page.lines[i].stream == 0;
        lines += page.lines[i].stream == 2;
        assert_true(page.lines[i].stream || strstr(page.lines[i].text, "of older output were dropped"));
    }
    assert_true(notes > 0 && lines > 100 && lines < 1000);
    assert_string_equal(page.lines[page.count - 1].text, "line 999");
    run_output_page_free(&page);
    query.stream = 2;
    page = page_of(&query, NULL, true, 10000);
    assert_int_equal(page.count, lines);
    run_output_page_free(&page);
    journal_writer_close(&writer);
}

/* Bytes that are no records end what is read of a segment, and nothing else. */
static void damage_is_passed_over(void **state)
{
    char journal[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *content;
    size_t size;
    print_at_random(1, 300, 9);
    journal_of(0, journal);
    uint64_t *firsts;
    size_t segments;
    assert_int_equal(journal_segments(journal, &firsts, &segments, NULL), WEFT_OK);
    assert_true(segments > 2);
    assert_int_equal(journal_segment_path(path, journal, firsts[1], NULL), WEFT_OK);
    assert_int_equal(file_read(path, 1 << 20, &content, &size, NULL), WEFT_OK);
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t at = random_below(seed, 0, size);
        char before = content[at];
        content[at] = (char)random_below(seed, 1, 256);
        assert_int_equal(file_write(path, content, size, NULL), WEFT_OK);
        struct run_output_query query = query_of(1);
        struct run_output_page page = page_of(&query, NULL, seed % 2, 10000);
        assert_true(page.count > 0 && page.count <= count);
        is_same(&page.lines[0], 0);
        is_same(&page.lines[page.count - 1], count - 1);
        run_output_page_free(&page);
        content[at] = before;
    }
    free(content);
    free(firsts);
}

static void odd_questions_are_refused(void **state)
{
    struct run_output_page page;
    struct run_output_follow *follow;
    struct error error = {0};
    print_at_random(1, 10, 2);
    struct run_output_query query = query_of(1);
    static const char *const cursors[] = {"",
                                          "1",
                                          "1.2.3",
                                          "1.2.3.4.5",
                                          "a.b.c.d",
                                          "1..2.3",
                                          "-1.0.1.0",
                                          "1.0.1.0 ",
                                          "99999999999999999999999.0.1.0",
                                          "1.4294967296.1.0",
                                          "1.0.1.4294967296"};
    for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++) {
        error_clear(&error);
        assert_int_equal(run_output_page(&query, cursors[i], i % 2, 10, &page, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "is no cursor"));
        assert_int_equal(run_output_follow(&query, NULL, cursors[i], &follow, NULL), WEFT_ERROR_ARGUMENT);
    }
    query.node = 1;
    assert_int_equal(run_output_page(&query, NULL, true, 10, &page, NULL), WEFT_ERROR_ARGUMENT);
    query = query_of(65);
    error_clear(&error);
    assert_int_equal(run_output_page(&query, NULL, true, 10, &page, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "choose one"));
    query.attempt.epoch = 9; /* nothing is there */
    query.node = 3;
    page = page_of(&query, NULL, false, 10);
    assert_int_equal(page.count, 0);
    assert_false(page.more);
    run_output_page_free(&page);
    page = page_of(&query, "5.0.5.5", true, 10);
    assert_int_equal(page.count, 0);
    assert_string_equal(page.after, "5.0.5.5");
    run_output_page_free(&page);
}

static void lines_can_be_shown(void **state)
{
    static const struct {
        const char *raw;
        size_t size;
        const char *shown;
    } lines[] = {{"plain", 5, "plain"},
                 {"\033[1;31mred\033[0m text\n", 19, "red text"},
                 {"10%\r50%\r100%\r\n", 14, "100%"},
                 {"a\tb\001c", 5, "a\tb?c"},
                 {"nul\0inside", 10, "nul?inside"},
                 {"\033]0;a title\007after", 17, "after"},
                 {"\033]8;;http://x\033\\link", 19, "link"},
                 {"\033(Bset", 6, "set"},
                 {"ends in\033[", 9, "ends in"},
                 {"ends in\033", 8, "ends in"},
                 {"b\b\b\bc", 5, "c"},
                 {"\xc3\xa4\xff", 3, "\xc3\xa4?"},
                 {"\t", 1, "\t"},
                 {"", 0, ""}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[64];
        memcpy(text, lines[i].raw, lines[i].size);
        assert_int_equal(run_output_text(text, lines[i].size), strlen(lines[i].shown));
        assert_string_equal(text, lines[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_are_what_was_printed, begin, end),
        cmocka_unit_test_setup_teardown(watching_goes_on_from_a_page, begin, end),
        cmocka_unit_test_setup_teardown(watching_takes_small_turns, begin, end),
        cmocka_unit_test_setup_teardown(what_is_dropped_is_told, begin, end),
        cmocka_unit_test_setup_teardown(damage_is_passed_over, begin, end),
        cmocka_unit_test_setup_teardown(odd_questions_are_refused, begin, end),
        cmocka_unit_test(lines_can_be_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
