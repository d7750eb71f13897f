/* SPDX-License-Identifier: Apache-2.0 */
/** Who asks. */
#ifndef WEFT_SERVER_IDENTITY_H
#define WEFT_SERVER_IDENTITY_H

#include "platform/name.h"
#include "platform/role.h"

struct identity {
    char user[PLATFORM_NAME_BYTES];
    char token[PLATFORM_NAME_BYTES];   /**< the public part of the token that was shown; "" without tokens */
    char project[PLATFORM_NAME_BYTES]; /**< the only project that the token is for; "": all of the user's */
    enum role most;                    /**< the most that the token allows in a project */
    bool administrator;                /**< every role in every project, users, nodes */
};

#endif
