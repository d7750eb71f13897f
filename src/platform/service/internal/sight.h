/* SPDX-License-Identifier: Apache-2.0 */
/** Which projects who asks may see, for an answer that tells of many: each is looked up about once. */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_SIGHT_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_SIGHT_H

#include "platform/access/identity.h"
#include "platform/store/database.h"

#define SIGHT_PROJECTS 64

/** Of one answer. Begun with `registry` (of the thread that answers) and `who`. */
struct sight {
    struct database *registry;
    const struct identity *who;
    struct {
        char project[PLATFORM_NAME_BYTES]; /* "": none yet */
        bool seen;
    } known[SIGHT_PROJECTS];
};

bool sight_has(struct sight *sight, const char *project);

#endif
