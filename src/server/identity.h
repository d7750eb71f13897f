/* SPDX-License-Identifier: Apache-2.0 */
/** Who asks, and what somebody may do in a project. */
#ifndef WEFT_SERVER_IDENTITY_H
#define WEFT_SERVER_IDENTITY_H

#include <stdbool.h>

#define IDENTITY_NAME_BYTES 64 /**< names of users and projects, with their NUL */

/** What somebody may do in a project; each may do what those before it may. */
enum role {
    ROLE_NONE,    /**< not even see that it is there */
    ROLE_VIEWER,  /**< look */
    ROLE_MEMBER,  /**< submit, stop and enter runs */
    ROLE_MANAGER, /**< members and budgets */
};

struct identity {
    char user[IDENTITY_NAME_BYTES];
    char token[IDENTITY_NAME_BYTES];   /**< the public part of the token that was shown; "" without tokens */
    char project[IDENTITY_NAME_BYTES]; /**< the only project that the token is for; "": all of the user's */
    enum role most;                    /**< the most that the token allows in a project */
    bool administrator;                /**< every role in every project, users, nodes */
};

/** Whether `text` is a name: 1 to 63 letters, digits, '-', '_' and '.', the first a letter or a digit. */
bool name_is_valid(const char *text);

/** "viewer", "member", "manager"; "none". */
const char *role_name(enum role role);

/** The role of that name, or ROLE_NONE. */
enum role role_of_name(const char *name);

#endif
