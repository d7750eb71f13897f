/* SPDX-License-Identifier: Apache-2.0 */
/** Processes of a node: starting them in its context, and finding all of them again. */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_PROCESS_H
#define WEFT_PLATFORM_AGENT_INTERNAL_PROCESS_H

#include "platform/agent/cgroup/cgroup.h"
#include "platform/agent/order.h"

#include <sys/types.h>

/** The context that a node's processes run in. */
struct node_place {
    const struct node_order *order;
    const char *directory; /**< the node's (platform/agent/order.h) */
    const struct cgroup *cgroup;
    const struct string_list *secrets; /**< "VARIABLE=VALUE", which no order has; NULL: none */
};

/**
 * Start `command` (ends with NULL) in the node's context, with three descriptors as its standard ones. It leads a
 * process group of its own, or with `terminal` a session whose terminal these descriptors are; it dies with this
 * process (PR_SET_PDEATHSIG); it begins with default signals, in order->directory, as order->user, with all groups of that
 * one and no way back, and finds in its environment what the agent has, order->environment, `more` (ends with NULL, or
 * is NULL), and what follows. Of the agent's, another user's finds PATH, TZ, LD_LIBRARY_PATH and what says the
 * language, and its own HOME, USER, LOGNAME and SHELL. It is kept to order->limits (platform/agent/limits.h).
 *
 *     WEFT_RUN, WEFT_ATTEMPT      the run's name; the epoch of the attempt
 *     WEFT_NODE, WEFT_NODES       which node of how many
 *     WEFT_NODE_HOSTS             "a:8,b:8": hosts and slots of all nodes, as `weft run --hosts` takes them
 *     WEFT_SLOTS                  "0,1": the slots of this node on its host
 *     CUDA_VISIBLE_DEVICES        the same if they are GPUs, otherwise empty
 *     CUDA_DEVICE_ORDER           "PCI_BUS_ID" if they are: slot n is GPU n of that order
 *     WEFT_GRACE                  seconds to write a checkpoint in (four fifths of the grace period), unless given
 *     WEFT_METRICS                a file: lines of metrics appended to it are collected
 *     WEFT_NODE_DIRECTORY            the node's directory: what its processes are known by
 *     PATH                        as it was, and at its end the directory of this executable: the weft that serves is
 *                                 found where no other one is
 *
 * Errors: SYSTEM; DATA when the command itself cannot be run, or another user cannot enter the directory; ARGUMENT when
 * there is no such user or directory.
 */
weft_status node_process_start(const struct node_place *place, char *const *command, char *const *more, bool terminal,
                               const int descriptors[3], pid_t *process, struct error *error);

/** The number of order->user; this process's where there is none such. */
uid_t node_process_user(const struct node_place *place);

/** Let the processes of order->user open a pipe that they have inherited by its name, as /dev/stderr. */
void node_process_give(const struct node_place *place, int pipe);

/** Whether a process that has just sent a signal is one of the node in `directory`; one that is gone may have been. */
bool node_process_may_be_of(const char *directory, pid_t process);

/**
 * Kill all processes whose environment names the node's directory, wherever they are by now: those of an agent that was
 * killed itself. A process that has cleared its environment escapes this, not a cgroup. Returns how many there were.
 */
int node_process_sweep(const char *directory);

#endif
