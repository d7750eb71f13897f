/* SPDX-License-Identifier: Apache-2.0 */
/* `weft exec` and `weft shell`: commands in a node of a run. */
#include "cli/frame/command.h"
#include "cli/platform/runs/node_session.h"

#include <unistd.h>

static struct {
    bool terminal;
    const char *shell;
} chosen;

static weft_status enter(struct command_call *call, char *const *command, bool terminal, struct error *error)
{
    const struct node_session_config config = {.place = call->words[0],
                                               .command = command,
                                               .terminal = terminal,
                                               .input = STDIN_FILENO,
                                               .output = STDOUT_FILENO};
    return node_session_run(&config, &call->exit_code, error);
}

static const struct cli_option exec_options[] = {
    CLI_FLAG("terminal", 't', &chosen.terminal, "give the command a terminal: for editors, debuggers, top"),
};

static weft_status enter_exec_run(struct command_call *call, struct error *error)
{
    if (!call->program_count)
        return command_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                               "there is no command to run: weft exec %s -- COMMAND and its arguments",
                                               call->words[0]));
    return enter(call, call->program, chosen.terminal, error);
}

const struct command command_exec = {
    .name = "exec",
    .group = COMMAND_PLATFORM,
    .summary = "run a command in a node of a run",
    .description =
        "Runs a command next to a run's own processes: on the node's host, in its directory, with its environment and "
        "slots, until the command or the node ends. Standard input, output and error are those of weft exec, and so is "
        "the exit code (128 plus the number of the signal that ended the command): 127 if there is no such command, "
        "125 if the node could not be reached, or the node or the server was lost.\n\n"
        "A node is written RUN/node-N, with N counted from 0; RUN alone means its first node. The owner of a run and "
        "managers of its project may run commands in it.\n\n"
        "The command gets SIGHUP when weft exec ends.",
    .examples = "weft exec 12/node-1 -- nvidia-smi\nweft exec 12 -- sh -c 'ls -l $WEFT_CHECKPOINT_DIR'\n"
                "weft exec --terminal 12 -- top\n",
    .words = "RUN[/node-N]",
    .takes_program = true,
    COMMAND_OPTIONS(exec_options),
    .run = enter_exec_run,
};

static const struct cli_option shell_options[] = {
    CLI_TEXT("shell", 0, "PROGRAM", &chosen.shell, NULL, "use this shell", .default_text = "bash, or sh without bash"),
};

static weft_status enter_shell_run(struct command_call *call, struct error *error)
{
    static char shell[] = "sh", letter[] = "-c", find[] = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    static char *usual[] = {shell, letter, find, NULL};
    char *given[] = {(char *)chosen.shell, NULL};
    return enter(call, chosen.shell ? given : usual, true, error);
}

const struct command command_shell = {
    .name = "shell",
    .group = COMMAND_PLATFORM,
    .summary = "open a shell in a node of a run",
    .description =
        "Opens a shell on the host of a node, in its directory, with its environment and slots, until the shell or the "
        "node ends. It has its own terminal, of the same size. The exit code is the shell's; 125 if the node could not "
        "be reached, or the node or the server was lost.\n\n"
        "A node is written RUN/node-N, with N counted from 0; RUN alone means its first node.",
    .examples = "weft shell 12\nweft shell 12/node-1\n",
    .words = "RUN[/node-N]",
    COMMAND_OPTIONS(shell_options),
    .run = enter_shell_run,
};
