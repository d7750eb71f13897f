/* SPDX-License-Identifier: Apache-2.0 */
/* The way from argv to a command, and what is printed and returned when there is none. */
#include "cli/frame/command.h"
#include "cli/frame/help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t number;
static const struct cli_option options[] = {CLI_INTEGER("number", 'n', "N", &number, "1", 0, 9, "a number")};

static weft_status succeed(struct command_call *call, struct error *error)
{
    fprintf(call->output, "%s %d", call->name, (int)number);
    for (size_t i = 0; i < call->word_count; i++)
        fprintf(call->output, " %s", call->words[i]);
    return WEFT_OK;
}

static weft_status run_and_fail(struct command_call *call, struct error *error)
{
    return error_set(error, WEFT_ERROR_SYSTEM, "the disk is gone");
}

static weft_status pass_on(struct command_call *call, struct error *error)
{
    call->exit_code = 42;
    return number ? error_set(error, WEFT_ERROR_PEER, "rank 1 ended with 42") : WEFT_OK;
}

static const struct command hash = {
    .name = "hash", .summary = "sum it up", .words = "DIR", .options = options, .option_count = 1, .run = succeed};
static const struct command show = {.name = "show", .summary = "show it", .run = succeed};
static const struct command *const nested[] = {&hash, &show};
static const struct command checkpoint = {.name = "checkpoint",
                                          .group = COMMAND_TRAIN,
                                          .summary = "look after them",
                                          .subcommands = nested,
                                          .subcommand_count = 2};
static const struct command fails = {.name = "fails", .group = COMMAND_MEASURE, .summary = "fail", .run = run_and_fail};
static const struct command passes = {.name = "passes",
                                      .group = COMMAND_MEASURE,
                                      .summary = "pass a code on",
                                      .takes_program = true,
                                      .options = options,
                                      .option_count = 1,
                                      .run = pass_on};

static weft_status show_all(struct command_call *call, struct error *error)
{
    fprintf(call->output, "%d", (int)number);
    for (size_t i = 0; i < call->word_count; i++)
        fprintf(call->output, " %s", call->words[i]);
    fprintf(call->output, " |");
    for (size_t i = 0; i < call->program_count; i++)
        fprintf(call->output, " %s", call->program[i]);
    return WEFT_OK;
}

static const struct command enters = {.name = "enters",
                                      .group = COMMAND_TRAIN,
                                      .summary = "run a program in something",
                                      .words = "PLACE",
                                      .takes_program = true,
                                      .options = options,
                                      .option_count = 1,
                                      .run = show_all};
static const struct command *const table[] = {&checkpoint, &enters, &fails, &passes};

static char output[65536], errors[2048];

/* Run the command line, which ends with NULL; its output and errors are then in the buffers. */
static int run(char **words)
{
    int count = 0;
    while (words[count])
        count++;
    memset(output, 0, sizeof output);
    memset(errors, 0, sizeof errors);
    FILE *out = fmemopen(output, sizeof output, "w"), *err = fmemopen(errors, sizeof errors, "w");
    int code = command_main(table, sizeof table / sizeof *table, count, words, out, err);
    fclose(out);
    fclose(err);
    return code;
}
#define RUN(...) run((char *[]){"weft", __VA_ARGS__, NULL})

static void a_nested_command_gets_its_options_and_words(void **state)
{
    assert_int_equal(RUN("checkpoint", "hash", "-n", "3", "/tmp/run"), 0);
    assert_string_equal(output, "weft checkpoint hash 3 /tmp/run");
    assert_string_equal(errors, "");
}

static void no_command_lists_them_under_their_jobs(void **state)
{
    assert_int_equal(RUN(NULL), 0);
    assert_non_null(strstr(output, "Train\n  checkpoint    look after them\n"));
    assert_non_null(strstr(output, "Know the machine\n  fails"));
    assert_null(strstr(output, "Understand"));
    assert_int_equal(RUN("--version"), 0);
    assert_string_equal(output, "weft " WEFT_VERSION_TEXT "\n");
}

static void mistakes_exit_with_2_and_name_what_is_near(void **state)
{
    assert_int_equal(RUN("chekpoint"), 2);
    assert_string_equal(errors, "weft: 'weft chekpoint' is no command; did you mean 'weft checkpoint'?\n");
    assert_string_equal(output, "");
    assert_int_equal(RUN("xyzzy"), 2);
    assert_string_equal(errors, "weft: 'weft xyzzy' is no command; 'weft --help' lists what there is\n");
    assert_int_equal(RUN("checkpoint"), 2);
    assert_string_equal(errors,
                        "weft: 'weft checkpoint' needs the name of a command; 'weft checkpoint --help' lists them\n");
    assert_int_equal(RUN("checkpoint", "hsh"), 2);
    assert_string_equal(errors, "weft: 'weft checkpoint hsh' is no command; did you mean 'weft checkpoint hash'?\n");
    assert_int_equal(RUN("checkpoint", "hash"), 2);
    assert_string_equal(errors, "weft: 'weft checkpoint hash' needs DIR; see 'weft checkpoint hash --help'\n");
    assert_int_equal(RUN("checkpoint", "hash", "a", "b"), 2);
    assert_non_null(strstr(errors, "does not know what to do with 'b'"));
    assert_int_equal(RUN("checkpoint", "hash", "--nmber", "2", "a"), 2);
    assert_non_null(strstr(errors, "did you mean --number?"));
    assert_int_equal(RUN("fails", "extra"), 2);
    assert_non_null(strstr(errors, "does not know what to do with 'extra'"));
}

static void failures_exit_with_1_and_one_message(void **state)
{
    assert_int_equal(RUN("fails"), 1);
    assert_string_equal(errors, "weft: the disk is gone\n");
}

static void exit_codes_are_passed_on(void **state)
{
    assert_int_equal(RUN("passes", "-n", "0", "--", "program"), 42);
    assert_string_equal(errors, "");
    assert_int_equal(RUN("passes", "program"), 42);
    assert_string_equal(errors, "weft: rank 1 ended with 42\n");
}

static void a_program_stands_behind_words_and_dashes(void **state)
{
    assert_int_equal(RUN("enters", "here", "-n", "3", "--", "ls", "-n", "x", "--", "y"), 0);
    assert_string_equal(output, "3 here | ls -n x -- y");
    assert_int_equal(RUN("enters", "-n", "3", "here"), 0);
    assert_string_equal(output, "3 here |");
    assert_int_equal(RUN("enters", "here", "--"), 0);
    assert_string_equal(output, "1 here |");
    assert_int_equal(RUN("enters", "--", "ls"), 2);
    assert_string_equal(errors, "weft: 'weft enters' needs PLACE; see 'weft enters --help'\n");
    assert_int_equal(RUN("enters", "here", "ls"), 2);
    assert_non_null(strstr(errors, "does not know what to do with 'ls'"));
    assert_int_equal(RUN("enters", "--help"), 0);
    assert_non_null(strstr(output, "usage: weft enters [options] PLACE [-- PROGRAM [ARGUMENTS]]\n"));
}

static void output_that_cannot_be_written_is_a_failure(void **state)
{
    char *words[] = {"weft", "checkpoint", "show", NULL};
    FILE *full = fopen("/dev/full", "w"), *err = fmemopen(errors, sizeof errors, "w");
    if (!full)
        skip();
    assert_int_equal(command_main(table, sizeof table / sizeof *table, 3, words, full, err), 1);
    fclose(full);
    fclose(err);
    assert_non_null(strstr(errors, "cannot write the output of 'weft checkpoint show'"));
}

static void help_of_a_command_tells_default_and_range(void **state)
{
    assert_int_equal(RUN("checkpoint", "hash", "--help"), 0);
    assert_non_null(strstr(output, "usage: weft checkpoint hash [options] DIR\n"));
    assert_non_null(strstr(output, "-n, --number N"));
    assert_non_null(strstr(output, "a number (0 to 9; default: 1)"));
    assert_int_equal(RUN("checkpoint", "--help"), 0);
    assert_non_null(strstr(output, "  hash          sum it up\n"));
}

/* A default such as 0 or -1 that stands for something else is shown in words, not as "default: 0 ... 0: ...". */
static void check_default(const struct command *command, const struct cli_option *option)
{
    static const char *const phrases[] = {"usually", "otherwise", "if not given"};
    char explained[32], said[32];
    snprintf(explained, sizeof explained, "; %s: ", cli_option_default(option));
    snprintf(said, sizeof said, " %s is ", cli_option_default(option));
    if (*cli_option_default(option) && (strstr(option->meaning, explained) || strstr(option->meaning, said)))
        fail_msg("'%s' --%s: what the default %s means belongs into .default_text", command->name, option->name,
                 cli_option_default(option));
    assert_string_not_equal(cli_option_default(option), "-1");
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(option->meaning, phrases[i]))
            fail_msg("'%s' --%s: a default belongs into .default_text: %s", command->name, option->name,
                     option->meaning);
}

/* Every command that there is: its table must be sound, as nothing else reads all of it. */
static void check_table(const struct command *const *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct command *command = commands[i];
        if (i)
            assert_true(strcmp(commands[i - 1]->name, command->name) < 0);
        assert_non_null(command->summary);
        assert_true(command->run || command->subcommands);
        assert_true(command_words_needed(command) <= command_words_allowed(command));
        assert_true(command->most_words == 0 || strstr(command->words, "..."));
        for (size_t j = 0; j < command->option_count; j++) {
            const struct cli_option *option = &command->options[j];
            if (option->kind == CLI_KIND_GROUP) {
                assert_non_null(option->meaning);
                continue;
            }
            check_default(command, option);
            const char *dot = strrchr(option->meaning, '.');
            if (!option->meaning[0] || (dot && !dot[1] && dot[-1] != '.')) /* "..." is allowed */
                fail_msg("'%s' --%s: a meaning is a clause without a full stop", command->name, option->name);
            assert_int_equal(option->kind == CLI_KIND_FLAG, !option->value);
            for (size_t k = 0; k < j; k++) {
                assert_true(!command->options[k].name || strcmp(option->name, command->options[k].name) != 0);
                assert_true(!option->letter || option->letter != command->options[k].letter);
            }
        }
        struct cli_rest rest = {0};
        struct error error = {0};
        if (cli_options_parse(command->name, command->options, command->option_count, false, 0, NULL, &rest, &error))
            fail_msg("a default is wrong: %s", error.text);
        cli_rest_free(&rest);
        check_table(command->subcommands, command->subcommand_count);
    }
}

static int64_t rare;
static const struct cli_option grouped_options[] = {
    CLI_GROUP("Model"),
    CLI_INTEGER("number", 'n', "N", &number, "0", 0, 9, "a number", .default_text = "the model's"),
    CLI_GROUP("Speed"),
    CLI_INTEGER("rare", 0, "N", &rare, "5", 0, 1e12, "seldom needed", .advanced = true),
};
static const struct command trains = {
    .name = "trains", .summary = "train it", .options = grouped_options, .option_count = 4, .run = succeed};

static void help_shows_the_common_options_and_help_all_the_rest(void **state)
{
    static const struct command *const alone[] = {&trains};
    for (int all = 0; all < 2; all++) {
        char *words[] = {"weft", "trains", all ? "--help-all" : "--help", NULL};
        memset(output, 0, sizeof output);
        FILE *out = fmemopen(output, sizeof output, "w");
        assert_int_equal(command_main(alone, 1, 3, words, out, stderr), 0);
        fclose(out);
        assert_non_null(
            strstr(output, "\nModel\n  -n, --number N              a number (1 to 9; default: the model's)\n"));
        assert_null(strstr(output, "Options"));
        assert_int_equal(!!strstr(output, "\nSpeed\n      --rare N                seldom needed (default: 5)\n"), all);
        assert_int_equal(!strstr(output, "'weft trains --help-all' prints all."), all);
        assert_null(strstr(output, "1000000"));
    }
    memset(output, 0, sizeof output);
    FILE *out = fmemopen(output, sizeof output, "w");
    help_manual(out, alone, 1);
    fclose(out);
    assert_non_null(strstr(output, "\nSpeed:\n.Bl"));
    assert_non_null(strstr(output, "\\-rare"));
}

static void too_many_words_are_counted(void **state)
{
    static const struct command ends = {
        .name = "ends", .summary = "end them", .words = "RUN ...", .most_words = 100, .run = succeed};
    static const struct command *const alone[] = {&ends};
    char *words[104] = {"weft", "ends"};
    for (int i = 2; i < 103; i++)
        words[i] = "7";
    memset(errors, 0, sizeof errors);
    FILE *err = fmemopen(errors, sizeof errors, "w");
    assert_int_equal(command_main(alone, 1, 103, words, stdout, err), 2);
    fclose(err);
    assert_string_equal(errors, "weft: 'weft ends' takes at most 100 at once, but was given 101\n");
}

static void every_command_has_a_sound_table(void **state)
{
    check_table(command_table, command_table_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nested_command_gets_its_options_and_words),
        cmocka_unit_test(no_command_lists_them_under_their_jobs),
        cmocka_unit_test(mistakes_exit_with_2_and_name_what_is_near),
        cmocka_unit_test(failures_exit_with_1_and_one_message),
        cmocka_unit_test(exit_codes_are_passed_on),
        cmocka_unit_test(a_program_stands_behind_words_and_dashes),
        cmocka_unit_test(output_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(help_of_a_command_tells_default_and_range),
        cmocka_unit_test(help_shows_the_common_options_and_help_all_the_rest),
        cmocka_unit_test(too_many_words_are_counted),
        cmocka_unit_test(every_command_has_a_sound_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
