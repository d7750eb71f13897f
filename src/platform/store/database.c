/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions, groups of transactions, and messages for SQLite's error codes. */
#include "platform/store/internal/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

weft_status database_error(struct database *database, int code, const char *action, struct error *error)
{
    const char *path = database->path;
    int number = database->handle ? sqlite3_system_errno(database->handle) : 0;
    const char *detail = database->handle ? sqlite3_errmsg(database->handle) : sqlite3_errstr(code);
    int kind = code & 0xff;
    if (kind == SQLITE_FULL || (kind == SQLITE_IOERR && (number == ENOSPC || number == EDQUOT)))
        return error_set(error, WEFT_ERROR_SYSTEM,
                         "%s '%s': the disk is full; what was there before is whole; free some space and try again",
                         action, path);
    switch (kind) {
    case SQLITE_NOMEM:
        return error_set(error, WEFT_ERROR_MEMORY, "%s '%s': not enough memory", action, path);
    case SQLITE_NOTADB:
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' is no SQLite database, or its header is damaged; nothing was changed in it; "
                         "choose another path, or move it away to start with an empty one",
                         path);
    case SQLITE_CORRUPT:
        return error_set(error, WEFT_ERROR_DATA,
                         "%s '%s': it is damaged (%s); restore a copy, or move it away to start with an empty one",
                         action, path, detail);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(error, WEFT_ERROR_SYSTEM,
                         "%s '%s': another process has been changing it for %d s; find out which (fuser '%s')", action,
                         path, DATABASE_BUSY_MS / 1000, path);
    case SQLITE_READONLY:
        return error_set(error, WEFT_ERROR_SYSTEM, "%s '%s': the file or its directory cannot be written", action,
                         path);
    case SQLITE_CONSTRAINT:
        return error_set(error, WEFT_ERROR_DATA, "%s '%s': %s", action, path, detail);
    default:
        if (number)
            return error_set(error, WEFT_ERROR_SYSTEM, "%s '%s': %s (%s)", action, path, detail, strerror(number));
        return error_set(error, WEFT_ERROR_SYSTEM, "%s '%s': %s", action, path, detail);
    }
}

weft_status database_script(struct database *database, const char *sql, const char *action, struct error *error)
{
    int code = sqlite3_exec(database->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? WEFT_OK : database_error(database, code, action, error);
}

/* Set whether SQLite syncs the commits that follow. */
static weft_status choose_sync(struct database *database, bool full, struct error *error)
{
    weft_status status = WEFT_OK;
    if (database->synchronous != full)
        status = database_script(database, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
                                 "cannot write to", error);
    if (status == WEFT_OK)
        database->synchronous = full;
    return status;
}

static weft_status open_transaction(struct database *database, enum database_durability durability, struct error *error)
{
    weft_status status = choose_sync(database, durability == DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    database->open = durability;
    database->changes_before = sqlite3_total_changes64(database->handle);
    database->changes_waiting = 0;
    return database_script(database, "BEGIN IMMEDIATE", "cannot write to", error);
}

/*
 * Commit the open transaction. SQLite must know before a transaction whether to sync it. If that was not known, it is
 * committed without a sync. If it then needs one, a durable transaction follows that only writes the schema version
 * again: a sync covers the whole log.
 */
static weft_status database_commit(struct database *database, struct error *error)
{
    const int64_t changes = sqlite3_total_changes64(database->handle) - database->changes_before;
    const bool needed = database->open == DATABASE_AS_NEEDED && changes != database->changes_waiting;
    char touch[64];
    weft_status status = database_script(database, "COMMIT", "cannot write to", error);
    if (status == WEFT_OK && needed)
        status = choose_sync(database, true, error);
    if (status != WEFT_OK || !needed)
        return status;
    snprintf(touch, sizeof touch, "BEGIN IMMEDIATE; PRAGMA user_version=%d; COMMIT", database->version);
    return database_script(database, touch, "cannot write to", error);
}

/* Undo the open transaction, unless SQLite has done that itself. */
static void undo(struct database *database)
{
    if (!sqlite3_get_autocommit(database->handle))
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
}

bool database_inside(const struct database *database)
{
    return database->inside;
}

weft_status database_begin(struct database *database, enum database_durability durability, struct error *error)
{
    weft_status status = WEFT_OK;
    if (database->inside)
        return error_set(error, WEFT_ERROR_STATE, "a transaction on '%s' is begun inside another", database->path);
    if (!database->group) {
        status = open_transaction(database, durability, error);
    } else if (database->group_error.status != WEFT_OK) {
        return error_set(error, database->group_error.status, "%s", database->group_error.text);
    } else {
        if (!database->group_open)
            status = open_transaction(database, database->group_durability, error);
        database->group_open |= status == WEFT_OK;
        if (status == WEFT_OK)
            status = database_script(database, "SAVEPOINT member", "cannot write to", error);
    }
    database->inside = status == WEFT_OK;
    return status;
}

/* End a member of a group. After a serious failure SQLite undoes the whole transaction, and so the whole group. */
static weft_status end_member(struct database *database, weft_status status, struct error *error)
{
    if (!sqlite3_get_autocommit(database->handle)) {
        if (status == WEFT_OK)
            status = database_script(database, "RELEASE member", "cannot write to", error);
        else if (sqlite3_exec(database->handle, "ROLLBACK TO member; RELEASE member", NULL, NULL, NULL) != SQLITE_OK)
            undo(database);
    }
    if (sqlite3_get_autocommit(database->handle)) {
        error_set(&database->group_error, status != WEFT_OK ? status : WEFT_ERROR_SYSTEM,
                  "%s: all changes to '%s' that waited for the same sync are undone",
                  status != WEFT_OK && error && *error->text ? error->text : "a write failed", database->path);
        status = error_set(error, database->group_error.status, "%s", database->group_error.text);
    }
    return status;
}

weft_status database_end(struct database *database, weft_status status, struct error *error)
{
    if (!database->inside)
        return error_set(error, WEFT_ERROR_STATE, "a transaction on '%s' ends that has not begun", database->path);
    database->inside = false;
    if (database->group)
        return end_member(database, status, error);
    if (status == WEFT_OK && sqlite3_get_autocommit(database->handle))
        status = error_set(error, WEFT_ERROR_SYSTEM, "a write to '%s' failed, so that all of its transaction is undone",
                           database->path);
    else if (status == WEFT_OK)
        status = database_commit(database, error);
    if (status != WEFT_OK)
        undo(database);
    return status;
}

void database_group_begin(struct database *database, enum database_durability durability)
{
    if (database->group || database->inside)
        return;
    database->group = true;
    database->group_durability = durability;
}

weft_status database_group_end(struct database *database, struct error *error)
{
    weft_status status = WEFT_OK;
    if (database->inside)
        return error_set(error, WEFT_ERROR_STATE, "a group of transactions on '%s' ends inside one", database->path);
    if (database->group_error.status != WEFT_OK)
        status = error_set(error, database->group_error.status, "%s", database->group_error.text);
    else if (database->group_open)
        status = database_commit(database, error);
    undo(database);
    database->group = database->group_open = false;
    error_clear(&database->group_error);
    return status;
}
