/* SPDX-License-Identifier: Apache-2.0 */
/** What a process of a node finds when it begins, made before there is one. */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_ENVIRONMENT_H
#define WEFT_PLATFORM_AGENT_INTERNAL_ENVIRONMENT_H

#include "platform/agent/internal/process.h"

#include <pwd.h>

/** An environment, and what of it depends on where the process that finds it can go. */
struct node_environment {
    struct string_list entries;
    char *own;     /**< the directory of this executable, in PATH behind all others; NULL: it is not added */
    char *without; /**< the entry of PATH without it; NULL: there is none */
    uint32_t path; /**< which entry PATH is, the last one where there was none, if `own` is given */
};

/**
 * Make the environment that node_process_start() promises: of what this process has, or, for another `user`, of the
 * little of it that others may know. `more` ends with NULL, or is NULL. Errors: MEMORY.
 */
weft_status node_environment_make(const struct node_place *place, char *const *more, const struct passwd *user,
                                  struct node_environment *environment, struct error *error);

/**
 * In the child, as the user that it is from now on: have it. Nothing is allocated and no lock is taken, for the threads
 * that could give them back are not in the child.
 */
void node_environment_enter(const struct node_environment *environment);

void node_environment_free(struct node_environment *environment);

#endif
