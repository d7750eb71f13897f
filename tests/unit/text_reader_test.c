/* SPDX-License-Identifier: Apache-2.0 */
/* A text read from its file comes in the pieces that it has in memory; a truncation meanwhile is reported. */
#include "training/data/text_reader.h"

#include "base/random.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static const char *directory;

/* Words and lines; from `first` to `end` no line ends; a mark stands at each of `marks` (up to a 0). */
static char *make_text(size_t size, size_t first, size_t end, const size_t *marks)
{
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        const uint64_t drawn = random_below(1, i, 40);
        text[i] = drawn == 0 && (i < first || i >= end) ? '\n' : drawn < 8 ? ' ' : (char)('a' + drawn % 26);
    }
    for (; *marks; marks++)
        memcpy(text + *marks, "<|endoftext|>", 13);
    return text;
}

/* Bytes [from, to) of `text` in a file and in memory. */
static void must_agree(const char *text, size_t size, size_t from, size_t to)
{
    const char *path = temporary_file(directory, "text", text, size);
    struct text_pieces pieces = {.text = (const uint8_t *)text + from, .size = to - from};
    struct text_piece expected, found;
    struct text_reader reader;
    bool more;
    assert_int_equal(text_reader_open(&reader, path, size, from, to, NULL), WEFT_OK);
    for (;;) {
        const bool is_more = text_pieces_next(&pieces, &expected);
        assert_int_equal(text_reader_next(&reader, &found, &more, NULL), WEFT_OK);
        assert_int_equal(more, is_more);
        if (!more)
            break;
        assert_int_equal(found.size, expected.size);
        assert_int_equal(found.end_of_text, expected.end_of_text);
        assert_memory_equal(found.bytes, expected.bytes, expected.size);
    }
    text_reader_close(&reader);
}

static void a_file_has_the_pieces_of_its_text(void **state)
{
    /* Marks across the edges of a piece and of a window. */
    static const size_t none[] = {0}, some[] = {100, MIB - 6, 3 * MIB - 7, 7 * MIB - 13, 0};
    static const size_t size = 7 * MIB;
    const size_t *const marks[] = {none, some};
    for (int i = 0; i < 2; i++) {
        char *lines = make_text(size, 0, 0, marks[i]), *one_line = make_text(size, MIB / 2, 6 * MIB, marks[i]);
        must_agree(lines, size, 0, size);
        must_agree(lines, size, 12345, 5 * MIB + 1);
        must_agree(lines, size, 77, 77);
        must_agree(one_line, size, 0, size);
        must_agree(one_line, size, 0, 2 * MIB);
        must_agree(one_line, size, MIB, size - 1);
        free(lines);
        free(one_line);
    }
}

static void a_truncated_file_is_told(void **state)
{
    static const size_t none[] = {0};
    char *text = make_text(5 * MIB, 0, 0, none);
    const char *path = temporary_file(directory, "text", text, 5 * MIB);
    struct text_reader reader;
    struct text_piece piece;
    struct error error = {0};
    bool more;
    assert_int_equal(text_reader_open(&reader, path, 5 * MIB, 0, 5 * MIB, NULL), WEFT_OK);
    assert_int_equal(text_reader_next(&reader, &piece, &more, NULL), WEFT_OK);
    assert_int_equal(truncate(path, MIB), 0);
    assert_int_equal(text_reader_next(&reader, &piece, &more, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "ends after 1048576 bytes, but had 5242880"));
    text_reader_close(&reader);
    free(text);
}

static int begin(void **state)
{
    int failed = temporary_begin(state);
    directory = *state;
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_the_pieces_of_its_text),
        cmocka_unit_test(a_truncated_file_is_told),
    };
    return cmocka_run_group_tests(tests, begin, temporary_end);
}
