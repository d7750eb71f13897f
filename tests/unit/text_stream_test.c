/* SPDX-License-Identifier: Apache-2.0 */
/* Generated text on its way out: whole characters, as early as they are certain, up to the first stop string; the same
 * however the bytes were cut into pieces. */
#include "training/train/text/text_stream.h"

#include "base/random.h"
#include "training/data/tokenizer/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST 400

/* A stream into memory. */
struct sink {
    struct text_stream stream;
    char *text;
    size_t size;
};

static void sink_open(struct sink *sink, const char *const *stops)
{
    *sink = (struct sink){.stream = {.stops = stops}};
    while (stops && stops[sink->stream.stop_count])
        sink->stream.stop_count++;
    sink->stream.output = open_memstream(&sink->text, &sink->size);
    assert_non_null(sink->stream.output);
}

static void sink_close(struct sink *sink)
{
    assert_int_equal(text_stream_end(&sink->stream, NULL), WEFT_OK);
    fclose(sink->stream.output);
    free(sink->text);
}

static void put(struct sink *sink, const void *bytes, size_t size)
{
    struct error error = {0};
    if (text_stream_put(&sink->stream, bytes, size, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void expect(struct sink *sink, const char *text)
{
    if (sink->size != strlen(text) || memcmp(sink->text, text, sink->size) != 0)
        fail_msg("'%.*s' instead of '%s'", (int)sink->size, sink->text, text);
}

static bool is_utf8(const char *text, size_t size)
{
    uint32_t character;
    size_t at = 0, length;
    while (at < size && (length = utf8_read((const uint8_t *)text + at, size - at, &character)) > 0)
        at += length;
    return at == size;
}

/* ---- characters ---- */

static void a_character_is_printed_when_it_is_whole(void **state)
{
    struct sink sink;
    sink_open(&sink, NULL);
    put(&sink, "a", 1);
    expect(&sink, "a");
    put(&sink, "\xe2", 1);
    put(&sink, "\x82", 1);
    expect(&sink, "a");
    put(&sink,
        "\xac"
        "b\xf0\x9f",
        4);
    expect(&sink, "a\u20acb");
    put(&sink, "\x98\x80\xc3", 3);
    expect(&sink, "a\u20acb\U0001f600");
    put(&sink, "\xa9", 1);
    expect(&sink, "a\u20acb\U0001f600\u00e9");
    sink_close(&sink);
}

static void bytes_that_are_no_utf8_are_replaced_one_by_one(void **state)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"a\xff"
         "b",
         "a\ufffd"
         "b"},
        {"\x80", "\ufffd"},
        {"\xc3(", "\ufffd("},
        {"\xe2\x82(", "\ufffd\ufffd("},
        {"\xc0\x80", "\ufffd\ufffd"},
        {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"}, /* half of a pair */
        {"\xf5\x80\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
        {"end\xe2\x82", "end\ufffd\ufffd"}, /* cut off */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= 4; piece++) {
            struct sink sink;
            const size_t size = strlen(cases[i].bytes);
            sink_open(&sink, NULL);
            for (size_t at = 0; at < size; at += piece)
                put(&sink, cases[i].bytes + at, size - at < piece ? size - at : piece);
            assert_int_equal(text_stream_end(&sink.stream, NULL), WEFT_OK);
            expect(&sink, cases[i].text);
            sink_close(&sink);
        }
}

static void no_control_character_reaches_a_terminal(void **state)
{
    static const char bytes[] = "a\tb\n\033[2J\r\x7f\0c\xc2\x9b\u00e9";
    struct sink sink;
    sink_open(&sink, NULL);
    put(&sink, bytes, sizeof bytes - 1);
    expect(&sink, "a\tb\n\033[2J\r\x7f\ufffd"
                  "c\xc2\x9b\u00e9"); /* but for NUL as it came */
    sink_close(&sink);
    sink_open(&sink, NULL);
    sink.stream.is_terminal = true;
    put(&sink, bytes, sizeof bytes - 1);
    expect(&sink, "a\tb\n\ufffd[2J\ufffd\ufffd\ufffd"
                  "c\ufffd\u00e9");
    sink_close(&sink);
}

/* ---- stop strings ---- */

static void a_stop_string_is_found_across_pieces_and_not_printed(void **state)
{
    struct sink sink;
    sink_open(&sink, (const char *const[]){"###", "\n\n", NULL});
    put(&sink, "one\n", 4);
    expect(&sink, "one"); /* the line feed may become a stop string */
    put(&sink, "#", 1);
    expect(&sink, "one\n");
    put(&sink, "#two", 4);
    expect(&sink, "one\n##two");
    put(&sink, " ##", 3);
    expect(&sink, "one\n##two ");
    assert_false(sink.stream.is_stopped);
    put(&sink, "# three", 7);
    expect(&sink, "one\n##two ");
    assert_true(sink.stream.is_stopped);
    put(&sink, "four", 4);
    expect(&sink, "one\n##two ");
    sink_close(&sink);
}

static void what_may_become_a_stop_string_is_printed_at_the_end(void **state)
{
    struct sink sink;
    sink_open(&sink, (const char *const[]){"abcd", "\u20ac\u20ac", NULL});
    put(&sink, "xxabc", 5);
    expect(&sink, "xx");
    assert_int_equal(text_stream_end(&sink.stream, NULL), WEFT_OK);
    expect(&sink, "xxabc");
    put(&sink, "\u20ac\xe2", 4); /* the next text begins */
    expect(&sink, "xxabc");
    put(&sink, "\x82\xac", 2);
    assert_true(sink.stream.is_stopped);
    assert_int_equal(text_stream_end(&sink.stream, NULL), WEFT_OK);
    expect(&sink, "xxabc");
    sink_close(&sink);
}

/* Up to the stop string that ends first, the longest of those; found by looking at every end. */
static size_t find_end(const char *text, size_t size, const char *const *stops, bool *stopped)
{
    for (size_t end = 1; end <= size; end++) {
        size_t longest = 0;
        for (size_t i = 0; stops[i]; i++) {
            const size_t length = strlen(stops[i]);
            if (length <= end && length > longest && memcmp(text + end - length, stops[i], length) == 0)
                longest = length;
        }
        *stopped = longest > 0;
        if (longest)
            return end - longest;
    }
    return size;
}

/* Texts of few letters, in which stop strings and their beginnings are common, cut at random. */
static void pieces_do_not_change_the_text(void **state)
{
    static const char *const letters[] = {"a", "b", "\u00e9", "\u20ac", "\U0001f600", "\n"};
    static const char *const choices[] = {"ab", "aab", "b\u00e9", "\u20ac\u20ac", "\U0001f600", "aaaaa", "\n\nb", "ba"};
    size_t stopped_count = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        char text[LONGEST] = "";
        const char *stops[4] = {0};
        uint64_t drawn = 0;
        for (size_t i = 0, count = random_below(seed, drawn++, 4); i < count; i++)
            stops[i] = choices[random_below(seed, drawn++, sizeof choices / sizeof *choices)];
        for (size_t i = 0, count = random_below(seed, drawn++, 40); i < count; i++)
            strcat(text, letters[random_below(seed, drawn++, sizeof letters / sizeof *letters)]);
        bool stopped = false;
        const size_t size = strlen(text), end = find_end(text, size, stops, &stopped);
        stopped_count += stopped;

        struct sink sink;
        sink_open(&sink, stops);
        for (size_t at = 0, piece; at < size && !sink.stream.is_stopped; at += piece) {
            piece = 1 + random_below(seed, drawn++, 5);
            piece = piece < size - at ? piece : size - at;
            put(&sink, text + at, piece);
            assert_true(sink.size <= end && memcmp(sink.text, text, sink.size) == 0);
            assert_true(is_utf8(sink.text, sink.size));
            assert_true(at + piece - sink.size <= 5 + 4 + 8 || sink.stream.is_stopped); /* nothing waits for long */
        }
        assert_int_equal(sink.stream.is_stopped, stopped);
        assert_int_equal(text_stream_end(&sink.stream, NULL), WEFT_OK);
        assert_int_equal(sink.size, end);
        assert_memory_equal(sink.text, text, end);
        sink_close(&sink);
    }
    assert_in_range(stopped_count, 500, 2500);
}

static void a_full_disk_is_told(void **state)
{
    struct error error = {0};
    struct text_stream stream = {.output = fopen("/dev/full", "w")};
    assert_non_null(stream.output);
    assert_int_equal(text_stream_put(&stream, "a", 1, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "generated text"));
    (void)text_stream_end(&stream, NULL);
    fclose(stream.output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_is_printed_when_it_is_whole),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced_one_by_one),
        cmocka_unit_test(no_control_character_reaches_a_terminal),
        cmocka_unit_test(a_stop_string_is_found_across_pieces_and_not_printed),
        cmocka_unit_test(what_may_become_a_stop_string_is_printed_at_the_end),
        cmocka_unit_test(pieces_do_not_change_the_text),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
