/* SPDX-License-Identifier: Apache-2.0 */
/** What somebody may do in a project. Thread-safe. */
#ifndef WEFT_PLATFORM_REGISTRY_ROLE_H
#define WEFT_PLATFORM_REGISTRY_ROLE_H

#include <stdbool.h>

/** Each may do what those before it may. */
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
