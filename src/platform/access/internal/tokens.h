/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tokens of users: made, looked at, ended. A token is "weft_ID_SECRET": 12 hexadecimal digits that name it in lists,
 * logs and the audit log, and 256 random bits (libsodium). It is shown once, when it is made; kept is a BLAKE2b hash of
 * it, which is compared in constant time. It may be for one project, allow less than its user may, and end by itself.
 *
 * Where tokens are kept is the caller's: `token_store` is three functions (access.h has them for SQLite). Time
 * is given in seconds since 1970.
 */
#ifndef WEFT_PLATFORM_ACCESS_INTERNAL_TOKENS_H
#define WEFT_PLATFORM_ACCESS_INTERNAL_TOKENS_H

#include "base/error.h"
#include "platform/http/route/identity.h"

#include <stddef.h>
#include <stdint.h>

#define TOKEN_ID_BYTES   13 /**< with its NUL, as are all of these */
#define TOKEN_TEXT_BYTES 64
#define TOKEN_HASH_BYTES 32
#define TOKEN_NOTE_BYTES 128

/** What is kept of a token. */
struct token_record {
    char id[TOKEN_ID_BYTES];
    uint8_t hash[TOKEN_HASH_BYTES];
    char user[PLATFORM_NAME_BYTES];
    char project[PLATFORM_NAME_BYTES]; /**< the only one it is for; "": all of the user's */
    enum role most;
    bool administrator;
    int64_t created, ends;       /**< ends: 0 for never */
    int64_t revoked;             /**< 0: it is not */
    char note[TOKEN_NOTE_BYTES]; /**< what it is for, by whoever made it */
};

struct token_store {
    weft_status (*insert)(void *context, const struct token_record *record, struct error *error);
    /** False: there is none of that id, or it cannot be read now. */
    bool (*find)(void *context, const char *id, struct token_record *record);
    /** Errors: ARGUMENT: there is none of that id. */
    weft_status (*revoke)(void *context, const char *id, int64_t now, struct error *error);
    void *context;
};

/**
 * Make a token as `wanted` says (its id, hash and times but `ends` are filled in), keep it, and write it to `text`.
 * Errors: ARGUMENT for a user or project that is no name, no role at all, or an end that has passed.
 */
weft_status tokens_make(const struct token_store *store, struct token_record *wanted, int64_t now,
                        char text[TOKEN_TEXT_BYTES], struct error *error);

/** Whose token `text` is. False: nobody's, ended or revoked. */
bool tokens_identify(const struct token_store *store, const char *text, int64_t now, struct identity *who);

/** Whether the token that `who` was identified by would be known again, and as what. */
bool tokens_still(const struct token_store *store, int64_t now, struct identity *who);

weft_status tokens_revoke(const struct token_store *store, const char *id, int64_t now, struct error *error);

#endif
