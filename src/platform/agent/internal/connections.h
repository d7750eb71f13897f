/* SPDX-License-Identifier: Apache-2.0 */
/** An agent's side of platform/agent/link.h: who is connected, what they ask for, and the commands that run for them. */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_CONNECTIONS_H
#define WEFT_PLATFORM_AGENT_INTERNAL_CONNECTIONS_H

#include "platform/agent/internal/process.h"

#include <poll.h>
#include <stdbool.h>

#define NODE_CONNECTIONS_MOST 64

struct node_connection {
    int descriptor; /**< -1: closed, but its command still runs */
    bool used;
    struct buffer in;
    int passed[3]; /**< descriptors that came; -1: none */
    bool watches;
    bool guest;       /**< of the run's own user: it may have commands run, and no more */
    pid_t process;    /**< of its command; 0: none */
    uint64_t kill_at; /**< when that is killed; 0: not */
};

struct node_connections {
    const struct node_place *place;
    int listener;
    uid_t user; /**< whose processes the node runs */
    struct node_connection all[NODE_CONNECTIONS_MOST];
    bool woken; /**< somebody wants the orders to be looked at; the agent resets it */
};

/** Listen in the node's directory: to this process's user, root, and the user whose processes the node runs. */
weft_status node_connections_open(struct node_connections *connections, const struct node_place *place,
                                  struct error *error);

/** Fill in 1 + NODE_CONNECTIONS_MOST polls; act on them. */
void node_connections_watch(const struct node_connections *connections, struct pollfd *polls);
void node_connections_turn(struct node_connections *connections, const struct pollfd *polls);

/** A child has ended with this wait status; true if it was a connection's. */
bool node_connections_reap(struct node_connections *connections, pid_t process, int status);

/** Tell those who watch that the journal has more. */
void node_connections_nudge(struct node_connections *connections);

/** Whether anybody watches. */
bool node_connections_watched(const struct node_connections *connections);

/** Close all, and the listener. */
void node_connections_close(struct node_connections *connections);

#endif
