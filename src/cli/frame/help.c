/* SPDX-License-Identifier: Apache-2.0 */
/* `weft help` and the output of every `--help`. */
#include "cli/frame/help.h"

#include "cli/frame/table.h"
#include "core/collective/communicator/configuration.h"

#include <string.h>

static const char *const group_titles[COMMAND_GROUPS] = {
    [COMMAND_TRAIN] = "Train",
    [COMMAND_MEASURE] = "Know the machine",
    [COMMAND_PLATFORM] = "Share machines",
    [COMMAND_UNDERSTAND] = "Understand what runs",
    [COMMAND_HELP] = "Help",
};

#define NAME_COLUMN        16 /* where summaries begin */
#define OPTION_COLUMN      30 /* where meanings of options begin */
#define ENVIRONMENT_COLUMN 24

static void print_entry(FILE *output, const char *name, const char *summary)
{
    int column = fprintf(output, "  %-*s", NAME_COLUMN - 3, name);
    wrap_print(output, summary, column, NAME_COLUMN);
}

void help_overview(FILE *output, const struct command *const *table, size_t count)
{
    fprintf(output, "weft: distributed training, from two processes on a laptop to a cluster\n\n"
                    "usage: weft COMMAND [options]\n");
    for (int group = 0; group < COMMAND_GROUPS; group++) {
        bool any = false;
        for (size_t i = 0; i < count; i++) {
            if ((int)table[i]->group != group)
                continue;
            if (!any)
                fprintf(output, "\n%s\n", group_titles[group]);
            any = true;
            print_entry(output, table[i]->name, table[i]->summary);
        }
    }
    fprintf(output, "\n'weft COMMAND --help' describes a command; 'weft --version' prints the version.\n");
}

void help_usage(FILE *output, const char *name, const struct command *command)
{
    fprintf(output, "%s", name);
    if (!command->run)
        fprintf(output, " COMMAND");
    fprintf(output, " [options]");
    if (command->words)
        fprintf(output, " %s", command->words);
    if (command->takes_program)
        fprintf(output, command->words ? " [-- PROGRAM [ARGUMENTS]]" : " [--] PROGRAM [ARGUMENTS]");
}

/* "-n, --ranks N" */
static int print_option_name(FILE *output, const struct cli_option *option)
{
    int column = option->letter ? fprintf(output, "  -%c, --%s", option->letter, option->name)
                                : fprintf(output, "      --%s", option->name);
    if (option->value)
        column += fprintf(output, " %s", option->value);
    return column;
}

static void print_option(FILE *output, const struct cli_option *option)
{
    char text[1024];
    char range[512];
    const char *standard = cli_option_default(option);
    cli_option_range(option, range, sizeof range);
    if (*standard || range[0])
        snprintf(text, sizeof text, "%s (%s%s%s%s)", option->meaning, range, *standard && range[0] ? "; " : "",
                 *standard ? "default: " : "", standard);
    else
        snprintf(text, sizeof text, "%s", option->meaning);
    int column = print_option_name(output, option);
    if (column >= OPTION_COLUMN) {
        fputc('\n', output);
        column = 0;
    }
    wrap_print(output, text, column, OPTION_COLUMN);
}

/* The options under the headings of their groups, or under "Options" where the table has none. */
static void print_options(FILE *output, const char *name, const struct command *command, bool all)
{
    static const struct cli_option help_option = CLI_FLAG("help", 'h', NULL, "print this");
    static const struct cli_option help_all_option = CLI_FLAG("help-all", 0, NULL, "print all options");
    const char *heading = "Options";
    const bool grouped = command->option_count && command->options[0].kind == CLI_KIND_GROUP;
    const bool advanced = cli_options_advanced(command->options, command->option_count);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        if (option->kind == CLI_KIND_GROUP)
            heading = option->meaning;
        if (option->kind == CLI_KIND_GROUP || (option->advanced && !all))
            continue;
        if (heading)
            fprintf(output, "\n%s\n", heading);
        heading = NULL;
        print_option(output, option);
    }
    if (grouped || heading)
        fprintf(output, "\n%s\n", grouped ? "Help" : heading);
    print_option(output, &help_option);
    if (advanced)
        print_option(output, &help_all_option);
    if (advanced && !all)
        fprintf(output, "\nThese are the common options; '%s --help-all' prints all.\n", name);
}

/* Indented alike, however the table writes them. */
static void print_examples(FILE *output, const char *examples)
{
    fprintf(output, "\nExamples\n");
    while (*examples) {
        examples += strspn(examples, " ");
        size_t length = strcspn(examples, "\n");
        fprintf(output, "  %.*s\n", (int)length, examples);
        examples += length + (examples[length] == '\n');
    }
}

void help_command(FILE *output, const char *name, const struct command *command, bool all)
{
    fprintf(output, "%s: %s\n\nusage: ", name, command->summary);
    help_usage(output, name, command);
    fputc('\n', output);
    if (command->description) {
        fputc('\n', output);
        wrap_print(output, command->description, 0, 0);
    }
    if (command->subcommands) {
        fprintf(output, "\nCommands\n");
        for (size_t i = 0; i < command->subcommand_count; i++)
            print_entry(output, command->subcommands[i]->name, command->subcommands[i]->summary);
        fprintf(output, "\n'%s COMMAND --help' describes one.\n", name);
    }
    if (!command->run)
        return;
    print_options(output, name, command, all);
    if (command->examples)
        print_examples(output, command->examples);
}

static struct {
    bool all, environment, man, markdown;
} chosen;

/* Follow `words` ("checkpoint", "hash") to a command and print it. */
static weft_status print_named(struct command_call *call, struct error *error)
{
    const struct command *const *table = command_table;
    const struct command *command = NULL;
    size_t count = command_table_count;
    char name[64] = "weft";
    for (size_t i = 0; i < call->word_count; i++) {
        weft_status status = command_find(table, count, name, call->words[i], &command, error);
        if (status != WEFT_OK)
            return status;
        size_t length = strlen(name);
        snprintf(name + length, sizeof name - length, " %s", command->name);
        table = command->subcommands;
        count = command->subcommand_count;
    }
    help_command(call->output, name, command, chosen.all);
    return WEFT_OK;
}

/* The environment variables that every program with Weft's collectives reads. */
static void help_print_environment(FILE *output)
{
    size_t count;
    const struct configuration_variable *variables = configuration_variables(&count);
    for (size_t i = 0; i < count; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s (default %s; %s)", variables[i].meaning, variables[i].standard,
                 variables[i].range);
        int column = fprintf(output, "%s", variables[i].name);
        wrap_print(output, text, column, ENVIRONMENT_COLUMN);
    }
}

static const struct cli_option options[] = {
    CLI_FLAG("all", 'a', &chosen.all, "print all options of COMMAND, not only the common ones"),
    CLI_FLAG("environment", 0, &chosen.environment, "print the environment variables that programs with Weft read"),
    CLI_FLAG("man", 0, &chosen.man, "print all commands as a man page, weft(1)"),
    CLI_FLAG("markdown", 0, &chosen.markdown, "print all commands as a page of Markdown"),
};

static weft_status help_run(struct command_call *call, struct error *error)
{
    if (chosen.environment)
        help_print_environment(call->output);
    else if (chosen.man)
        help_manual(call->output, command_table, command_table_count);
    else if (chosen.markdown)
        help_reference(call->output, command_table, command_table_count);
    else if (call->word_count > 0)
        return print_named(call, error);
    else
        help_overview(call->output, command_table, command_table_count);
    return WEFT_OK;
}

const struct command command_help = {
    .name = "help",
    .group = COMMAND_HELP,
    .summary = "list the commands, or describe one",
    .words = "[COMMAND ...]",
    .most_words = 4,
    COMMAND_OPTIONS(options),
    .examples = "  weft help run\n  weft help checkpoint hash\n  weft help --man | man -l -\n",
    .run = help_run,
};
