/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/options.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MOST 128 /* most options of one command */
#define WHAT_BYTES 128 /* "weft train: --learning-rate" */

#define INTEGER_RANGE_MOST 1024 /* ranges of integers are shown up to this */
#define BOUND_CHARACTERS   4    /* "0.99", "1024" */

static weft_status set_choice(const struct cli_option *option, const char *what, const char *text, struct error *error)
{
    char list[512];
    size_t count = 0;
    for (; option->choices[count]; count++) {
        if (strcmp(option->choices[count], text) == 0) {
            *option->destination.text = option->choices[count];
            return WEFT_OK;
        }
    }
    const char *nearest = text_nearest(text, option->choices, count);
    if (nearest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s'; did you mean '%s'?", what, text, nearest);
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', but must be one of: %s", what, text,
                     cli_option_range(option, list, sizeof list));
}

/* Read `text` into the option's destination. */
static weft_status set_value(const char *command, const struct cli_option *option, const char *text,
                             struct error *error)
{
    char what[WHAT_BYTES];
    snprintf(what, sizeof what, "%s: --%s", command, option->name);
    switch (option->kind) {
    case CLI_KIND_FLAG:
        *option->destination.flag = true;
        return WEFT_OK;
    case CLI_KIND_INTEGER:
        return text_parse_integer(text, what, (int64_t)option->least, (int64_t)option->most,
                                  option->destination.integer, error);
    case CLI_KIND_NUMBER:
        return text_parse_number(text, what, option->least, option->most, option->destination.number, error);
    case CLI_KIND_BYTES:
        return text_parse_bytes(text, what, option->destination.bytes, error);
    case CLI_KIND_TEXT:
        *option->destination.text = text;
        return WEFT_OK;
    case CLI_KIND_CHOICE:
        return set_choice(option, what, text, error);
    case CLI_KIND_GROUP:
        break;
    case CLI_KIND_LIST:
        if (option->destination.list->count == CLI_LIST_MOST)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given more than %d times", what, CLI_LIST_MOST);
        option->destination.list->items[option->destination.list->count++] = text;
        return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_STATE, "%s is of a kind that does not exist", what);
}

static weft_status set_defaults(const char *command, const struct cli_option *options, size_t count,
                                struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].kind == CLI_KIND_FLAG)
            *options[i].destination.flag = false;
        if (options[i].kind == CLI_KIND_LIST)
            options[i].destination.list->count = 0;
        if (!options[i].standard)
            continue;
        weft_status status = set_value(command, &options[i], options[i].standard, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status unknown_option(const char *command, const struct cli_option *options, size_t count, const char *name,
                                  struct error *error)
{
    const char *names[NAMES_MOST + 1];
    size_t known = 0;
    for (size_t i = 0; i < count && known < NAMES_MOST; i++)
        if (options[i].name)
            names[known++] = options[i].name;
    names[known++] = "help";
    const char *nearest = text_nearest(name, names, known);
    if (nearest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: there is no option --%s; did you mean --%s?", command, name,
                         nearest);
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s: there is no option --%s; '%s --help' lists them", command, name,
                     command);
}

/* Read "--name", "--name=value" or "--name value" at argv[*at]; leave *at after it. */
static weft_status read_long(const char *command, const struct cli_option *options, size_t count, int argc, char **argv,
                             int *at, struct error *error)
{
    char name[64];
    char *word = argv[(*at)++] + 2;
    char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    for (size_t i = 0; i < count; i++) {
        if (!options[i].name || strcmp(options[i].name, name) != 0)
            continue;
        if (options[i].kind == CLI_KIND_FLAG && equals)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s: --%s takes no value, but '%s' was given", command, name,
                             equals + 1);
        if (options[i].kind == CLI_KIND_FLAG || equals)
            return set_value(command, &options[i], equals ? equals + 1 : "", error);
        if (*at >= argc)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s: --%s needs a value: --%s %s", command, name, name,
                             options[i].value);
        return set_value(command, &options[i], argv[(*at)++], error);
    }
    return unknown_option(command, options, count, name, error);
}

/* Read "-n value", "-nvalue", or flags "-qv" at argv[*at]; leave *at after it. */
static weft_status read_short(const char *command, const struct cli_option *options, size_t count, int argc,
                              char **argv, int *at, bool *help, struct error *error)
{
    for (char *letter = argv[(*at)++] + 1; *letter; letter++) {
        const struct cli_option *option = NULL;
        for (size_t i = 0; i < count; i++)
            if (options[i].letter && options[i].letter == *letter)
                option = &options[i];
        if (!option && *letter == 'h') {
            *help = true;
            continue;
        }
        if (!option)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s: there is no option -%c; '%s --help' lists them", command,
                             *letter, command);
        if (option->kind == CLI_KIND_FLAG) {
            set_value(command, option, "", error);
            continue;
        }
        if (letter[1])
            return set_value(command, option, letter + 1, error);
        if (*at >= argc)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s: -%c needs a value: -%c %s", command, *letter, *letter,
                             option->value);
        return set_value(command, option, argv[(*at)++], error);
    }
    return WEFT_OK;
}

weft_status cli_options_parse(const char *command, const struct cli_option *options, size_t count, bool takes_program,
                              int argc, char **argv, struct cli_rest *rest, struct error *error)
{
    struct cli_rest found = {.words = calloc((size_t)argc + 1, sizeof *found.words)};
    if (!found.words)
        return error_memory(error, ((size_t)argc + 1) * sizeof *found.words, "the command line");
    weft_status status = set_defaults(command, options, count, error);
    int at = 0;
    while (status == WEFT_OK && at < argc) {
        char *word = argv[at];
        bool ends_options = strcmp(word, "--") == 0;
        if (ends_options || (takes_program && (word[0] != '-' || !word[1]))) {
            at += ends_options;
            found.program = argv + at;
            found.program_count = (size_t)(argc - at);
            break;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "--help-all") == 0) {
            found.help = true;
            found.help_all = found.help_all || word[strlen("--help")];
            at++;
        } else if (word[0] == '-' && word[1] == '-') {
            status = read_long(command, options, count, argc, argv, &at, error);
        } else if (word[0] == '-' && word[1]) {
            status = read_short(command, options, count, argc, argv, &at, &found.help, error);
        } else {
            found.words[found.word_count++] = word;
            at++;
        }
    }
    if (status == WEFT_OK && found.program && !takes_program) {
        /* After "--" everything is a positional word, even if it looks like an option. */
        for (size_t i = 0; i < found.program_count; i++)
            found.words[found.word_count++] = found.program[i];
        found.program = NULL;
        found.program_count = 0;
    }
    if (status != WEFT_OK) {
        free(found.words);
        return status;
    }
    *rest = found;
    return WEFT_OK;
}

void cli_rest_free(struct cli_rest *rest)
{
    free(rest->words);
    *rest = (struct cli_rest){0};
}

/* The bounds of a range that is worth showing: of small counts, and of shares. */
static bool bounds(const struct cli_option *option, char *least, char *most, size_t size)
{
    const bool whole = option->kind == CLI_KIND_INTEGER;
    const bool stands_for = option->default_text && option->standard && atof(option->standard) == option->least;
    if (option->most > (whole ? INTEGER_RANGE_MOST : 1) || (stands_for && !whole))
        return false;
    snprintf(least, size, "%g", option->least + stands_for);
    snprintf(most, size, "%g", option->most);
    return strlen(least) <= BOUND_CHARACTERS && strlen(most) <= BOUND_CHARACTERS;
}

char *cli_option_range(const struct cli_option *option, char *buffer, size_t size)
{
    size_t length = 0;
    char least[32], most[32];
    buffer[0] = '\0';
    switch (option->kind) {
    case CLI_KIND_INTEGER:
    case CLI_KIND_NUMBER:
        if (bounds(option, least, most, sizeof least))
            snprintf(buffer, size, "%s to %s", least, most);
        break;
    case CLI_KIND_CHOICE:
        for (size_t i = 0; option->choices[i] && length < size; i++)
            length += (size_t)snprintf(buffer + length, size - length, "%s%s", i ? ", " : "", option->choices[i]);
        break;
    case CLI_KIND_FLAG:
    case CLI_KIND_LIST:
    case CLI_KIND_BYTES:
    case CLI_KIND_TEXT:
    case CLI_KIND_GROUP:
        break;
    }
    return buffer;
}

const char *cli_option_default(const struct cli_option *option)
{
    return option->default_text ? option->default_text : option->standard ? option->standard : "";
}

bool cli_options_advanced(const struct cli_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (options[i].advanced)
            return true;
    return false;
}

int cli_choice_index(const char *choice, const char *const *choices)
{
    int index = 0;
    while (choices[index] && strcmp(choices[index], choice) != 0)
        index++;
    return index;
}
