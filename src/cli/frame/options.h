/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Options of a command, declared once in a table.
 *
 * The parser, `--help`, the man page and the reference page all come from that table, so they cannot disagree. A command
 * keeps its values in one static struct, and the table points to its members. Defaults are text and are parsed like
 * values on the command line.
 *
 *     static struct { int64_t ranks; bool quiet; const char *hosts; } chosen;
 *     static const struct cli_option options[] = {
 *         CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "2", 1, 65536, "how many ranks to start"),
 *         CLI_TEXT("hosts", 0, "LIST", &chosen.hosts, NULL, "start on these hosts: name[:ranks],..."),
 *         CLI_FLAG("quiet", 'q', &chosen.quiet, "print the ranks' output only"),
 *     };
 *
 * Designated initializers may follow the meaning: `.default_text` puts a default such as 0 into words, and `.advanced`
 * leaves the option to --help-all. CLI_GROUP("Model") begins a group with a heading.
 *
 *         CLI_INTEGER("slots", 0, "N", &chosen.slots, "0", 0, 64, "slots of this machine",
 *                     .default_text = "one for each processor"),
 *
 * Command lines may have `--ranks 4`, `--ranks=4`, `-n 4` or `-n4`; a flag takes no value. If an option is given twice,
 * the last value counts; lists collect all values.
 */
#ifndef WEFT_CLI_FRAME_OPTIONS_H
#define WEFT_CLI_FRAME_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_kind {
    CLI_KIND_FLAG,    /**< bool: true when given */
    CLI_KIND_INTEGER, /**< int64_t in [least, most] */
    CLI_KIND_NUMBER,  /**< double in [least, most] */
    CLI_KIND_BYTES,   /**< uint64_t: 4096, 64K, 16M, 1G */
    CLI_KIND_TEXT,    /**< const char *: points into argv or at the default */
    CLI_KIND_CHOICE,  /**< const char *: one of `choices`, a pointer of that list */
    CLI_KIND_LIST,    /**< struct cli_list: a text each time it is given */
    CLI_KIND_GROUP,   /**< not an option: the heading, in `meaning`, of the options that follow in the table */
};

#define CLI_LIST_MOST 256

/** The values of an option of CLI_KIND_LIST; they point into argv. */
struct cli_list {
    const char *items[CLI_LIST_MOST];
    size_t count;
};

struct cli_option {
    const char *name; /**< long name, without its dashes */
    char letter;      /**< short name, or 0 */
    enum cli_kind kind;
    const char *value;    /**< what help calls the value ("N", "FILE"); NULL for a flag */
    const char *standard; /**< the default as text; NULL: a flag is false, others are left as they are (0, NULL) */
    double least, most;   /**< range of an integer or number, both included */
    const char *const *choices; /**< of CLI_KIND_CHOICE, NULL at the end */
    const char *meaning;        /**< begins in lower case, no final full stop */
    const char *default_text;   /**< the default as help says it; NULL: `standard` */
    bool advanced;              /**< rarely needed: shown by --help-all, not by --help */
    union {
        bool *flag;
        int64_t *integer;
        double *number;
        uint64_t *bytes;
        const char **text;
        struct cli_list *list;
    } destination;
};

#define CLI_GROUP(title)                                                                                               \
    {                                                                                                                  \
        .kind = CLI_KIND_GROUP, .meaning = title                                                                       \
    }
/* The last argument is the meaning; designated initializers may follow it. */
#define CLI_FLAG(long_name, short_name, where, ...)                                                                    \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_FLAG, .destination.flag = where,                     \
        .meaning = __VA_ARGS__                                                                                         \
    }
#define CLI_INTEGER(long_name, short_name, value_name, where, start, minimum, maximum, ...)                            \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_INTEGER, .value = value_name, .standard = start,     \
        .least = minimum, .most = maximum, .destination.integer = where, .meaning = __VA_ARGS__                        \
    }
#define CLI_NUMBER(long_name, short_name, value_name, where, start, minimum, maximum, ...)                             \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_NUMBER, .value = value_name, .standard = start,      \
        .least = minimum, .most = maximum, .destination.number = where, .meaning = __VA_ARGS__                         \
    }
#define CLI_BYTES(long_name, short_name, value_name, where, start, ...)                                                \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_BYTES, .value = value_name, .standard = start,       \
        .destination.bytes = where, .meaning = __VA_ARGS__                                                             \
    }
#define CLI_TEXT(long_name, short_name, value_name, where, start, ...)                                                 \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_TEXT, .value = value_name, .standard = start,        \
        .destination.text = where, .meaning = __VA_ARGS__                                                              \
    }
#define CLI_LIST(long_name, short_name, value_name, where, ...)                                                        \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_LIST, .value = value_name,                           \
        .destination.list = where, .meaning = __VA_ARGS__                                                              \
    }
#define CLI_CHOICE(long_name, short_name, value_name, where, start, list, ...)                                         \
    {                                                                                                                  \
        .name = long_name, .letter = short_name, .kind = CLI_KIND_CHOICE, .value = value_name, .standard = start,      \
        .choices = list, .destination.text = where, .meaning = __VA_ARGS__                                             \
    }

/** The rest of a command line after its options; the arrays point into argv. */
struct cli_rest {
    char **words; /**< positional words, in order; the array is freed by cli_rest_free() */
    size_t word_count;
    char **program; /**< what follows "--", NULL-terminated as argv is; NULL if there was none */
    size_t program_count;
    bool help;     /**< --help, --help-all or -h was among the options */
    bool help_all; /**< --help-all was */
};

/**
 * Set every destination to its default, then parse argv[0..argc). `command` ("weft run") is for the messages.
 * With `takes_program`, the options end at the first positional word or at "--", and the rest is the program.
 * Errors: ARGUMENT with a message that names the option, and the nearest one for an unknown option.
 */
weft_status cli_options_parse(const char *command, const struct cli_option *options, size_t count, bool takes_program,
                              int argc, char **argv, struct cli_rest *rest, struct error *error);
void cli_rest_free(struct cli_rest *rest);

/** The choices of an option, or its range if that is short enough to be useful ("1 to 64", "registered, ordinary"), or
 * "". The range leaves out a value that stands for `default_text`: "1 to 64" if 0 is "one for each processor". */
char *cli_option_range(const struct cli_option *option, char *buffer, size_t size);

/** The default as help says it, or "". */
const char *cli_option_default(const struct cli_option *option);

/** Whether the table has options that only --help-all shows. */
bool cli_options_advanced(const struct cli_option *options, size_t count);

/** The index of `choice` in the list of an option of CLI_KIND_CHOICE: the value of an enumeration if the list is in its
 * order. */
int cli_choice_index(const char *choice, const char *const *choices);

#endif
