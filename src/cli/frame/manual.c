/* SPDX-License-Identifier: Apache-2.0 */
/* All commands as a man page (mdoc) and as Markdown. */
#include "cli/frame/help.h"

#include "core/collective/communicator/configuration.h"

#include <string.h>

/* Whether text ends before the space at `text` and another follows: mdoc wants each on a line of its own. */
static bool between_sentences(const char *begin, const char *text)
{
    return *text == ' ' && text > begin && text[-1] == '.' && text[1] >= 'A' && text[1] <= 'Z';
}

/* Text of a man page: a backslash is escaped, and so is a full stop or quote that would begin a request. */
static void man_text(FILE *output, const char *text)
{
    const char *begin = text;
    bool line_start = true;
    for (; *text; text++) {
        if (between_sentences(begin, text)) {
            fputc('\n', output);
            line_start = true;
            continue;
        }
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", output);
        if (*text == '\\')
            fputs("\\e", output);
        else if (*text == '-')
            fputs("\\-", output);
        else
            fputc(*text, output);
        line_start = *text == '\n';
    }
}

/* Paragraphs: "\n\n" becomes .Pp. */
static void man_paragraphs(FILE *output, const char *text)
{
    while (text) {
        const char *end = strstr(text, "\n\n");
        char paragraph[2048];
        snprintf(paragraph, sizeof paragraph, "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
        man_text(output, paragraph);
        fputc('\n', output);
        if (end)
            fputs(".Pp\n", output);
        text = end ? end + 2 : NULL;
    }
}

static void man_option(FILE *output, const struct cli_option *option)
{
    char range[512];
    fputs(".It ", output);
    if (option->letter)
        fprintf(output, "Fl %c , ", option->letter);
    fprintf(output, "Fl \\-%s", option->name);
    if (option->value) {
        fputs(" Ar ", output);
        man_text(output, option->value);
    }
    fputc('\n', output);
    man_text(output, option->meaning);
    if (*cli_option_default(option)) {
        fputs("; default: ", output);
        man_text(output, cli_option_default(option));
    }
    if (*cli_option_range(option, range, sizeof range)) {
        fputs("; ", output);
        man_text(output, range);
    }
    fputs(".\n", output);
}

/* How a list of options is written: its beginning and end, a group's heading, an option. */
struct option_form {
    const char *begin, *end, *heading;
    void (*option)(FILE *output, const struct cli_option *option);
};

/* A group ends one list and begins another under its heading. */
static void manual_options(FILE *output, const struct command *command, const struct option_form *form)
{
    bool open = false;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        const bool heads = option->kind == CLI_KIND_GROUP;
        if (heads)
            fprintf(output, form->heading, open ? form->end : "", option->meaning);
        else if (!open)
            fputs(form->begin, output);
        open = !heads;
        if (!heads)
            form->option(output, option);
    }
    if (open)
        fputs(form->end, output);
}

/* Call `write` for all commands of `table`. Subcommands come before a command that can run itself. */
static void manual_commands(FILE *output, const char *prefix, const struct command *const *table, size_t count,
                            void (*write)(FILE *output, const char *name, const struct command *command))
{
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", prefix, table[i]->name);
        if (!table[i]->run)
            write(output, name, table[i]);
        manual_commands(output, name, table[i]->subcommands, table[i]->subcommand_count, write);
        if (table[i]->run)
            write(output, name, table[i]);
    }
}

static void man_command(FILE *output, const char *name, const struct command *command)
{
    if (!command->run)
        return;
    fprintf(output, ".Ss ");
    help_usage(output, name, command);
    fputc('\n', output);
    fputc((unsigned char)(command->summary[0] >= 'a' && command->summary[0] <= 'z' ? command->summary[0] - 'a' + 'A'
                                                                                   : command->summary[0]),
          output);
    man_text(output, command->summary + 1);
    fputs(".\n", output);
    if (command->description) {
        fputs(".Pp\n", output);
        man_paragraphs(output, command->description);
    }
    manual_options(output, command, &(struct option_form){".Bl -tag -width Ds\n", ".El\n", "%s.Pp\n%s:\n", man_option});
    if (command->examples) {
        fputs(".Bd -literal\n", output);
        man_text(output, command->examples);
        fputs(".Ed\n", output);
    }
}

static void man_environment(FILE *output)
{
    size_t count;
    const struct configuration_variable *variables = configuration_variables(&count);
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n", output);
    for (size_t i = 0; i < count; i++) {
        fprintf(output, ".It Ev %s\n", variables[i].name);
        man_text(output, variables[i].meaning);
        fputs("; default: ", output);
        man_text(output, variables[i].standard);
        fputs("; ", output);
        man_text(output, variables[i].range);
        fputs(".\n", output);
    }
    fputs(".El\n", output);
}

void help_manual(FILE *output, const struct command *const *table, size_t count)
{
    fprintf(output,
            ".\\\" SPDX-License-Identifier: Apache-2.0\n"
            ".\\\" Made by 'weft help --man' from the tables of options.\n"
            ".Dd November 21, 2026\n"
            ".Dt WEFT 1\n"
            ".Os Weft %s\n"
            ".Sh NAME\n"
            ".Nm weft\n"
            ".Nd distributed training and collectives\n"
            ".Sh SYNOPSIS\n"
            ".Nm\n"
            ".Ar command\n"
            ".Op Ar options\n"
            ".Sh DESCRIPTION\n"
            ".Nm\n"
            "trains models on many ranks, starts programs that use its collectives, and measures and explains both.\n"
            "Sizes may be written with K, M, G or T (powers of 1024).\n"
            ".Sh COMMANDS\n",
            weft_version());
    manual_commands(output, "weft", table, count, man_command);
    man_environment(output);
    fputs(".Sh EXIT STATUS\n"
          "0 on success; 1 on a failure, one error message on standard error; 2 if the command line cannot be "
          "understood.\n"
          "A command that starts a program passes the program's exit status on.\n"
          "One that follows a run (weft logs --follow, weft submit --follow) exits with 125 if the server was gone for "
          "so long that the state of the run is unknown; weft exec and weft shell do so if the node could not be "
          "reached or was lost, and with 127 if there is no such command.\n",
          output);
}

static void markdown_option(FILE *output, const struct cli_option *option)
{
    char range[512];
    fputs("| `", output);
    if (option->letter)
        fprintf(output, "-%c`, `", option->letter);
    fprintf(output, "--%s%s%s` | %s | %s | %s |\n", option->name, option->value ? " " : "",
            option->value ? option->value : "", cli_option_default(option),
            cli_option_range(option, range, sizeof range), option->meaning);
}

static void markdown_command(FILE *output, const char *name, const struct command *command)
{
    fprintf(output, "## %s\n\n%s.\n\n", name, command->summary);
    if (!command->run)
        return;
    fputs("    ", output);
    help_usage(output, name, command);
    fputs("\n\n", output);
    if (command->description)
        fprintf(output, "%s\n\n", command->description);
    manual_options(output, command,
                   &(struct option_form){"| option | default | range | meaning |\n|---|---|---|---|\n", "\n",
                                         "%s%s:\n\n", markdown_option});
    if (command->examples)
        fprintf(output, "```sh\n%s```\n\n", command->examples);
}

void help_reference(FILE *output, const struct command *const *table, size_t count)
{
    fputs("# The weft command\n\nMade by `weft help --markdown` from the tables of options; the man page weft(1) says "
          "the same.\n\n",
          output);
    manual_commands(output, "weft", table, count, markdown_command);
    size_t variable_count;
    const struct configuration_variable *variables = configuration_variables(&variable_count);
    fputs("## Environment\n\n| variable | default | range | meaning |\n|---|---|---|---|\n", output);
    for (size_t i = 0; i < variable_count; i++)
        fprintf(output, "| `%s` | %s | %s | %s |\n", variables[i].name, variables[i].standard, variables[i].range,
                variables[i].meaning);
}
