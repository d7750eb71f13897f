/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/access.h"

#include "platform/store/query.h"

#include <string.h>

#define APPLICATION 0x57464143 /* "WFAC" */

static const char *const migrations[] = {
    "CREATE TABLE tokens ("
    " id TEXT PRIMARY KEY, hash BLOB NOT NULL CHECK (length(hash) = 32), user TEXT NOT NULL, project TEXT NOT NULL,"
    " role TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'manager')),"
    " administrator INTEGER NOT NULL CHECK (administrator IN (0, 1)),"
    " created INTEGER NOT NULL, ends INTEGER NOT NULL, revoked INTEGER NOT NULL, note TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX tokens_by_user ON tokens (user, created);"
    "CREATE TABLE audit ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, user TEXT NOT NULL, token TEXT NOT NULL,"
    " address TEXT NOT NULL, project TEXT NOT NULL, what TEXT NOT NULL, target TEXT NOT NULL, status INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX audit_by_user ON audit (user, number);"
    "CREATE INDEX audit_by_project ON audit (project, number);"
    "CREATE INDEX audit_by_time ON audit (time_ms);",
    "CREATE TABLE sessions ("
    " id TEXT PRIMARY KEY, hash BLOB NOT NULL CHECK (length(hash) = 32), token TEXT NOT NULL, peer INTEGER NOT NULL,"
    " ends INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX sessions_by_token ON sessions (token, ends);",
};

weft_status access_open(const char *path, struct database **database, struct error *error)
{
    static const struct database_schema schema = {.what = "tokens and the audit log",
                                                  .application = APPLICATION,
                                                  .migrations = migrations,
                                                  .version = sizeof migrations / sizeof *migrations};
    return database_open(path, &schema, DATABASE_WRITER, database, error);
}

/* ---- tokens ---- */

#define IN_FORCE "(revoked = 0 AND (ends = 0 OR ends > ?2))"

/* Whether a user may have one more token. Of their expired and revoked ones, the last are kept. */
static weft_status access_make_room(struct database *database, const struct token_record *record, struct error *error)
{
    int64_t count = 0;
    weft_status status =
        statement_end_integer(DATABASE_QUERY(database, "SELECT count(*) FROM tokens WHERE user = ?1 AND " IN_FORCE,
                                             record->user, record->created),
                              &count, error);
    if (status == WEFT_OK && count >= ACCESS_TOKENS_MOST)
        status = error_set(error, WEFT_ERROR_STATE,
                           "'%s' has %d tokens that are still valid, the maximum for a user: revoke those that "
                           "are not needed ('weft token list' names them)",
                           record->user, ACCESS_TOKENS_MOST);
    if (status != WEFT_OK)
        return status;
    return DATABASE_RUN(database, error,
                        "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE user = ?1 AND NOT " IN_FORCE
                        " ORDER BY created DESC, id LIMIT -1 OFFSET ?3)",
                        record->user, record->created, ACCESS_TOKENS_MOST);
}

static weft_status access_insert(void *context, const struct token_record *record, struct error *error)
{
    struct database *database = context;
    weft_status status = database_begin(database, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = access_make_room(database, record, error);
    if (status != WEFT_OK)
        return database_end(database, status, error);
    struct statement *insert =
        DATABASE_QUERY(database,
                       "INSERT INTO tokens (id, user, project, role, administrator, created, ends, revoked, note, hash)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       record->id, record->user, record->project, role_name(record->most), record->administrator,
                       record->created, record->ends, record->revoked, record->note);
    statement_bind_blob(insert, record->hash, sizeof record->hash);
    return database_end(database, statement_run(insert, error), error);
}

#define TOKEN_COLUMNS "id, user, project, role, administrator, created, ends, revoked, note, hash"

static void access_read_token(struct statement *row, struct token_record *record)
{
    size_t size = 0;
    char role[16];
    STATEMENT_READ(row, 0, record->id, record->user, record->project, role, &record->administrator, &record->created,
                   &record->ends, &record->revoked, record->note);
    if (!role_find(role, &record->most))
        record->most = ROLE_NONE;
    const void *hash = statement_blob(row, 9, &size);
    if (hash && size == sizeof record->hash)
        memcpy(record->hash, hash, size);
    else
        record->revoked = 1; /* damaged: nobody can use it */
}

static bool access_find(void *context, const char *id, struct token_record *record)
{
    struct statement *select = DATABASE_QUERY(context, "SELECT " TOKEN_COLUMNS " FROM tokens WHERE id = ?", id);
    bool found = statement_next(select);
    if (found)
        access_read_token(select, record);
    return statement_end(select, NULL) == WEFT_OK && found;
}

static weft_status end_token(void *context, const char *id, int64_t now, struct error *error)
{
    struct database *database = context;
    weft_status status = database_begin(database, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    /* Revoking a token again changes nothing. */
    status =
        DATABASE_RUN(database, error,
                     "UPDATE tokens SET revoked = CASE WHEN revoked = 0 THEN ? ELSE revoked END WHERE id = ?", now, id);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no token '%s'", id);
    return database_end(database, status, error);
}

struct token_store access_tokens(struct database *database)
{
    return (struct token_store){.insert = access_insert, .find = access_find, .revoke = end_token, .context = database};
}

weft_status access_list_tokens(struct database *database, const char *user,
                               bool (*each)(void *context, const struct token_record *record), void *context,
                               struct error *error)
{
    struct statement *select = DATABASE_QUERY(database,
                                              "SELECT " TOKEN_COLUMNS " FROM tokens"
                                              " WHERE ?1 IS NULL OR user = ?1 ORDER BY created DESC, id",
                                              user);
    bool more = true;
    while (more && statement_next(select)) {
        struct token_record record = {0};
        access_read_token(select, &record);
        memset(record.hash, 0, sizeof record.hash);
        more = each(context, &record);
    }
    return statement_end(select, error);
}
