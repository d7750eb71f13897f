/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/sight.h"

#include "base/hash.h"
#include "platform/service/internal/service_state.h"

#include <stdio.h>
#include <string.h>

bool sight_has(struct sight *sight, const char *project)
{
    const size_t place = hash_text(project, 0) % SIGHT_PROJECTS;
    if (strcmp(sight->known[place].project, project) != 0 || !*project) {
        snprintf(sight->known[place].project, PLATFORM_NAME_BYTES, "%s", project);
        sight->known[place].seen = service_may_see(sight->registry, sight->who, project);
    }
    return sight->known[place].seen;
}
