/* SPDX-License-Identifier: Apache-2.0 */
/* YAML: what is read, with its lines; what is refused, by a message that says where and why. */
#include "base/format/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

static struct yaml_tree *parse(const char *text)
{
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    if (yaml_tree_parse(text, strlen(text), "text", &tree, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return tree;
}

static void values_are_read_with_their_lines(void **state)
{
    struct yaml_tree *tree = parse("# a comment\n"
                                   "name: it's a name   # another\n"
                                   "\n"
                                   "count: 12\n"
                                   "share: 1e-5\n"
                                   "on: true\n"
                                   "off: false\n"
                                   "list:\n"
                                   "  - a\n"
                                   "  - {b: 'c d', \"e\": [f]}\n");
    const struct yaml_value *root = yaml_tree_root(tree);
    const char *text;
    int64_t whole;
    double number;
    bool truth;
    assert_int_equal(root->kind, YAML_MAP);
    assert_int_equal(yaml_value_get_text(yaml_value_find(root, "name"), &text, NULL), WEFT_OK);
    assert_string_equal(text, "it's a name");
    assert_int_equal(yaml_value_get_whole(yaml_value_find(root, "count"), 1, 12, &whole, NULL), WEFT_OK);
    assert_int_equal(whole, 12);
    assert_int_equal(yaml_value_find(root, "count")->line, 4);
    assert_int_equal(yaml_value_get_number(yaml_value_find(root, "share"), 0, 1, &number, NULL), WEFT_OK);
    assert_true(number == 1e-5);
    assert_int_equal(yaml_value_get_bool(yaml_value_find(root, "on"), &truth, NULL), WEFT_OK);
    assert_true(truth);
    assert_int_equal(yaml_value_get_bool(yaml_value_find(root, "off"), &truth, NULL), WEFT_OK);
    assert_false(truth);
    const struct yaml_value *list = yaml_value_find(root, "list");
    assert_int_equal(list->kind, YAML_LIST);
    assert_string_equal(list->child->text, "a");
    assert_null(list->child->key);
    const struct yaml_value *map = list->child->next;
    assert_int_equal(map->kind, YAML_MAP);
    assert_int_equal(map->line, 10);
    assert_string_equal(yaml_value_find(map, "b")->text, "c d");
    assert_true(yaml_value_find(map, "b")->quoted);
    assert_string_equal(yaml_value_find(map, "e")->child->text, "f");
    assert_null(map->next);
    assert_null(yaml_value_find(root, "nothing"));
    assert_null(yaml_value_find(list, "a"));
    yaml_tree_free(tree);
    yaml_tree_free(NULL);
}

static void what_is_not_plain_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "text is empty"},
        {"# nothing\n", "text is empty"},
        {"a: &x 1\n", "text, line 1: anchors"},
        {"a: 1\nb: *x\n", "text, line 2: anchors"},
        {"&x a: 1\n", "text, line 1: anchors"},
        {"a: &x [b]\n", "text, line 1: anchors"},
        {"a: &x {b: c}\n", "text, line 1: anchors"},
        {"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "text, line 1: anchors"},
        {"*x : 1\n", "text, line 1: a key must be a word"},
        {"a: !!int 1\n", "text, line 1: tags"},
        {"a: ! 1\n", "text, line 1: tags"},
        {"!x {a: 1}\n", "text, line 1: tags"},
        {"a: 1\n---\nb: 2\n", "text, line 2: a second document"},
        {"a: 1\n...\n# c\n---\nb: 2\n", "text, line 4: a second document"},
        {"a: 1\nb: 2\n'a': 3\n", "text, line 3: 'a' is given twice, first in line 1"},
        {"a: {b: 1,\n b: 2}\n", "text, line 2: 'b' is given twice, first in line 1"},
        {"? [a]\n: 1\n", "text, line 1: a key must be a word"},
        {"'': 1\n", "text, line 1: a key must be a word"},
        {"a: 1\n b: 2\n", "text, line 2: this is not valid YAML"},
        {"a: [1\n", "text, line 2: this is not valid YAML"},
        {"a: 'b\n", "text, line 2: this is not valid YAML"},
        {"a\t: \x01\n", "text, line 1: this is not UTF-8 text"},
        {"a: b\n\xff\n", "this is not UTF-8 text"},
        {"a: \"\\e[2J\"\n", "text, line 1: a string must be one line"},
        {"a: \"b\\0c\"\n", "text, line 1: a string must be one line"},
        {"a: |\n  b\n  c\n", "text, line 1: a string must be one line"},
        {"a: [[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]\n", "text, line 1: lists and maps nest more than 16 deep"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct yaml_tree *tree = NULL;
        struct error error = {0};
        assert_int_equal(yaml_tree_parse(wrong[i].text, strlen(wrong[i].text), "text", &tree, &error), WEFT_ERROR_DATA);
        assert_null(tree);
        if (!strstr(error.text, wrong[i].message))
            fail_msg("'%s' gives: %s", wrong[i].text, error.text);
    }
}

/* As many as are taken, and one more. */
static void size_and_entries_have_limits(void **state)
{
    static char text[YAML_BYTES_MOST + 2];
    for (size_t count = YAML_ENTRIES_MOST; count <= YAML_ENTRIES_MOST + 1; count++) {
        size_t length = 0;
        for (size_t i = 0; i < count; i++)
            length += (size_t)sprintf(text + length, "k%zu: 1\n", i);
        struct yaml_tree *tree = NULL;
        struct error error = {0};
        weft_status status = yaml_tree_parse(text, length, "text", &tree, &error);
        assert_int_equal(status, count == YAML_ENTRIES_MOST ? WEFT_OK : WEFT_ERROR_DATA);
        assert_true(status == WEFT_OK || strstr(error.text, "line 1025: more than 1024 entries"));
        yaml_tree_free(tree);
    }
    memset(text, ' ', sizeof text);
    memcpy(text, "a: 1\n#", 6);
    for (size_t size = YAML_BYTES_MOST; size <= YAML_BYTES_MOST + 1; size++) {
        struct yaml_tree *tree = NULL;
        struct error error = {0};
        assert_int_equal(yaml_tree_parse(text, size, "text", &tree, &error),
                         size == YAML_BYTES_MOST ? WEFT_OK : WEFT_ERROR_DATA);
        yaml_tree_free(tree);
    }
}

static void values_of_the_wrong_kind_are_told(void **state)
{
    struct yaml_tree *tree = parse("word: six\nquoted: \"6\"\nlist: [6]\nmap: {a: 6}\nnothing:\nhalf: 6.5\n"
                                   "large: 99999999999999999999\ninf: .inf\nbool: yes\n");
    const struct yaml_value *root = yaml_tree_root(tree);
    static const struct {
        const char *key, *message;
    } wholes[] = {
        {"word", "text, line 1: word is 'six', which is not a whole number"},
        {"quoted", "text, line 2: 'quoted' is the string \"6\"; it must be a whole number, without quotes"},
        {"list", "text, line 3: 'list' is a list; it must be a whole number"},
        {"map", "text, line 4: 'map' is a map; it must be a whole number"},
        {"nothing", "text, line 5: 'nothing' has no value; it must be a whole number"},
        {"half", "text, line 6: half is '6.5', which is not a whole number"},
        {"large", "text, line 7: large is 99999999999999999999, but must be from 1 to 100"},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        struct error error = {0};
        int64_t whole = 7;
        assert_int_equal(yaml_value_get_whole(yaml_value_find(root, wholes[i].key), 1, 100, &whole, &error),
                         WEFT_ERROR_DATA);
        assert_string_equal(error.text, wholes[i].message);
        assert_int_equal(whole, 7);
    }
    struct error error = {0};
    double number;
    bool truth;
    const char *text;
    assert_int_equal(yaml_value_get_number(yaml_value_find(root, "inf"), -1, 1, &number, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "text, line 8: inf is '.inf', which is not a number");
    error_clear(&error);
    assert_int_equal(yaml_value_get_bool(yaml_value_find(root, "bool"), &truth, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "text, line 9: bool is 'yes'; it must be true or false");
    error_clear(&error);
    assert_int_equal(yaml_value_get_text(yaml_value_find(root, "map"), &text, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "text, line 4: 'map' is a map; it must be a text");
    yaml_tree_free(tree);
}

static void files_are_read_or_told_why_not(void **state)
{
    const char *directory = temporary_directory();
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    assert_int_equal(yaml_tree_read(temporary_file(directory, "a.yaml", "a: b\n", 5), &tree, &error), WEFT_OK);
    assert_string_equal(yaml_value_find(yaml_tree_root(tree), "a")->text, "b");
    yaml_tree_free(tree);
    assert_int_equal(yaml_tree_read(temporary_path(directory, "none.yaml"), &tree, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "none.yaml"));
    error_clear(&error);
    assert_int_equal(yaml_tree_read(temporary_file(directory, "b.yaml", "a: b\nc\n", 7), &tree, &error),
                     WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "b.yaml, line "));
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_with_their_lines),
        cmocka_unit_test(what_is_not_plain_is_refused_with_its_line),
        cmocka_unit_test(size_and_entries_have_limits),
        cmocka_unit_test(values_of_the_wrong_kind_are_told),
        cmocka_unit_test(files_are_read_or_told_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
