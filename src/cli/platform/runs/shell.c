/* SPDX-License-Identifier: Apache-2.0 */
/* `weft shell`: a shell in a node of a run. */
#include "cli/frame/command.h"
#include "cli/platform/runs/node_session.h"

static struct {
    const char *shell;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("shell", 0, "PROGRAM", &chosen.shell, NULL, "this shell instead of bash, or of sh where there is no bash"),
};

static weft_status shell_run(struct command_call *call, struct error *error)
{
    static char shell[] = "sh", letter[] = "-c", find[] = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    static char *usual[] = {shell, letter, find, NULL};
    char *given[] = {(char *)chosen.shell, NULL};
    return node_session_run(call->words[0], chosen.shell ? given : usual, true, &call->exit_code, error);
}

const struct command command_shell = {
    .name = "shell",
    .group = COMMAND_PLATFORM,
    .summary = "open a shell in a node of a run",
    .description =
        "Opens a shell where a node of a run is: on its host, in its directory, with its environment and its slots, for "
        "as long as the node runs; to look around, to debug. It has a terminal of its own, of this one's size. The "
        "exit code is the shell's; 125 where it could not be reached, or was lost with its node or the server.\n\n"
        "A node is written RUN/node-N, N from 0 on; a RUN alone means its first node.",
    .examples = "weft shell 12\nweft shell 12/node-1\n",
    .words = "RUN[/node-N]",
    COMMAND_OPTIONS(options),
    .run = shell_run,
};
