/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as spreadsheets read them. */
#include "base/format/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const columns[] = {"run", "name", "preemptible", "ended", NULL};

/* The line of an object. */
static void assert_line(const char *json, const char *line)
{
    cJSON *object = cJSON_Parse(json);
    char *text = NULL;
    size_t size = 0;
    FILE *output = open_memstream(&text, &size);
    assert_non_null(object);
    csv_put_object(output, columns, object);
    fclose(output);
    assert_string_equal(text, line);
    free(text);
    cJSON_Delete(object);
}

static void a_header_names_the_columns(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *output = open_memstream(&text, &size);
    csv_put_header(output, columns);
    fclose(output);
    assert_string_equal(text, "run,name,preemptible,ended\n");
    free(text);
}

static void values_are_as_they_are(void **state)
{
    assert_line("{\"run\":12,\"name\":\"base line\",\"preemptible\":true,\"ended\":1700000000123,\"more\":1}",
                "12,base line,true,1700000000123\n");
    assert_line("{\"name\":\"\",\"preemptible\":false,\"ended\":null,\"run\":0.1}", "0.1,,false,\n");
    assert_line("{\"run\":24894720000,\"ended\":1e15}", "24894720000,,,1000000000000000\n");
    assert_line("{\"run\":-9007199254740991,\"name\":[\"a\"]}", "-9007199254740991,,,\n");
}

static void texts_are_quoted_where_they_must_be(void **state)
{
    assert_line("{\"name\":\"a,b\"}", ",\"a,b\",,\n");
    assert_line("{\"name\":\"a \\\"b\\\"\"}", ",\"a \"\"b\"\"\",,\n");
    assert_line("{\"name\":\"a\\nb\\r\"}", ",\"a\nb\r\",,\n");
    assert_line("{\"name\":\" a\"}", ",\" a\",,\n");
    assert_line("{\"name\":\"a\\t\"}", ",\"a\t\",,\n");
    assert_line("{\"name\":\"läuft; 'x'\"}", ",läuft; 'x',,\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_names_the_columns),
        cmocka_unit_test(values_are_as_they_are),
        cmocka_unit_test(texts_are_quoted_where_they_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
