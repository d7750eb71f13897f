/* SPDX-License-Identifier: Apache-2.0 */
/* Options as people type them, right and wrong. */
#include "cli/frame/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const kinds[] = {"registered", "ordinary", NULL};
static struct {
    bool quiet, verbose;
    int64_t ranks;
    double rate;
    uint64_t least;
    const char *hosts, *buffers;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("quiet", 'q', &chosen.quiet, "say less"),
    CLI_FLAG("verbose", 'v', &chosen.verbose, "say more"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "2", 1, 64, "how many"),
    CLI_NUMBER("rate", 0, "X", &chosen.rate, "0.5", 0, 1, "how fast"),
    CLI_BYTES("min", 0, "BYTES", &chosen.least, "4", "smallest"),
    CLI_TEXT("hosts", 0, "LIST", &chosen.hosts, NULL, "where"),
    CLI_CHOICE("buffers", 0, "KIND", &chosen.buffers, "registered", kinds, "which memory"),
};
#define COUNT (sizeof options / sizeof *options)

static struct cli_rest rest;
static struct error error;

/* Parse the words, which end with NULL, again. */
static weft_status parse(bool takes_program, char **words)
{
    int count = 0;
    while (words[count])
        count++;
    cli_rest_free(&rest);
    memset(&chosen, 0, sizeof chosen);
    error_clear(&error);
    return cli_options_parse("weft run", options, COUNT, takes_program, count, words, &rest, &error);
}
#define PARSE(...)         parse(false, (char *[]){__VA_ARGS__, NULL})
#define PARSE_PROGRAM(...) parse(true, (char *[]){__VA_ARGS__, NULL})

static void defaults_come_from_the_table(void **state)
{
    assert_int_equal(PARSE(NULL), WEFT_OK);
    assert_int_equal(chosen.ranks, 2);
    assert_true(chosen.rate == 0.5);
    assert_int_equal(chosen.least, 4);
    assert_null(chosen.hosts);
    assert_string_equal(chosen.buffers, "registered");
    assert_false(chosen.quiet);
}

static void every_way_of_writing_a_value(void **state)
{
    assert_int_equal(PARSE("--ranks", "4", "--min=64K", "--hosts=a:2,b:2", "--rate", "0.25"), WEFT_OK);
    assert_int_equal(chosen.ranks, 4);
    assert_int_equal(chosen.least, 65536);
    assert_string_equal(chosen.hosts, "a:2,b:2");
    assert_true(chosen.rate == 0.25);
    assert_int_equal(PARSE("-n", "8", "-q"), WEFT_OK);
    assert_int_equal(chosen.ranks, 8);
    assert_true(chosen.quiet);
    assert_int_equal(PARSE("-qvn16", "--buffers", "ordinary"), WEFT_OK);
    assert_true(chosen.quiet && chosen.verbose);
    assert_int_equal(chosen.ranks, 16);
    assert_string_equal(chosen.buffers, "ordinary");
    assert_int_equal(PARSE("-n", "3", "--ranks=5"), WEFT_OK);
    assert_int_equal(chosen.ranks, 5);
}

static void words_and_options_mix(void **state)
{
    assert_int_equal(PARSE("first", "-n", "4", "second", "--", "--third"), WEFT_OK);
    assert_int_equal(rest.word_count, 3);
    assert_string_equal(rest.words[0], "first");
    assert_string_equal(rest.words[1], "second");
    assert_string_equal(rest.words[2], "--third");
    assert_null(rest.program);
    assert_int_equal(PARSE("-"), WEFT_OK); /* a lone dash is a word: standard input, by custom */
    assert_int_equal(rest.word_count, 1);
}

static void a_program_keeps_its_own_options(void **state)
{
    assert_int_equal(PARSE_PROGRAM("-n", "4", "--", "./program", "-n", "9", "--help"), WEFT_OK);
    assert_int_equal(chosen.ranks, 4);
    assert_false(rest.help);
    assert_int_equal(rest.program_count, 4);
    assert_string_equal(rest.program[0], "./program");
    assert_null(rest.program[4]);
    assert_int_equal(PARSE_PROGRAM("-n", "4", "./program", "--", "-n", "9"), WEFT_OK);
    assert_int_equal(rest.program_count, 4);
    assert_string_equal(rest.program[1], "--");
    assert_int_equal(PARSE_PROGRAM("-n", "4"), WEFT_OK);
    assert_null(rest.program);
}

static void help_is_noticed(void **state)
{
    assert_int_equal(PARSE("--help"), WEFT_OK);
    assert_true(rest.help);
    assert_int_equal(PARSE("-h"), WEFT_OK);
    assert_true(rest.help);
}

static void mistakes_get_a_message(void **state)
{
    static const struct {
        const char *words[3];
        const char *message;
    } cases[] = {
        {{"--rnks", "4"}, "weft run: there is no option --rnks; did you mean --ranks?"},
        {{"--rnks=4"}, "weft run: there is no option --rnks; did you mean --ranks?"},
        {{"--zzzzzz"}, "weft run: there is no option --zzzzzz; 'weft run --help' lists them"},
        {{"-z"}, "weft run: there is no option -z; 'weft run --help' lists them"},
        {{"--ranks"}, "weft run: --ranks needs a value: --ranks N"},
        {{"-n"}, "weft run: -n needs a value: -n N"},
        {{"--ranks", "0"}, "weft run: --ranks is 0, but must be from 1 to 64"},
        {{"--ranks", "4x"}, "weft run: --ranks is '4x', which is not a whole number"},
        {{"--ranks="}, "weft run: --ranks is '', which is not a whole number"},
        {{"--rate", "1.5"}, "weft run: --rate is 1.5, but must be from 0 to 1"},
        {{"--rate", "nan"}, "weft run: --rate is 'nan', which is not a number"},
        {{"--min", "12Q"}, "weft run: --min is '12Q', and 'Q' is not a unit of size; use K, M, G or T"},
        {{"--quiet=yes"}, "weft run: --quiet takes no value, but 'yes' was given"},
        {{"--buffers", "ordinry"}, "weft run: --buffers is 'ordinry'; did you mean 'ordinary'?"},
        {{"--buffers", "gold"}, "weft run: --buffers is 'gold', but must be one of: registered, ordinary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE((char *)cases[i].words[0], (char *)cases[i].words[1]), WEFT_ERROR_ARGUMENT);
        assert_string_equal(error.text, cases[i].message);
    }
}

static void ranges_as_people_read_them(void **state)
{
    char buffer[64];
    assert_string_equal(cli_option_range(&options[0], buffer, sizeof buffer), "");
    assert_string_equal(cli_option_range(&options[2], buffer, sizeof buffer), "1 to 64");
    assert_string_equal(cli_option_range(&options[3], buffer, sizeof buffer), "0 to 1");
    assert_string_equal(cli_option_range(&options[6], buffer, sizeof buffer), "registered, ordinary");
}

static void only_short_ranges_are_shown(void **state)
{
    static const struct cli_option long_ones[] = {
        CLI_INTEGER("steps", 0, "N", &chosen.ranks, "0", 0, 1e12, "steps"),
        CLI_INTEGER("port", 0, "N", &chosen.ranks, "0", 0, 65535, "port"),
        CLI_NUMBER("decay", 0, "X", &chosen.rate, "0.9", 0, 0.999999, "decay"),
        CLI_NUMBER("timeout", 0, "SECONDS", &chosen.rate, "30", 0.1, 86400, "time"),
    };
    char buffer[64];
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        assert_string_equal(cli_option_range(&long_ones[i], buffer, sizeof buffer), "");
}

static void a_default_in_words_hides_the_value_that_stands_for_it(void **state)
{
    static const struct cli_option slots = CLI_INTEGER("slots", 0, "N", &chosen.ranks, "0", 0, 64, "slots",
                                                       .default_text = "one per processor", .advanced = true);
    char buffer[64];
    assert_string_equal(cli_option_default(&slots), "one per processor");
    assert_string_equal(cli_option_range(&slots, buffer, sizeof buffer), "1 to 64");
    assert_string_equal(cli_option_default(&options[2]), "2");
    assert_string_equal(cli_option_default(&options[5]), "");
    assert_true(cli_options_advanced(&slots, 1));
    assert_false(cli_options_advanced(options, COUNT));
}

static void the_heading_of_a_group_is_no_option(void **state)
{
    static const struct cli_option grouped[] = {
        CLI_GROUP("ranks"),
        CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "2", 1, 64, "how many"),
    };
    static char *const words[][2] = {{"--ranks", "4"}, {"--=4", NULL}, {"-x", NULL}, {"--rnks", NULL}};
    cli_rest_free(&rest);
    assert_int_equal(cli_options_parse("weft run", grouped, 2, false, 2, (char **)words[0], &rest, &error), WEFT_OK);
    assert_int_equal(chosen.ranks, 4);
    cli_rest_free(&rest);
    for (size_t i = 1; i < sizeof words / sizeof *words; i++) {
        error_clear(&error);
        assert_int_equal(cli_options_parse("weft run", grouped, 2, false, 1, (char **)words[i], &rest, &error),
                         WEFT_ERROR_ARGUMENT);
    }
}

static void all_of_the_help_is_asked_for(void **state)
{
    assert_int_equal(PARSE("--help-all"), WEFT_OK);
    assert_true(rest.help && rest.help_all);
    assert_int_equal(PARSE("--help"), WEFT_OK);
    assert_false(rest.help_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(every_way_of_writing_a_value),
        cmocka_unit_test(words_and_options_mix),
        cmocka_unit_test(a_program_keeps_its_own_options),
        cmocka_unit_test(help_is_noticed),
        cmocka_unit_test(mistakes_get_a_message),
        cmocka_unit_test(ranges_as_people_read_them),
        cmocka_unit_test(only_short_ranges_are_shown),
        cmocka_unit_test(a_default_in_words_hides_the_value_that_stands_for_it),
        cmocka_unit_test(the_heading_of_a_group_is_no_option),
        cmocka_unit_test(all_of_the_help_is_asked_for),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cli_rest_free(&rest);
    return failed;
}
