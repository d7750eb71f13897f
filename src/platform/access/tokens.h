/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tokens of users. A token is "weft_ID_SECRET": 12 hexadecimal digits that name it in lists, logs and the audit log, and
 * 256 random bits (libsodium). It is shown once, when it is made. Stored is a BLAKE2b hash of it, compared in constant
 * time. A token may be limited to one project, allow less than its user may, and expire.
 *
 * The caller supplies the storage: `token_store` is three functions (access.h has them for SQLite). Times are seconds
 * since 1970.
 */
#ifndef WEFT_PLATFORM_ACCESS_TOKENS_H
#define WEFT_PLATFORM_ACCESS_TOKENS_H

#include "base/error.h"
#include "platform/access/identity.h"

#include <stddef.h>
#include <stdint.h>

#define TOKEN_ID_BYTES   13 /**< with its NUL, as are all of these */
#define TOKEN_TEXT_BYTES 64
#define TOKEN_HASH_BYTES 32
#define TOKEN_NOTE_BYTES 128

/** A token as it is stored. */
struct token_record {
    char id[TOKEN_ID_BYTES];
    uint8_t hash[TOKEN_HASH_BYTES];
    char user[PLATFORM_NAME_BYTES];
    char project[PLATFORM_NAME_BYTES]; /**< the only one it is for; "": all of the user's */
    enum role most;
    bool administrator;
    int64_t created, ends;       /**< ends: 0 for never */
    int64_t revoked;             /**< 0: it is not */
    char note[TOKEN_NOTE_BYTES]; /**< what it is for, written by its maker */
};

struct token_store {
    weft_status (*insert)(void *context, const struct token_record *record, struct error *error);
    /** False: no token has that id, or it cannot be read now. */
    bool (*find)(void *context, const char *id, struct token_record *record);
    /** Errors: ARGUMENT: no token has that id. */
    weft_status (*revoke)(void *context, const char *id, int64_t now, struct error *error);
    void *context;
};

/**
 * Make a token as `wanted` says, store it, and write it to `text`. Filled in are its id, hash, `created` and `revoked`.
 * Errors: ARGUMENT for a user or project that is no name, no role at all, or an end that has passed.
 */
weft_status tokens_make(const struct token_store *store, struct token_record *wanted, int64_t now,
                        char text[TOKEN_TEXT_BYTES], struct error *error);

/** Find the user of the token `text`. False: the token is unknown, expired or revoked. */
bool tokens_identify(const struct token_store *store, const char *text, int64_t now, struct identity *who);

/** Whether the token that identified `who` is still valid; brings `who` up to date. */
bool tokens_still(const struct token_store *store, int64_t now, struct identity *who);

weft_status tokens_revoke(const struct token_store *store, const char *id, int64_t now, struct error *error);

#endif
