/* SPDX-License-Identifier: Apache-2.0 */
/* `weft exec`: a command in a node of a run. */
#include "cli/frame/command.h"
#include "cli/platform/runs/node_session.h"

#define EXIT_MISUSED 2

static struct {
    bool terminal;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("terminal", 't', &chosen.terminal, "give the command a terminal: for editors, debuggers, top"),
};

static weft_status runs_exec_run(struct command_call *call, struct error *error)
{
    if (!call->program_count) {
        call->exit_code = EXIT_MISUSED;
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is no command to run: weft exec %s -- COMMAND and its arguments", call->words[0]);
    }
    return node_session_run(call->words[0], call->program, chosen.terminal, &call->exit_code, error);
}

const struct command command_exec = {
    .name = "exec",
    .group = COMMAND_PLATFORM,
    .summary = "run a command in a node of a run, beside its own",
    .description =
        "Runs a command where a node of a run is: on its host, in its directory, with its environment and its slots, for "
        "as long as the node runs. Standard input, output and error are this command's own, and its exit code is that "
        "of the command (128 and the number of the signal that ended it); 127 where there is no such command, 125 "
        "where it could not be reached, or was lost with its node or the server.\n\n"
        "A node is written RUN/node-N, N from 0 on; a RUN alone means its first node. The owner of a run and managers "
        "of its project may run commands in it.\n\n"
        "The command gets SIGHUP when this one ends.",
    .examples = "weft exec 12/node-1 -- nvidia-smi\nweft exec 12 -- sh -c 'ls -l $WEFT_CHECKPOINT_DIR'\n"
                "weft exec --terminal 12 -- top\n",
    .words = "RUN[/node-N]",
    .takes_program = true,
    COMMAND_OPTIONS(options),
    .run = runs_exec_run,
};
