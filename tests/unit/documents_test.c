/* SPDX-License-Identifier: Apache-2.0 */
/* How texts are divided into documents and sentences. */
#include "training/data/bert/internal/documents.h"
#include "wordpiece_support.h"

static const char *directory;
static struct tokenizer *tokenizer;

/* The documents of files, as text: sentences end with | and documents with a slash. */
static void must_divide(const char *const *paths, size_t count, const char *expected, size_t held_out)
{
    struct documents documents;
    struct error error = {0};
    char text[4096] = "";
    size_t used = 0, size;
    if (documents_open(paths, count, tokenizer, &documents, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    for (uint64_t i = 0; i < documents.document_count; i++) {
        const uint64_t first = documents_first_sentence(&documents, i);
        for (uint64_t j = first; j < documents.documents[i]; j++) {
            const struct token_span span = documents_span(&documents, j, j + 1);
            for (size_t k = 0; k < span.count; k++) {
                const uint8_t *bytes = tokenizer_decode(tokenizer, span.tokens[k], &size);
                used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", (int)size, (const char *)bytes);
            }
            used += (size_t)snprintf(text + used, sizeof text - used, "|");
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "/");
    }
    assert_string_equal(text, expected);
    assert_int_equal(documents.held_out, held_out);
    documents_close(&documents);
}

static const char *put(const char *name, const char *text)
{
    return temporary_file(directory, name, text, strlen(text));
}

static void blank_lines_separate_documents(void **state)
{
    const char *path = put("a.txt", "\n\na b\nc\n \t\n\nd\ne\nf\r\n\r\ng\nh\n\ni\nj");
    must_divide(&path, 1, " a b| c|/ d| e| f|/ g| h|/ i| j|/", 2);
}

static void a_heading_belongs_to_what_follows(void **state)
{
    const char *path = put("a.txt", "one\n\na\nb\n\ntwo\n\nthree\n\nc\n\nd\ne\n\nf\ng\n\nh\ni\n\nend\n");
    must_divide(&path, 1, " one| a| b|/ two| three|/ c| d| e|/ f| g|/ h| i| end|/", 3);
}

/* No document crosses files, and one with a single sentence is left out. */
static void files_are_apart(void **state)
{
    const char *paths[] = {put("a.txt", "a\nb\n\nc"), put("b.txt", "d\n"), put("c.txt", "e\nf\n\ng\nh\n"),
                           put("d.val.txt", "i\nj\n\nk\nl\n"), put("e.txt", "m\nn\n")};
    must_divide(paths, 5, " a| b| c|/ e| f|/ g| h|/ m| n|/ i| j|/ k| l|/", 4);
}

static void sentences_end_within_long_lines(void **state)
{
    char text[4096], filler[301] = "";
    memset(filler, 'x', 300);
    snprintf(text, sizeof text,
             "a b. C (d!) \"e f?\" g.h i. j. \xe2\x80\x9ck\xe2\x80\x9d l! (M) N. \n\n"
             "o. P\n\nq? R\n\ns. T\n\nu. V %s%s%s%s%s\n",
             filler, filler, filler, filler, filler);
    const char *path = put("a.txt", text);
    const char *expected = " a b .| c ( d ! )| \" e f ? \" g . h i . j .| \u201c k \u201d l ! ( m ) n .|/"
                           " o .| p|/ q ?| r|/ s .| t|/ u .| v [UNK]|/";
    must_divide(&path, 1, expected, 3);
}

/* Lines as long as verses are sentences, whatever is in them. */
static void short_lines_are_not_split(void **state)
{
    const char *path = put("a.txt", "a. B\nc. D\n\ne\nf\n\ng\nh\n\ni\nj\n");
    must_divide(&path, 1, " a . b| c . d|/ e| f|/ g| h|/ i| j|/", 2);
}

static int set_up(void **state)
{
    directory = temporary_directory();
    tokenizer = open_letters(directory, ".\n!\n?\n(\n)\n\"\n\u201c\n\u201d\n");
    return 0;
}

static int clean_up(void **state)
{
    tokenizer_close(tokenizer);
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(blank_lines_separate_documents),  TEST(a_heading_belongs_to_what_follows), TEST(files_are_apart),
        TEST(sentences_end_within_long_lines), TEST(short_lines_are_not_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
