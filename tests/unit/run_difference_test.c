/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two runs, as `weft diff` prints it. */
#include "cli/platform/runs/difference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What is printed of the difference of two runs; snapshots and metrics may be NULL. */
static char *difference(const char *const *left, const char *const *right)
{
    cJSON *trees[2][3];
    struct run_differences differences;
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 3; i++) {
        trees[0][i] = left[i] ? cJSON_Parse(left[i]) : NULL;
        trees[1][i] = right[i] ? cJSON_Parse(right[i]) : NULL;
        assert_true(!left[i] == !trees[0][i] && !right[i] == !trees[1][i]);
    }
    const struct run_compared a = {trees[0][0], trees[0][1], trees[0][2]}, b = {trees[1][0], trees[1][1], trees[1][2]};
    assert_int_equal(run_differences_find(&a, &b, &differences, NULL), WEFT_OK);
    FILE *output = open_memstream(&text, &size);
    run_differences_print(&differences, output);
    fclose(output);
    run_differences_free(&differences);
    for (int i = 0; i < 6; i++)
        cJSON_Delete(trees[i / 3][i % 3]);
    return text;
}

#define RUN(specification, rest) "{\"specification\":{" specification "}" rest "}"

static void check(const char *left, const char *right, const char *expected)
{
    const char *const a[] = {left, NULL, NULL}, *const b[] = {right, NULL, NULL};
    char *text = difference(a, b);
    assert_string_equal(text, expected);
    free(text);
}

static void the_same_says_nothing(void **state)
{
    const char *run =
        RUN("\"nodes\":2,\"command\":[\"a\",\"--b\",\"c\"],\"environment\":{\"A\":\"1\"},\"commit\":\"00\"",
            ",\"state\":\"failed\"");
    check(run, run, "");
    check("{}", "{}", "");
    check("[]", "7", "");
}

static void what_was_asked_for(void **state)
{
    check(
        RUN("\"name\":\"\",\"nodes\":1,\"time_limit\":\"6h\",\"preemptible\":false,\"parent\":0", ""),
        RUN("\"name\":\"wide\",\"nodes\":2,\"time_limit\":\"6h\",\"preemptible\":true,\"novel\":null,\"parent\":7", ""),
        "\nspecification\n+ name wide\n- nodes 1\n+ nodes 2\n- preemptible no\n+ preemptible yes\n+ parent 7\n");
}

static void arguments_option_by_option(void **state)
{
    check(RUN("\"command\":[\"weft\",\"train\",\"--steps\",\"100\",\"--rate=0.1\",\"-v\",\"in\",\"--seed\",\"1\"]", ""),
          RUN("\"command\":[\"weft\",\"train\",\"--rate\",\"0.1\",\"--seed\",\"2\",\"--warmup\",\"9\",\"--steps\","
              "\"100\"]",
              ""),
          "\narguments\n- -v in\n- --seed 1\n+ --seed 2\n+ --warmup 9\n");
    /* Words have no names: what is the same at both ends is not said. */
    check(RUN("\"command\":[\"sh\",\"a\",\"b\",\"z\"]", ""), RUN("\"command\":[\"sh\",\"c\",\"z\"]", ""),
          "\narguments\n- a\n+ c\n- b\n");
    /* The same option twice. */
    check(RUN("\"command\":[\"x\",\"-e\",\"1\",\"-e\",\"2\"]", ""),
          RUN("\"command\":[\"x\",\"-e\",\"1\",\"-e\",\"3\"]", ""), "\narguments\n- -e 2\n+ -e 3\n");
}

static void environment_and_commit(void **state)
{
    check(RUN("\"environment\":{\"A\":\"1\",\"B\":\"2\"},\"commit\":\"01\"", ""),
          RUN("\"environment\":{\"B\":\"3\",\"C\":\"\\u001b[2J\"},\"commit\":\"\"", ""),
          "\nenvironment\n- A=1\n- B=2\n+ B=3\n+ C=?[2J\n\ncode\n- commit 01\n");
}

static void code_file_by_file(void **state)
{
#define FILE_OF(path, bytes, content)                                                                                  \
    "{\"path\":\"" path "\",\"kind\":\"file\",\"bytes\":" bytes ",\"content\":\"" content "\"}"
    const char *const left[] = {RUN("\"snapshot\":\"aa\"", ""),
                                "[" FILE_OF("a.py", "10", "11111111ff") "," FILE_OF(
                                    "b.py", "10", "22222222ff") "," FILE_OF("d.py", "10", "33333333ff") "]",
                                NULL};
    const char *const right[] = {
        RUN("\"snapshot\":\"bb\"", ""),
        "[" FILE_OF("d.py", "10", "33333333ff") "," FILE_OF(
            "b.py", "2048", "44444444ff") ","
                                          "{\"path\":\"c\",\"kind\":\"link\",\"target\":\"b.py\"}]",
        NULL};
    char *text = difference(left, right);
    assert_string_equal(text, "\ncode\n- snapshot aa\n+ snapshot bb\n- a.py 10 B, 11111111\n- b.py 10 B, 22222222\n"
                              "+ b.py 2 KiB, 44444444\n+ c a link to b.py\n");
    free(text);
}

static void results_and_metrics(void **state)
{
    const char *const left[] = {"{\"state\":\"failed\",\"reason\":\"failed by its own program\",\"served_ms\":61000}",
                                NULL,
                                "[{\"name\":\"train/loss\",\"last\":{\"step\":100,\"value\":2.5}},"
                                "{\"name\":\"rate\",\"last\":{\"step\":100,\"value\":0.1}},{\"name\":\"same\"}]"};
    const char *const right[] = {
        "{\"state\":\"succeeded\",\"reason\":\"ended well\",\"served_ms\":120000}", NULL,
        "[{\"name\":\"train/loss\",\"last\":{\"step\":200,\"value\":2.25}},"
        "{\"name\":\"accuracy\",\"last\":{\"step\":null,\"value\":0.875}},{\"name\":\"same\"}]"};
    char *text = difference(left, right);
    assert_string_equal(text, "\nresult\n- state failed\n+ state succeeded\n- reason failed by its own program\n"
                              "+ reason ended well\n- ran for 1m 1s\n+ ran for 2m\n- train/loss 2.5 at step 100\n"
                              "+ train/loss 2.25 at step 200\n- rate 0.1 at step 100\n+ accuracy 0.875\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_says_nothing),      cmocka_unit_test(what_was_asked_for),
        cmocka_unit_test(arguments_option_by_option), cmocka_unit_test(environment_and_commit),
        cmocka_unit_test(code_file_by_file),          cmocka_unit_test(results_and_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
