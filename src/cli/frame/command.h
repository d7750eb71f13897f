/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A subcommand of `weft`: a name, a one-line summary, a table of options and a function.
 *
 * Each command is a `const struct command command_NAME`, and one line in cli/frame/commands.def registers it. When its
 * function is called, the options have been parsed into the variables that the table points to. The function checks
 * and prints; the work is done by the modules below.
 *
 *     static weft_status topo_run(struct command_call *call, struct error *error) { ... }
 *
 *     const struct command command_topo = {
 *         .name = "topo",
 *         .group = COMMAND_MEASURE,
 *         .summary = "show what this machine has",
 *         COMMAND_OPTIONS(options),
 *         .run = topo_run,
 *     };
 *
 * Exit codes: 0 for success; 1 for a failure, with one message `weft: ...` on stderr; 2 for a command line that cannot
 * be understood, with a message that suggests the nearest name.
 */
#ifndef WEFT_CLI_FRAME_COMMAND_H
#define WEFT_CLI_FRAME_COMMAND_H

#include "cli/frame/options.h"

#include <signal.h>
#include <stdio.h>

/** What a command is for; `weft help` lists commands under these. */
enum command_group {
    COMMAND_TRAIN,      /**< run programs, train models, manage checkpoints */
    COMMAND_MEASURE,    /**< describe and measure the machine */
    COMMAND_PLATFORM,   /**< share machines: projects, runs, nodes */
    COMMAND_UNDERSTAND, /**< see what would run and why */
    COMMAND_HELP,
};
#define COMMAND_GROUPS 5

/** One invocation. The words belong to argv. */
struct command_call {
    const struct command *command;
    char name[64]; /**< the command in full: "weft checkpoint hash" */
    char **words;  /**< positional words; as many as the command allows */
    size_t word_count;
    char **program; /**< what followed "--", NULL-terminated; NULL if nothing did */
    size_t program_count;
    char **arguments; /**< everything after the command's name, as typed; NULL-terminated */
    FILE *output;     /**< where results go: stdout, or a test's file */
    int exit_code;    /**< of `weft`: after WEFT_OK as set here (0), after an error 1 unless set here */
};

struct command {
    const char *name;
    enum command_group group; /**< of a command of the first level */
    const char *summary;      /**< one line: begins in lower case, no final full stop */
    const char *description;  /**< paragraphs separated by "\n\n", or NULL */
    const char *examples;     /**< one command line per line, each ending in "\n", or NULL */
    /** Positional words as help shows them: "DIR", "COLLECTIVE [BYTES]", "RUN ...", or NULL. How many are needed and
     * allowed follows from it: those in brackets, or after the first bracket, may be missing. */
    const char *words;
    size_t most_words;  /**< where `words` ends in "...": how many are allowed; 0: as many as `words` names */
    bool takes_program; /**< a program and its arguments may follow, after "--" or not; with words: only after "--" */
    const struct cli_option *options; /**< COMMAND_OPTIONS() sets the table and its size */
    size_t option_count;
    const struct command *const *subcommands; /**< COMMAND_SUBCOMMANDS(&show, &list) sets them */
    size_t subcommand_count;
    const void *details; /**< what a `run` that several commands share needs to know about this one */
    /** NULL if a subcommand must be named; otherwise called when the first word names none. */
    weft_status (*run)(struct command_call *call, struct error *error);
};

#define COMMAND_OPTIONS(table) .options = table, .option_count = ARRAY_SIZE(table)
#define COMMAND_SUBCOMMANDS(...)                                                                                       \
    .subcommands = (const struct command *const[]){__VA_ARGS__},                                                       \
    .subcommand_count = ARRAY_SIZE(((const struct command *const[]){__VA_ARGS__}))

/** All commands of the first level, sorted by name (cli/frame/commands.def). */
extern const struct command *const command_table[];
extern const size_t command_table_count;

/** How many positional words the command needs, and how many it allows. */
size_t command_words_needed(const struct command *command);
size_t command_words_allowed(const struct command *command);

/** Make the call exit with 2 if `status` is an error: the command line was wrong. Returns `status`. */
weft_status command_misused(struct command_call *call, weft_status status);

/** After a call of the library with `context` (NULL: without one): put its message into `error` if `status` is an
 * error. Returns `status`. */
static inline weft_status command_check(weft_context *context, weft_status status, struct error *error)
{
    return status == WEFT_OK ? status : error_set(error, status, "%s", weft_message(context));
}

/** From now on SIGINT, SIGTERM and SIGHUP ask the command to stop: the returned number becomes the signal's. A second
 * signal ends the program. */
const volatile sig_atomic_t *interrupts_catch(void);

/**
 * Run the command that argv[1..] names in `table`, print errors to `errors` and return the exit code. main() calls it
 * with command_table and the standard streams.
 */
int command_main(const struct command *const *table, size_t count, int argc, char **argv, FILE *output, FILE *errors);

/** The entry of `table` called `name`. `where` is "weft" or "weft checkpoint", for the message. Errors: ARGUMENT, with
 * the nearest name, if there is none. */
weft_status command_find(const struct command *const *table, size_t count, const char *where, const char *name,
                         const struct command **command, struct error *error);

#endif
