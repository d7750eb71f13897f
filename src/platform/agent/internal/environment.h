/* SPDX-License-Identifier: Apache-2.0 */
/** The environment of a node's processes, made before they are started. */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_ENVIRONMENT_H
#define WEFT_PLATFORM_AGENT_INTERNAL_ENVIRONMENT_H

#include "platform/agent/internal/process.h"

#include <pwd.h>

/** An environment, and the part of it that depends on which directories the user can enter. */
struct node_environment {
    struct string_list entries;
    char *own;     /**< the directory of this executable, last in PATH; NULL: not added */
    char *without; /**< the entry of PATH without it; NULL: no PATH */
    uint32_t path; /**< index of PATH (the last entry if there was none), if `own` is set */
};

/**
 * Make the environment that node_process_start() describes, from this process's or, for another `user`, from the part of
 * it that is not private. `more` ends with NULL, or is NULL. Errors: MEMORY.
 */
weft_status node_environment_make(const struct node_place *place, char *const *more, const struct passwd *user,
                                  struct node_environment *environment, struct error *error);

/**
 * Enter it in the forked child, after the change of user. Allocates nothing and takes no lock: the threads that could
 * release one are not in the child.
 */
void node_environment_enter(const struct node_environment *environment);

void node_environment_free(struct node_environment *environment);

#endif
