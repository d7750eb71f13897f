/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a database in use, as of one point in time. */
#include "platform/store/internal/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static weft_status copy_fails(sqlite3 *handle, const char *path, const char *target, struct error *error)
{
    const int code = sqlite3_errcode(handle) & 0xff;
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return error_set(error, damaged ? WEFT_ERROR_DATA : WEFT_ERROR_SYSTEM, "cannot copy the database '%s' to '%s': %s",
                     path, target, sqlite3_errmsg(handle));
}

static weft_status open_plainly(const char *path, int flags, sqlite3 **handle, struct error *error)
{
    char plain[FILE_PATH_BYTES + 2]; /* not a URI */
    snprintf(plain, sizeof plain, "%s%s", *path == '/' ? "" : "./", path);
    if (sqlite3_open_v2(plain, handle, flags | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_SYSTEM, "cannot open the database '%s': %s", path,
                     *handle ? sqlite3_errmsg(*handle) : "out of memory");
}

/* Damaged pages are copied as they are. */
static weft_status check_copy(sqlite3 *handle, const char *path, struct error *error)
{
    sqlite3_stmt *check = NULL;
    weft_status status = WEFT_OK;
    sqlite3_prepare_v2(handle, "PRAGMA quick_check(1)", -1, &check, NULL);
    const char *found = sqlite3_step(check) == SQLITE_ROW ? (const char *)sqlite3_column_text(check, 0) : NULL;
    if (!found || strcmp(found, "ok") != 0)
        status = error_set(error, WEFT_ERROR_DATA, "the database '%s' is damaged: %s", path,
                           found ? found : sqlite3_errmsg(handle));
    sqlite3_finalize(check);
    return status;
}

weft_status database_copy(const char *path, const char *target, struct error *error)
{
    sqlite3 *from = NULL, *to = NULL;
    const int made = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0)
        return error_system(error, "cannot create the database '%s'", target);
    close(made);
    weft_status status = open_plainly(path, SQLITE_OPEN_READONLY, &from, error);
    if (status == WEFT_OK)
        status = open_plainly(target, SQLITE_OPEN_READWRITE, &to, error);
    if (status == WEFT_OK) {
        sqlite3_busy_timeout(from, DATABASE_BUSY_MS);
        /* All pages in one step are one transaction of a reader: the writer goes on, and its log grows meanwhile. */
        sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
        const int code = backup ? sqlite3_backup_step(backup, -1) : SQLITE_ERROR;
        if (backup)
            sqlite3_backup_finish(backup);
        if (code != SQLITE_DONE)
            status = copy_fails(to, path, target, error);
    }
    if (status == WEFT_OK)
        status = check_copy(to, path, error);
    sqlite3_close(from);
    sqlite3_close(to);
    if (status != WEFT_OK)
        unlink(target);
    return status;
}
