/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/command.h"

#include "base/text.h"
#include "cli/frame/help.h"

#include <string.h>

#define EXIT_FAILED  1
#define EXIT_MISUSED 2
#define NAMES_MOST   64  /* most entries in one table of commands */
#define MANY_WORDS   100 /* a command that takes this many is meant to take any number */

#define COMMAND(name) extern const struct command command_##name;
#include "cli/frame/commands.def"
#undef COMMAND

const struct command *const command_table[] = {
#define COMMAND(name) &command_##name,
#include "cli/frame/commands.def"
#undef COMMAND
};

const size_t command_table_count = sizeof command_table / sizeof *command_table;

weft_status command_find(const struct command *const *table, size_t count, const char *where, const char *name,
                         const struct command **command, struct error *error)
{
    const char *names[NAMES_MOST];
    size_t known = 0;
    for (size_t i = 0; i < count && known < NAMES_MOST; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            *command = table[i];
            return WEFT_OK;
        }
        names[known++] = table[i]->name;
    }
    const char *nearest = text_nearest(name, names, known);
    if (nearest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s %s' is no command; did you mean '%s %s'?", where, name, where,
                         nearest);
    return error_set(error, WEFT_ERROR_ARGUMENT, "'%s %s' is no command; '%s --help' lists what there is", where, name,
                     where);
}

static bool names_subcommand(const struct command *command, const char *word)
{
    for (size_t i = 0; i < command->subcommand_count; i++)
        if (strcmp(command->subcommands[i]->name, word) == 0)
            return true;
    return false;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "--help-all") == 0 || strcmp(word, "-h") == 0;
}

/* Follow the words of argv down the tables of subcommands; *used counts the words that named commands. */
static weft_status find_nested(const struct command *const *table, size_t count, int argc, char **argv,
                               struct command_call *call, int *used, bool *help, struct error *error)
{
    int at = 1;
    snprintf(call->name, sizeof call->name, "weft");
    while (true) {
        if (at < argc && asks_for_help(argv[at])) {
            *help = true;
            break;
        }
        if (at >= argc)
            return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' needs the name of a command; '%s --help' lists them",
                             call->name, call->name);
        weft_status status = command_find(table, count, call->name, argv[at], &call->command, error);
        if (status != WEFT_OK)
            return status;
        size_t length = strlen(call->name);
        snprintf(call->name + length, sizeof call->name - length, " %s", call->command->name);
        at++;
        if (!call->command->subcommands ||
            (call->command->run && (at >= argc || !names_subcommand(call->command, argv[at]))))
            break;
        table = call->command->subcommands;
        count = call->command->subcommand_count;
    }
    *used = at;
    return WEFT_OK;
}

/* Count the words of "RUN [NAME ...]" before the first bracket, or all of them. */
static size_t count_words(const char *words, bool optional)
{
    size_t count = 0;
    for (const char *at = words ? words : ""; *at && (optional || *at != '['); at += strspn(at, " ")) {
        count += strncmp(at, "...", 3) != 0;
        at += strcspn(at, " ");
    }
    return count;
}

size_t command_words_needed(const struct command *command)
{
    return count_words(command->words, false);
}

size_t command_words_allowed(const struct command *command)
{
    return command->most_words ? command->most_words : count_words(command->words, true);
}

weft_status command_misused(struct command_call *call, weft_status status)
{
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    return status;
}

static volatile sig_atomic_t asked_by;

static void ask_to_stop(int number)
{
    asked_by = number;
    signal(number, SIG_DFL);
}

const volatile sig_atomic_t *interrupts_catch(void)
{
    signal(SIGINT, ask_to_stop);
    signal(SIGTERM, ask_to_stop);
    signal(SIGHUP, ask_to_stop);
    return &asked_by;
}

static weft_status command_check_words(const struct command_call *call, struct error *error)
{
    const struct command *command = call->command;
    const size_t allowed = command_words_allowed(command);
    if (call->word_count < command_words_needed(command))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' needs %s; see '%s --help'", call->name, command->words,
                         call->name);
    const char *names[NAMES_MOST];
    size_t known = 0;
    for (; known < command->subcommand_count && known < NAMES_MOST; known++)
        names[known] = command->subcommands[known]->name;
    const char *nearest = call->word_count > allowed ? text_nearest(call->words[0], names, known) : NULL;
    if (nearest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s %s' is no command; did you mean '%s %s'?", call->name,
                         call->words[0], call->name, nearest);
    if (call->word_count > allowed && allowed >= MANY_WORDS)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' takes at most %zu at once, but was given %zu", call->name,
                         allowed, call->word_count);
    if (call->word_count > allowed)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' does not know what to do with '%s'; see '%s --help'",
                         call->name, call->words[allowed], call->name);
    return WEFT_OK;
}

/* Options and words of a command that takes words and a program: the program follows "--". */
static weft_status parse_before_program(const struct command_call *call, int argc, char **argv, struct cli_rest *rest,
                                        struct error *error)
{
    int end = 0;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    weft_status status = cli_options_parse(call->name, call->command->options, call->command->option_count, false, end,
                                           argv, rest, error);
    if (status == WEFT_OK && end < argc) {
        rest->program = argv + end + 1;
        rest->program_count = (size_t)(argc - end - 1);
    }
    return status;
}

static weft_status command_parse(const struct command_call *call, int argc, char **argv, struct cli_rest *rest,
                                 struct error *error)
{
    const struct command *command = call->command;
    if (command->takes_program && command->words)
        return parse_before_program(call, argc, argv, rest, error);
    return cli_options_parse(call->name, command->options, command->option_count, command->takes_program, argc, argv,
                             rest, error);
}

static int command_report(FILE *errors, const struct error *error, int exit_code)
{
    fprintf(errors, "weft: %s\n", error->text);
    return exit_code;
}

/* Run a command whose options have been read. Output that could not be written is a failure too. */
static int command_call_run(struct command_call *call, FILE *errors, struct error *error)
{
    weft_status status = call->command->run(call, error);
    if (status == WEFT_OK && (fflush(call->output) != 0 || ferror(call->output)))
        status = error_system(error, "cannot write the output of '%s'", call->name);
    if (status != WEFT_OK)
        return command_report(errors, error, call->exit_code ? call->exit_code : EXIT_FAILED);
    return call->exit_code;
}

int command_main(const struct command *const *table, size_t count, int argc, char **argv, FILE *output, FILE *errors)
{
    struct error error = {0};
    struct command_call call = {.output = output};
    struct cli_rest rest = {0};
    int used = 0;
    bool help = false;

    if (argc < 2) {
        help_overview(output, table, count);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        fprintf(output, "weft %s\n", weft_version());
        return 0;
    }
    if (find_nested(table, count, argc, argv, &call, &used, &help, &error) != WEFT_OK)
        return command_report(errors, &error, EXIT_MISUSED);
    if (help) {
        if (call.command)
            help_command(output, call.name, call.command, true);
        else
            help_overview(output, table, count);
        return 0;
    }
    const struct command *command = call.command;
    if (command_parse(&call, argc - used, argv + used, &rest, &error) != WEFT_OK)
        return command_report(errors, &error, EXIT_MISUSED);
    call.arguments = argv + used;
    call.words = rest.words;
    call.word_count = rest.word_count;
    call.program = rest.program;
    call.program_count = rest.program_count;

    int code;
    if (rest.help) {
        help_command(output, call.name, command, rest.help_all);
        code = 0;
    } else if (command_check_words(&call, &error) != WEFT_OK) {
        code = command_report(errors, &error, EXIT_MISUSED);
    } else {
        code = command_call_run(&call, errors, &error);
    }
    cli_rest_free(&rest);
    return code;
}
