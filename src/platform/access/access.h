/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The database of who may come in and who did what: tokens and the audit log, in a file of their own beside the
 * platform's state, so that either can be looked at, kept or thrown away by itself. One process has it open to write
 * (platform/store/database.h); everything here belongs to one thread, the HTTP server's.
 */
#ifndef WEFT_PLATFORM_ACCESS_ACCESS_H
#define WEFT_PLATFORM_ACCESS_ACCESS_H

#include "base/error.h"
#include "platform/access/internal/tokens.h"
#include "platform/http/route/identity.h"
#include "platform/http/route/route.h"
#include "platform/store/database.h"

/** Open the file at `path`, making it where there is none. database_close() closes it. */
weft_status access_open(const char *path, struct database **database, struct error *error);

/* ---- tokens ---- */

/** So many tokens of a user may be in force at once (making another one is STATE); of those that are over, the last so
 * many are kept. */
#define ACCESS_TOKENS_MOST 100

/** The tokens in the database, for tokens.h. Making and revoking one is durable when it returns. */
struct token_store access_tokens(struct database *database);

/** Give every token, the newest first (without its hash), to `each` until that returns false; `user`: only that user's,
 * NULL: all. */
weft_status access_list_tokens(struct database *database, const char *user,
                               bool (*each)(void *context, const struct token_record *record), void *context,
                               struct error *error);

/* ---- the audit log ---- */

#define AUDIT_WHAT_BYTES   64
#define AUDIT_TARGET_BYTES 256

/** What somebody did, or tried to. Entries are kept for good. */
struct audit_entry {
    int64_t number;                    /**< grows without gaps; filled in */
    int64_t time_ms;                   /**< since 1970 */
    char user[PLATFORM_NAME_BYTES];    /**< "" where nobody was known */
    char token[PLATFORM_NAME_BYTES];   /**< the id of the token; "" without one */
    char address[64];                  /**< where from */
    char project[PLATFORM_NAME_BYTES]; /**< "" where it concerns none */
    char what[AUDIT_WHAT_BYTES];       /**< the operation, as in the interface's document */
    char target[AUDIT_TARGET_BYTES];   /**< the path of the request, and route_call.detail, as far as there is room */
    unsigned status;                   /**< of the answer; 0: the server ended before there was one */
};

/** The entry of a call that was answered with `status` (router_access.answered), now. */
void audit_describe(const struct route_call *call, unsigned status, struct audit_entry *entry);

/** Keep an entry, as far as its texts can be printed. A power cut may take the last ones; the end of the process takes
 * none. */
weft_status audit_add(struct database *database, const struct audit_entry *entry, struct error *error);

/** Which entries are looked for; zero or NULL: any. */
struct audit_filter {
    const char *user, *project;
    int64_t before; /**< number: only older ones, to go on behind a page */
    int64_t since_ms;
    uint32_t most; /**< [100] */
};

/** Give entries, the newest first, to `each` until that returns false. */
weft_status audit_list(struct database *database, const struct audit_filter *filter,
                       bool (*each)(void *context, const struct audit_entry *entry), void *context,
                       struct error *error);

#endif
