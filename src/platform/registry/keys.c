/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/internal/keys.h"

#include "base/text.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <string.h>

weft_status registry_key_make(const char *text, const void *asked, size_t size, struct registry_key *key,
                              struct error *error)
{
    if (!*text || strlen(text) >= REGISTRY_KEY_BYTES || !text_is_printable(text, false))
        return error_set(error, WEFT_ERROR_DATA, "an idempotency key must have 1 to %d printable bytes",
                         REGISTRY_KEY_BYTES - 1);
    key->text = text;
    return sha256_of(asked, size, key->asked, error);
}

weft_status registry_key_find(struct database *database, const char *owner, const struct registry_key *key,
                              int64_t *run, struct error *error)
{
    bool same = true;
    int64_t found = 0;
    struct statement *select =
        database_prepare(database, "SELECT run, digest = ? FROM submissions WHERE owner = ? AND key = ?");
    statement_bind_blob(select, key->asked, sizeof key->asked);
    statement_bind_text(select, owner);
    statement_bind_text(select, key->text);
    if (statement_next(select))
        STATEMENT_READ(select, 0, &found, &same);
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !same)
        return error_set(error, WEFT_ERROR_STATE,
                         "the key '%s' was used for run %" PRId64 ", which is another one; take a new key", key->text,
                         found);
    if (status == WEFT_OK)
        *run = found;
    return status;
}

weft_status registry_key_keep(struct database *database, const char *owner, const struct registry_key *key, int64_t run,
                              int64_t now, struct error *error)
{
    struct statement *insert = DATABASE_QUERY(
        database, "INSERT INTO submissions (owner, key, digest, run, time) VALUES (?, ?, ?, ?, ?)", owner, key->text);
    statement_bind_blob(insert, key->asked, sizeof key->asked);
    statement_bind_integer(insert, run);
    statement_bind_integer(insert, now);
    return statement_run(insert, error);
}

weft_status registry_keys_forget(struct database *database, int64_t before, struct error *error)
{
    return DATABASE_RUN(database, error, "DELETE FROM submissions WHERE time < ?", before);
}
