/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the platform knows: one database (platform/store/database.h) of users, projects, runs, hosts and the ledger.
 *
 *     platform/registry/projects.h   users, projects, members and their roles
 *     platform/registry/run/runs.h       runs, attempts, nodes, and every change as an event
 *     platform/registry/run/list.h   looking runs up by what people ask for
 *     platform/registry/hosts.h      Pods and hosts
 *     ledger.h              budgets
 *
 * Rules of all of them:
 * - What changes something is called inside a transaction that the caller began, so that changes which belong together
 *   (a placement and the hold of its budget) are one. If it fails, database_end() with its status undoes all of it.
 * - What only reads may be called anywhere.
 * - Time is the caller's: milliseconds since 1970 as `now`, so that a virtual clock serves as well.
 * - Errors: ARGUMENT where there is no such user, project, run or host; STATE where a change is not allowed now; DATA
 *   where a value is not acceptable; besides those of the database.
 */
#ifndef WEFT_PLATFORM_REGISTRY_REGISTRY_H
#define WEFT_PLATFORM_REGISTRY_REGISTRY_H

#include "platform/store/database.h"

#define REGISTRY_FILE         "platform.db"
#define REGISTRY_DETAIL_BYTES 512 /**< a message of an event; longer ones are cut */

/** The tables of the platform. Migrations are only ever added at the end. */
extern const struct database_schema registry_schema;

/** database_open() of REGISTRY_FILE in `directory`. */
weft_status registry_open(const char *directory, enum database_access access, struct database **database,
                          struct error *error);

#define REGISTRY_IDENTITY_BYTES 33

/** Which platform this is. A database can be lost, or be an older copy, while files and metrics of its runs remain. */
struct registry_platform {
    char identity[REGISTRY_IDENTITY_BYTES]; /**< 32 random letters and digits, made with the database */
    bool adopts; /**< it had runs before it had an identity: what names no platform is its own */
};

weft_status registry_platform_get(struct database *database, struct registry_platform *platform, struct error *error);

/** Make the number of the next run exceed `run`. `*last`: the number it would have exceeded otherwise. */
weft_status registry_number_above(struct database *database, int64_t run, int64_t *last, struct error *error);

#endif
