/* SPDX-License-Identifier: Apache-2.0 */
/** Starting the helper of a host: directly on this machine, by a remote-shell agent elsewhere. */
#ifndef WEFT_LAUNCH_AGENT_H
#define WEFT_LAUNCH_AGENT_H

#include "base/error.h"
#include "launch/order.h"

#include <stdbool.h>
#include <sys/types.h>

#define AGENT_DEFAULT "ssh -o BatchMode=yes -o ConnectTimeout=20"

/** A running agent, or the local helper itself. */
struct agent_process {
    pid_t process;
    int input;  /**< written: the helper's standard input */
    int output; /**< read: its standard output */
    int errors; /**< read: the agent's own messages; -1 for the local helper, which shares our standard error */
};

/** Whether `host` needs no agent: "localhost", and this machine's own name if the user has chosen no agent. */
bool agent_is_local(const char *host, bool chosen);

/** Split a remote shell and its options at spaces; a backslash before a space or a backslash makes it part of a word.
 * False: memory ran out. */
bool agent_words(const char *agent, struct string_list *words);

/** Append a word to such a text, with backslashes where it needs them. */
void agent_put_word(struct buffer *agent, const char *word);

/**
 * Start `executable` (weft, the same path on every host) as the helper on `host`: "weft COMMAND --node", where
 * `command` is "run" (node.h) or another that has such a helper. `agent` is the remote shell with its options, as
 * agent_words() divides it, called as ssh is: AGENT HOST COMMAND...; NULL: on this machine, for "run" and if `forks` as a fork
 * of this process, which must have no other threads yet. With `attach` it is a proxy for the helper of that name which runs
 * there already (succession.h). The agent leads a process group of its own, so that the terminal's
 * signals go to the launcher alone. Errors: SYSTEM, ARGUMENT when it cannot be run.
 */
weft_status agent_start(const char *agent, const char *host, const char *executable, const char *command, bool forks,
                        const char *attach, struct agent_process *process, struct error *error);

#endif
