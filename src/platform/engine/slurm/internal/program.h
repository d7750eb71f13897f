/* SPDX-License-Identifier: Apache-2.0 */
/** Running one of Slurm's programs, here or on the login node, and reading what it printed. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PROGRAM_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PROGRAM_H

#include "base/buffer.h"
#include "base/error.h"
#include "platform/engine/slurm/commands.h"

#include <stdbool.h>
#include <stdint.h>

#define SLURM_PROGRAM_SECONDS      20.0
#define SLURM_PROGRAM_OUTPUT_BYTES (256u << 20) /**< more than this is an error */

struct slurm_commands {
    char *login;             /**< NULL: programs run here */
    char *partition;         /**< NULL: Slurm's default */
    char *default_partition; /**< its name; NULL: not known yet */
    double limit;            /**< seconds for one program */
};

/** What to run. */
struct slurm_program {
    const char *const *words;     /**< the program's name and its arguments; ends with NULL */
    const char *const *variables; /**< "NAME=VALUE" added to its environment; ends with NULL; NULL: none */
    const char *input;            /**< text on its standard input; NULL: none */
    bool submits;                 /**< only variables that jobs may see are in its environment, if it runs here */
};

/** What came of it. A zeroed struct is empty. */
struct slurm_output {
    struct buffer text, errors; /**< standard output and error output */
    int code;                   /**< exit code; 128 and the signal's number if it was killed by one */
    bool missing;               /**< there is no such program */
};

/**
 * Run it until it ends, or until the limit: then it is killed. Output that its children print later is not waited for.
 * `output` is to be freed in any case.
 *
 * Errors: SYSTEM if it took too long, or processes cannot be started, or ssh failed; DATA if it printed too much;
 * MEMORY. A program that fails or is missing is no error here.
 */
weft_status slurm_program_run(const struct slurm_commands *commands, const struct slurm_program *program,
                              struct slurm_output *output, struct error *error);

/** slurm_program_run(), and a failure of the program is slurm_program_failure() with SYSTEM. */
weft_status slurm_program_read(const struct slurm_commands *commands, const char *const *words,
                               const char *const *variables, struct slurm_output *output, struct error *error);

void slurm_output_free(struct slurm_output *output);

/** Set an error that quotes the error output of a program that failed. Returns `status`. */
weft_status slurm_program_failure(const struct slurm_commands *commands, const char *name, struct slurm_output *output,
                                  weft_status status, struct error *error);

/**
 * Ask Slurm whether the configured partition exists, or for its default one (commands->default_partition). Errors:
 * ARGUMENT if there is no such partition; SYSTEM; MEMORY.
 */
weft_status slurm_partition_find(struct slurm_commands *commands, struct error *error);

/** Whether a command that failed with this error output may succeed later with the same arguments. */
bool slurm_failure_is_temporary(const char *errors);

/** " on user@host" if programs run there, otherwise "". For messages. */
const char *slurm_where(const struct slurm_commands *commands, char *text, size_t room);

/** How many GPUs a list of generic resources has: "gpu:a100:4(S:0-1),shard:8", "gres:gpu:2", "gres/gpu=2", "N/A". */
uint32_t slurm_gpu_count(const char *resources);

/** `text`, or "" where Slurm prints "(null)", "N/A" or "None" for nothing. */
const char *slurm_value(const char *text);

#endif
