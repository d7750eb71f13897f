/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The database of tokens and of the audit log, a file of its own beside the platform's state, so that either can be
 * inspected, archived or removed by itself. One process has it open for writing (platform/store/database.h). Not
 * thread-safe: everything here belongs to the thread of the HTTP server.
 */
#ifndef WEFT_PLATFORM_ACCESS_ACCESS_H
#define WEFT_PLATFORM_ACCESS_ACCESS_H

#include "base/error.h"
#include "platform/access/tokens.h"
#include "platform/store/database.h"

/** Open the file at `path`, making it where there is none. database_close() closes it. */
weft_status access_open(const char *path, struct database **database, struct error *error);

/* ---- tokens ---- */

/** The most valid tokens of a user; making another one fails with STATE. Of the expired and revoked ones, the last so
 * many are kept. */
#define ACCESS_TOKENS_MOST 100

/** The tokens in the database, for tokens.h. A token is made or revoked durably when the call returns. */
struct token_store access_tokens(struct database *database);

/** Give every token, newest first and without its hash, to `each` until that returns false. `user`: only that user's;
 * NULL: all. */
weft_status access_list_tokens(struct database *database, const char *user,
                               bool (*each)(void *context, const struct token_record *record), void *context,
                               struct error *error);

/* ---- the audit log ---- */

#define AUDIT_WHAT_BYTES   64
#define AUDIT_TARGET_BYTES 256

/** What a user did or tried to do. Entries are never removed. */
struct audit_entry {
    int64_t number;                    /**< grows without gaps; filled in */
    int64_t time_ms;                   /**< since 1970 */
    char user[PLATFORM_NAME_BYTES];    /**< "" if unknown */
    char token[PLATFORM_NAME_BYTES];   /**< the id of the token; "" without one */
    char address[64];                  /**< where from */
    char project[PLATFORM_NAME_BYTES]; /**< "" if it concerns none */
    char what[AUDIT_WHAT_BYTES];       /**< the operation, as in the interface's document */
    char target[AUDIT_TARGET_BYTES];   /**< the path of the request, and route_call.detail, as far as there is room */
    unsigned status;                   /**< of the answer; 0: the server ended before it */
};

/** Store an entry; characters that cannot be printed are replaced. A power cut may lose the last entries, the end of the
 * process loses none. */
weft_status audit_add(struct database *database, const struct audit_entry *entry, struct error *error);

/** Which entries to list; zero or NULL: any. */
struct audit_filter {
    const char *user, *project;
    int64_t before; /**< number: only older entries, for the next page */
    int64_t since_ms;
    uint32_t most; /**< [100] */
};

/** Give entries, the newest first, to `each` until that returns false. */
weft_status audit_list(struct database *database, const struct audit_filter *filter,
                       bool (*each)(void *context, const struct audit_entry *entry), void *context,
                       struct error *error);

#endif
