/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/sessions.h"

#include "platform/access/access.h"
#include "platform/store/query.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define ID_DIGITS    (IDENTITY_SESSION_BYTES - 1)
#define SECRET_BYTES 32
#define SECRET_TEXT  sodium_base64_ENCODED_LEN(SECRET_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING)
#define HASH_BYTES   32

_Static_assert(ID_DIGITS + 1 + SECRET_TEXT <= SESSION_COOKIE_BYTES, "a cookie fits");
_Static_assert(SECRET_TEXT <= SESSION_KEY_BYTES, "a key fits");
_Static_assert(SECRET_TEXT - 1 >= crypto_generichash_KEYBYTES_MIN && SECRET_TEXT - 1 <= crypto_generichash_KEYBYTES_MAX,
               "a key is one for the hash");

static void hash_session(const char *cookie, const char *key, uint8_t digest[HASH_BYTES])
{
    crypto_generichash(digest, HASH_BYTES, (const uint8_t *)cookie, strlen(cookie), (const uint8_t *)key, strlen(key));
}

static void draw_secret(char text[SECRET_TEXT])
{
    uint8_t random[SECRET_BYTES];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(text, SECRET_TEXT, random, sizeof random, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(random, sizeof random);
}

/* Remove sessions that have ended, and the oldest of the token if there are too many. */
static weft_status sessions_forget(struct database *access, const char *token, int64_t now, struct error *error)
{
    return DATABASE_RUN(access, error,
                        "DELETE FROM sessions WHERE ends <= ?2 OR id IN (SELECT id FROM sessions WHERE token = ?1"
                        " ORDER BY ends DESC, id LIMIT -1 OFFSET ?3)",
                        token, now, SESSIONS_MOST - 1);
}

static weft_status insert_session(struct database *access, const char *id, const uint8_t digest[HASH_BYTES],
                                  const char *token, int64_t peer, int64_t ends, struct error *error)
{
    struct statement *statement = DATABASE_QUERY(
        access, "INSERT INTO sessions (id, token, peer, ends, hash) VALUES (?, ?, ?, ?, ?)", id, token, peer, ends);
    statement_bind_blob(statement, digest, HASH_BYTES);
    return statement_run(statement, error);
}

weft_status sessions_begin(struct database *access, const struct identity *who, int64_t peer, int64_t now,
                           struct session *made, struct error *error)
{
    char id[IDENTITY_SESSION_BYTES], secret[SECRET_TEXT];
    uint8_t random[ID_DIGITS / 2], digest[HASH_BYTES];
    if (sodium_init() < 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(id, sizeof id, random, sizeof random);
    draw_secret(secret);
    draw_secret(made->key);
    snprintf(made->cookie, sizeof made->cookie, "%s_%s", id, secret);
    sodium_memzero(secret, sizeof secret);
    hash_session(made->cookie, made->key, digest);
    made->ends = now + SESSION_SECONDS;
    if (who->ends && who->ends < made->ends)
        made->ends = who->ends;
    weft_status status = database_begin(access, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = sessions_forget(access, who->token, now, error);
    if (status == WEFT_OK)
        status = insert_session(access, id, digest, who->token, peer, made->ends, error);
    return database_end(access, status, error);
}

struct session_record {
    uint8_t hash[HASH_BYTES];
    char token[PLATFORM_NAME_BYTES];
    int64_t peer;
};

static bool find_session(struct database *access, const char *id, int64_t now, struct session_record *record)
{
    size_t size = 0;
    struct statement *select =
        DATABASE_QUERY(access, "SELECT hash, token, peer FROM sessions WHERE id = ? AND ends > ?", id, now);
    bool found = statement_next(select);
    const void *hash = found ? statement_blob(select, 0, &size) : NULL;
    found = hash && size == sizeof record->hash;
    if (found) {
        memcpy(record->hash, hash, size);
        STATEMENT_READ(select, 1, record->token, &record->peer);
    }
    return statement_end(select, NULL) == WEFT_OK && found;
}

/* Fill in `who` as the token of the session allows now. False: the token is not valid any more. */
static bool admit_session(struct database *access, const char *id, const char *token, int64_t now, struct identity *who)
{
    const struct token_store store = access_tokens(access);
    snprintf(who->token, sizeof who->token, "%s", token);
    if (!tokens_still(&store, now, who))
        return false;
    snprintf(who->session, sizeof who->session, "%s", id);
    return true;
}

bool sessions_identify(struct database *access, const char *cookie, const char *key, int64_t peer, int64_t now,
                       struct identity *who)
{
    char id[IDENTITY_SESSION_BYTES];
    uint8_t digest[HASH_BYTES];
    struct session_record record;
    if (strlen(cookie) != ID_DIGITS + SECRET_TEXT || cookie[ID_DIGITS] != '_' || strlen(key) != SECRET_TEXT - 1)
        return false;
    memcpy(id, cookie, ID_DIGITS);
    id[ID_DIGITS] = '\0';
    if (strspn(id, "0123456789abcdef") != ID_DIGITS || !find_session(access, id, now, &record))
        return false;
    hash_session(cookie, key, digest);
    return sodium_memcmp(digest, record.hash, sizeof digest) == 0 && record.peer == peer &&
           admit_session(access, id, record.token, now, who);
}

bool sessions_still(struct database *access, int64_t now, struct identity *who)
{
    char id[IDENTITY_SESSION_BYTES];
    struct session_record record;
    memcpy(id, who->session, sizeof id);
    return find_session(access, id, now, &record) && admit_session(access, id, record.token, now, who);
}

weft_status sessions_end(struct database *access, const struct identity *who, struct error *error)
{
    weft_status status = database_begin(access, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = DATABASE_RUN(access, error, "DELETE FROM sessions WHERE id = ?", who->session);
    return database_end(access, status, error);
}
