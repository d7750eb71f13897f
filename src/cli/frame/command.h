/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A subcommand of `weft`: a name, a line about it, a table of options, a function.
 *
 * One file for each subcommand defines `const struct command command_NAME`, and one line in cli/frame/commands.def
 * makes it known. The function gets its options already read into the places that its table points at; it parses and
 * prints, and leaves the work to the modules below.
 *
 *     static weft_status run(struct command_call *call, struct error *error) { ... }
 *
 *     const struct command command_topo = {
 *         .name = "topo",
 *         .group = COMMAND_MEASURE,
 *         .summary = "show what this machine has",
 *         .options = options,
 *         .option_count = sizeof options / sizeof *options,
 *         .run = run,
 *     };
 *
 * Exit codes: 0 success; 1 a failure, told in one message `weft: ...` on stderr; 2 a command line that cannot be
 * understood, told in the same way with the nearest name there is.
 */
#ifndef WEFT_CLI_FRAME_COMMAND_H
#define WEFT_CLI_FRAME_COMMAND_H

#include "cli/frame/options.h"

#include <stdio.h>

/** What a command is for; `weft help` lists commands under these. */
enum command_group {
    COMMAND_TRAIN,      /**< run programs, train models, look after checkpoints */
    COMMAND_MEASURE,    /**< know and measure the machine */
    COMMAND_PLATFORM,   /**< share machines: projects, runs, nodes */
    COMMAND_UNDERSTAND, /**< see what would run and why */
    COMMAND_HELP,
};
#define COMMAND_GROUPS 5

/** One invocation. The words belong to argv. */
struct command_call {
    const struct command *command;
    char name[64]; /**< as typed in full: "weft checkpoint hash" */
    char **words;  /**< positional words; as many as the command allows */
    size_t word_count;
    char **program; /**< what followed "--", NULL-terminated; NULL if nothing did */
    size_t program_count;
    char **arguments; /**< all that followed the command's name, as typed; NULL-terminated */
    FILE *output;     /**< where results go: stdout, or a test's file */
    int exit_code;    /**< what `weft` exits with: after WEFT_OK as set here (0), after an error 1 unless set here */
};

struct command {
    const char *name;
    enum command_group group; /**< of a command of the first level */
    const char *summary;      /**< a line: begins in lower case, no final full stop */
    const char *description;  /**< paragraphs separated by "\n\n", or NULL */
    const char *examples;     /**< a command line a line, each ending in "\n", or NULL */
    const char *words;        /**< positional words as help shows them: "DIR", "COLLECTIVE [BYTES]", or NULL */
    size_t least_words, most_words;
    bool takes_program; /**< a program and its arguments may follow, behind "--" or not; with words: behind "--" */
    const struct cli_option *options;
    size_t option_count;
    const struct command *const *subcommands;
    size_t subcommand_count;
    /** NULL: one of the subcommands must be named; otherwise it is what remains where the first word names none. */
    weft_status (*run)(struct command_call *call, struct error *error);
};

/** All commands of the first level, sorted by name (cli/frame/commands.def). */
extern const struct command *const command_table[];
extern const size_t command_table_count;

/**
 * Run the command that argv[1..] names in `table`; print errors to `errors`; return the exit code. main() is this with
 * command_table and the standard streams.
 */
int command_main(const struct command *const *table, size_t count, int argc, char **argv, FILE *output, FILE *errors);

/** The entry of `table` called `name`; ARGUMENT with the nearest name if there is none. `where` is "weft" or "weft
 * checkpoint". */
weft_status command_find(const struct command *const *table, size_t count, const char *where, const char *name,
                         const struct command **command, struct error *error);

#endif
