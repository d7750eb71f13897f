/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/tokens.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define PREFIX       "weft_"
#define SECRET_BYTES 32
#define ID_DIGITS    (TOKEN_ID_BYTES - 1)
#define SECRET_TEXT  sodium_base64_ENCODED_LEN(SECRET_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING)

_Static_assert(sizeof PREFIX - 1 + ID_DIGITS + 1 + SECRET_TEXT <= TOKEN_TEXT_BYTES, "a token fits");

static void hash(const char *text, uint8_t digest[TOKEN_HASH_BYTES])
{
    crypto_generichash(digest, TOKEN_HASH_BYTES, (const uint8_t *)text, strlen(text), NULL, 0);
}

weft_status tokens_make(const struct token_store *store, struct token_record *wanted, int64_t now,
                        char text[TOKEN_TEXT_BYTES], struct error *error)
{
    uint8_t random[ID_DIGITS / 2 + SECRET_BYTES];
    char secret[SECRET_TEXT];
    if (!platform_name_is_valid(wanted->user))
        return error_set(error, WEFT_ERROR_ARGUMENT, "a token is for a user; '%s' is no name for one", wanted->user);
    if (*wanted->project && !platform_name_is_valid(wanted->project))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is no name of a project", wanted->project);
    if (wanted->most == ROLE_NONE)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a token without a role allows nothing: give it a role");
    if (wanted->administrator && *wanted->project)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a token for project '%s' alone cannot be an administrator's",
                         wanted->project);
    if (wanted->ends && wanted->ends <= now)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the end of a token has to be in the future");
    if (sodium_init() < 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(wanted->id, sizeof wanted->id, random, ID_DIGITS / 2);
    sodium_bin2base64(secret, sizeof secret, random + ID_DIGITS / 2, SECRET_BYTES,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    snprintf(text, TOKEN_TEXT_BYTES, PREFIX "%s_%s", wanted->id, secret);
    hash(text, wanted->hash);
    wanted->created = now;
    wanted->revoked = 0;
    sodium_memzero(random, sizeof random);
    sodium_memzero(secret, sizeof secret);
    weft_status status = store->insert(store->context, wanted, error);
    if (status != WEFT_OK)
        sodium_memzero(text, TOKEN_TEXT_BYTES);
    return status;
}

/* The user of a token. False: it is revoked or has expired. */
static bool tokens_admit(const struct token_record *record, int64_t now, struct identity *who)
{
    if (record->revoked || (record->ends && now >= record->ends))
        return false;
    *who = (struct identity){.most = record->most, .administrator = record->administrator, .ends = record->ends};
    memcpy(who->user, record->user, sizeof who->user);
    memcpy(who->project, record->project, sizeof who->project);
    memcpy(who->token, record->id, sizeof record->id);
    return true;
}

bool tokens_still(const struct token_store *store, int64_t now, struct identity *who)
{
    struct token_record record;
    return store->find(store->context, who->token, &record) && tokens_admit(&record, now, who);
}

bool tokens_identify(const struct token_store *store, const char *text, int64_t now, struct identity *who)
{
    struct token_record record;
    uint8_t digest[TOKEN_HASH_BYTES];
    char id[TOKEN_ID_BYTES];
    const size_t prefix = sizeof PREFIX - 1;
    if (strlen(text) != prefix + ID_DIGITS + SECRET_TEXT || strncmp(text, PREFIX, prefix) != 0 ||
        text[prefix + ID_DIGITS] != '_')
        return false;
    snprintf(id, sizeof id, "%s", text + prefix);
    if (strspn(id, "0123456789abcdef") != ID_DIGITS || !store->find(store->context, id, &record))
        return false;
    hash(text, digest);
    return sodium_memcmp(digest, record.hash, sizeof digest) == 0 && tokens_admit(&record, now, who);
}

weft_status tokens_revoke(const struct token_store *store, const char *id, int64_t now, struct error *error)
{
    return store->revoke(store->context, id, now, error);
}
