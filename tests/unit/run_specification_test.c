/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is, as JSON: what comes back, what is filled in, and what is refused with which message. */
#include "platform/registry/run_specification.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REST "\"project\":\"p\",\"command\":[\"true\"]"

static struct run_specification read_good(const char *text)
{
    struct run_specification specification;
    struct error error = {0};
    if (run_specification_parse(text, strlen(text), "the request", &specification, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return specification;
}

static void the_least_and_what_is_filled_in(void **state)
{
    struct run_specification run = read_good("{" REST "}");
    assert_string_equal(run.project, "p");
    assert_string_equal(run.arguments[0], "true");
    assert_null(run.arguments[1]);
    assert_null(run.environment[0]);
    assert_string_equal(run.class_name, "batch");
    assert_string_equal(run.owner, "");
    assert_true(run.nodes == 1 && run.slots == 1 && run.slot_kind == SLOT_GPU && run.processors == 0);
    assert_true(run.time_limit == 86400 && run.time_slice == 0 && run.priority == 0 && run.retries == 0);
    assert_false(run.preemptible || run.may_span_pods || run.interactive);
    run_specification_free(&run);
    run_specification_free(&run);
}

static void comes_back_as_it_was_written(void **state)
{
    static const char text[] =
        "{\"project\":\"vision\",\"owner\":\"ada\",\"name\":\"first try, größer\",\"class\":\"night\","
        "\"command\":[\"weft\",\"train\",\"--text\",\"a\\nb\\u0009c\",\"\"],\"environment\":{\"A\":\"=1\",\"B_2\":\"\"}"
        ",\"secrets\":[\"HF_TOKEN\",\"KEY=OTHER\"]"
        ","
        "\"nodes\":2,\"min_nodes\":1,\"slots\":8,\"slot_kind\":\"cpu\",\"launch\":\"nodes\",\"processors\":16,\"memory\":68719476736,"
        "\"processes\":512,"
        "\"disk\":1073741824,"
        "\"time_limit\":\"6h\",\"time_slice\":\"1h30m\",\"preemptible\":true,\"may_span_pods\":true,"
        "\"interactive\":true,\"priority\":-3,\"retries\":2,\"parent\":41,"
        "\"checkpoint\":\"runs/41/step-00000007\","
        "\"snapshot\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
        "\"commit\":\"0123456789abcdef0123456789abcdef01234567\",\"commit_changed\":true}";
    struct run_specification run = read_good(text);
    struct json_writer written;
    assert_int_equal(run_specification_size(&run), 16);
    assert_int_equal(run.time_slice, 5400);
    assert_string_equal(run.environment[0], "A==1");
    json_begin(&written, JSON_LINE);
    run_specification_write(&written, NULL, &run);
    assert_string_equal(json_text(&written), text);
    json_end(&written);
    run_specification_free(&run);
}

static void hostile_input_is_refused(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "no valid JSON"},
        {"[]", "no JSON object"},
        {"{\"command\":[\"true\"]}", "lacks 'project'"},
        {"{\"project\":\"p\"}", "lacks 'command'"},
        {"{\"project\":\"\",\"command\":[\"true\"]}", "no name"},
        {"{\"project\":\"../x\",\"command\":[\"true\"]}", "no name"},
        {"{\"project\":\"P\",\"command\":[\"true\"]}", "no name"},
        {"{\"project\":\"p\\u001b[2J\",\"command\":[\"true\"]}", "contains U+001B"},
        {"{\"project\":\"p\",\"command\":[]}", "empty"},
        {"{\"project\":\"p\",\"command\":[\"\"]}", "empty"},
        {"{\"project\":\"p\",\"command\":\"true\"}", "an array of strings"},
        {"{\"project\":\"p\",\"command\":[\"true\",1]}", "strings only"},
        {"{\"project\":\"p\",\"command\":[\"a\\u0000b\"]}", "NUL"},
        {"{\"project\":\"p\",\"command\":[\"\xc0\xaf\"]}", "byte 0xC0; it must be printable"},
        {"{\"project\":\"p\",\"command\":[\"c\"],\"name\":\"a\xe2\x80\xae"
         "b\"}",
         "'name' in the request contains U+202E"},
        {"{" REST ",\"time_limi\":\"6h\"}", "did you mean 'time_limit'?"},
        {"{" REST ",\"\\u001b\\u001b\":1}", "', which no run has"},
        {"{" REST ",\"nodes\":1,\"nodes\":2}", "'nodes' twice"},
        {"{" REST ",\"secrets\":[\"a b\"]}", "no variable of Weft's own"},
        {"{" REST ",\"secrets\":[\"KEY=WEFT_RUN\"]}", "no variable of Weft's own"},
        {"{" REST ",\"secrets\":[\"../../KEY=X\"]}", "no variable of Weft's own"},
        {"{" REST ",\"secrets\":\"KEY\"}", "an array of strings"},
        {"{" REST ",\"nodes\":0}", "'nodes' in the request is 0, but must be from 1 to 65536"},
        {"{" REST ",\"nodes\":1.5}", "a whole number"},
        {"{" REST ",\"nodes\":1e300}", "a whole number"},
        {"{" REST ",\"nodes\":\"2\"}", "a whole number"},
        {"{" REST ",\"slots\":1025}", "from 1 to 1024"},
        {"{" REST ",\"slot_kind\":\"tpu\"}", "\"gpu\" or \"cpu\""},
        {"{" REST ",\"launch\":\"all\"}", "\"ranks\", \"nodes\" or \"first\""},
        {"{" REST ",\"slot_kind\":0}", "\"gpu\" or \"cpu\""},
        {"{" REST ",\"time_limit\":\"6\"}", "a duration such as"},
        {"{" REST ",\"time_limit\":0}", "is 0 s, but must be from 1"},
        {"{" REST ",\"time_limit\":\"400d\"}", "but must be"},
        {"{" REST ",\"time_limit\":true}", "a duration such as"},
        {"{" REST ",\"time_slice\":-1}", "but must be from 0"},
        {"{" REST ",\"preemptible\":1}", "true or false"},
        {"{" REST ",\"priority\":101}", "from -100 to 100"},
        {"{" REST ",\"name\":\"two\\nlines\"}", "one line"},
        {"{" REST ",\"snapshot\":\"0123456789abcdef0123456789abcdef01234567\"}", "64 hexadecimal digits"},
        {"{" REST ",\"commit\":\"0123456789ABCDEF0123456789abcdef01234567\"}", "40 or 64"},
        {"{" REST ",\"environment\":[\"A=1\"]}", "an object of strings"},
        {"{" REST ",\"environment\":{\"A\":null}}", "strings only"},
        {"{" REST ",\"environment\":{\"A=B\":\"1\"}}", "no name of a variable"},
        {"{" REST ",\"environment\":{\"1A\":\"1\"}}", "no name of a variable"},
        {"{" REST ",\"environment\":{\"\":\"1\"}}", "no name of a variable"},
        {"{" REST ",\"environment\":{\"A\":\"1\",\"AB\":\"3\",\"A\":\"2\"}}", "'A' twice"},
        {"{" REST "} ]", "after its end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_specification run = {.nodes = 77};
        struct error error = {0};
        assert_int_equal(run_specification_parse(cases[i].text, strlen(cases[i].text), "the request", &run, &error),
                         WEFT_ERROR_DATA);
        if (!strstr(error.text, cases[i].word) || !strstr(error.text, "the request"))
            fail_msg("%s: an odd message: %s", cases[i].text, error.text);
        assert_int_equal(run.nodes, 77);
    }
}

/* A specification of `words` arguments of `length` letters. */
static weft_status read_long(size_t words, size_t length)
{
    struct json_writer text;
    struct run_specification run;
    char *word = calloc(1, length + 1);
    assert_non_null(word);
    memset(word, 'a', length);
    json_begin(&text, JSON_LINE);
    json_open_object(&text, NULL);
    json_put_text(&text, "project", "p");
    json_open_array(&text, "command");
    for (size_t i = 0; i < words; i++)
        json_put_text(&text, NULL, word);
    json_close(&text);
    json_close(&text);
    weft_status status = run_specification_parse(json_text(&text), json_size(&text), "the request", &run, NULL);
    if (status == WEFT_OK)
        run_specification_free(&run);
    json_end(&text);
    free(word);
    return status;
}

static void too_much_is_refused(void **state)
{
    assert_int_equal(read_long(RUN_WORDS_MOST, 1), WEFT_OK);
    assert_int_equal(read_long(RUN_WORDS_MOST + 1, 1), WEFT_ERROR_DATA);
    assert_int_equal(read_long(2, RUN_SPECIFICATION_MOST / 2 - 1), WEFT_OK);
    assert_int_equal(read_long(2, RUN_SPECIFICATION_MOST / 2), WEFT_ERROR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_and_what_is_filled_in),
        cmocka_unit_test(comes_back_as_it_was_written),
        cmocka_unit_test(hostile_input_is_refused),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
