/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Names of projects, users, classes, hosts and Pods: one rule for all; and the roles of users in projects.
 * Thread-safe.
 */
#ifndef WEFT_PLATFORM_REGISTRY_NAME_H
#define WEFT_PLATFORM_REGISTRY_NAME_H

#include "base/error.h"

#include <stdbool.h>

#define PLATFORM_NAME_BYTES 64 /**< with the final NUL */

/** Whether `name` has 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit. */
bool platform_name_is_valid(const char *name);

/** The same with a message, in which `what` says what it names. Errors: DATA. */
weft_status platform_name_check(const char *name, const char *what, struct error *error);

/** What somebody may do in a project; each role includes those before it. */
enum role {
    ROLE_NONE,    /**< not even see that it is there */
    ROLE_VIEWER,  /**< look */
    ROLE_MEMBER,  /**< submit runs, stop and enter their own */
    ROLE_MANAGER, /**< stop any run of it, have members and budget in hand */
};

/** "none", "viewer", "member", "manager"; a static string. */
const char *role_name(enum role role);

/** The role of that name ("none" too); false if there is none. */
bool role_find(const char *name, enum role *role);

#endif
