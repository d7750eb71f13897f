/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a database. A foreign or damaged file must stay as it is, so the order matters: check without modifying,
 * refuse if need be, and only then switch to the write-ahead log and upgrade the schema.
 */
#include "base/file/lock.h"
#include "base/text.h"
#include "platform/store/internal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_BYTES 512

/* Keep the first column of the first row in `answer`. */
static int keep_answer(void *answer, int columns, char **values, char **names)
{
    char *text = answer;
    if (!*text && columns > 0 && values[0])
        snprintf(text, ANSWER_BYTES, "%s", values[0]);
    return 0;
}

/* The first column of the first row, as text. */
static weft_status ask_text(struct database *database, const char *sql, char answer[ANSWER_BYTES], struct error *error)
{
    *answer = '\0';
    int code = sqlite3_exec(database->handle, sql, keep_answer, answer, NULL);
    if ((code & 0xff) == SQLITE_ERROR) /* every database can answer this, so the file is at fault */
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' cannot be read: it is damaged, or of a newer SQLite (%s); nothing was changed in it; "
                         "restore a copy, or move it away to start with an empty one",
                         database->path, sqlite3_errmsg(database->handle));
    return code == SQLITE_OK ? WEFT_OK : database_error(database, code, "cannot open", error);
}

static weft_status ask_number(struct database *database, const char *sql, int64_t *number, struct error *error)
{
    char answer[ANSWER_BYTES];
    weft_status status = ask_text(database, sql, answer, error);
    if (status == WEFT_OK)
        *number = strtoll(answer, NULL, 10);
    return status;
}

/* Create the file, readable by its owner alone, if it is missing; `*made` tells. */
static weft_status store_open_make_file(struct database *database, bool *made, struct error *error)
{
    struct stat found;
    int descriptor = open(database->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0) {
        close(descriptor);
        *made = true;
        return WEFT_OK;
    }
    if (errno != EEXIST)
        return error_system(error, "cannot create the database '%s'", database->path);
    if (stat(database->path, &found) != 0)
        return error_system(error, "cannot look at the database '%s'", database->path);
    if (!S_ISREG(found.st_mode))
        return error_set(error, WEFT_ERROR_DATA, "'%s' is not a regular file, so it cannot be a database",
                         database->path);
    return WEFT_OK;
}

/* COLLATE natural_order. */
static int store_open_compare_names(void *unused, int one_size, const void *one, int other_size, const void *other)
{
    return text_compare_natural(one, (size_t)one_size, other, (size_t)other_size);
}

/* Open and configure the handle. Nothing here reads or changes the file. */
static weft_status open_handle(struct database *database, enum database_access access, struct error *error)
{
    static const struct {
        int option, value;
    } options[] = {
        /* Until the file is known to be ours, closing must not write its log back. */
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
        /* Double quotes are for names only, so that a misspelled column is an error. */
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},
    };
    /* The path must not be interpreted as a URI ("file:..."). */
    char path[FILE_PATH_BYTES + 2];
    snprintf(path, sizeof path, "%s%s", *database->path == '/' ? "" : "./", database->path);
    int flags = access == DATABASE_READER ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    int code = sqlite3_open_v2(path, &database->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return database_error(database, code, "cannot open", error);
    sqlite3_extended_result_codes(database->handle, 1);
    sqlite3_busy_timeout(database->handle, DATABASE_BUSY_MS);
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        sqlite3_db_config(database->handle, options[i].option, options[i].value, NULL);
    code = sqlite3_create_collation(database->handle, "natural_order", SQLITE_UTF8, NULL, store_open_compare_names);
    if (code != SQLITE_OK)
        return database_error(database, code, "cannot open", error);
    char nothing[ANSWER_BYTES];
    /* Reads through a mapping keep pages in memory: the kernel reclaims those of read() sooner, and a reader that must
     * read them again waits for a disk that may be busy with writes. */
    return ask_text(database,
                    "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-4096; "
                    "PRAGMA mmap_size=268435456",
                    nothing, error);
}

/* Refuse a foreign or newer database. `*version`: the schema's; 0 for an empty database. */
static weft_status check_schema(struct database *database, const struct database_schema *schema,
                                enum database_access access, int64_t *version, struct error *error)
{
    int64_t application = 0, found = 0, tables = 0;
    weft_status status = ask_number(database, "PRAGMA application_id", &application, error);
    if (status == WEFT_OK)
        status = ask_number(database, "PRAGMA user_version", &found, error);
    if (status == WEFT_OK)
        status = ask_number(database, "SELECT count(*) FROM sqlite_schema", &tables, error);
    if (status != WEFT_OK)
        return status;
    bool empty = application == 0 && found == 0 && tables == 0;
    if (!empty && application != schema->application)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' belongs to another program (application id %" PRId64 ", not %" PRId32 " of %s); "
                         "nothing was changed in it; choose another path",
                         database->path, application, schema->application, schema->what);
    if (found > schema->version || found < 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' (%s) was written by a newer weft: its schema has version %" PRId64
                         " and this program knows up to %d; nothing was changed in it; use that version",
                         database->path, schema->what, found, schema->version);
    if (access == DATABASE_READER && found != schema->version)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' (%s) has a schema of version %" PRId64
                         " where %d is expected; start this version's server "
                         "(weft serve) to upgrade it",
                         database->path, schema->what, found, schema->version);
    *version = found;
    return WEFT_OK;
}

/* The first line of SQLite's report names the database. Skip it and join the rest: a message is one line. */
static const char *one_line(char *problem)
{
    char *text = strncmp(problem, "***", 3) == 0 ? strchr(problem, '\n') : NULL;
    text = text ? text + 1 : problem;
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return text;
}

/* quick_check and integrity_check return a problem per row, or "ok". */
static weft_status check_pages(struct database *database, const char *pragma, struct error *error)
{
    char problem[ANSWER_BYTES];
    weft_status status = ask_text(database, pragma, problem, error);
    if (status == WEFT_OK && strcmp(problem, "ok") != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' is damaged (%s); nothing was changed in it; restore a copy, or move it away to start "
                           "with an empty one",
                           database->path, one_line(problem));
    return status;
}

weft_status database_check(struct database *database, struct error *error)
{
    return check_pages(database, "PRAGMA integrity_check(1)", error);
}

/* Upgrade the schema from `version` in one transaction. */
static weft_status migrate(struct database *database, const struct database_schema *schema, int64_t version,
                           struct error *error)
{
    if (version == schema->version)
        return WEFT_OK;
    char numbers[128];
    snprintf(numbers, sizeof numbers, "PRAGMA application_id=%" PRId32 "; PRAGMA user_version=%d", schema->application,
             schema->version);
    weft_status status = database_begin(database, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    for (int64_t i = version; i < schema->version && status == WEFT_OK; i++)
        status = database_script(database, schema->migrations[i], "cannot upgrade the schema of", error);
    if (status == WEFT_OK)
        status = database_script(database, numbers, "cannot upgrade the schema of", error);
    return database_end(database, status, error);
}

/* The file is ours: from here on it may change. */
static weft_status prepare_to_write(struct database *database, const struct database_schema *schema, int64_t version,
                                    struct error *error)
{
    if (sqlite3_db_readonly(database->handle, "main"))
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot write to '%s': the file or its directory cannot be written",
                         database->path);
    char mode[ANSWER_BYTES];
    weft_status status = ask_text(database, "PRAGMA journal_mode=WAL", mode, error);
    if (status == WEFT_OK && strcmp(mode, "wal") != 0)
        status = error_set(error, WEFT_ERROR_SYSTEM,
                           "'%s' is on a file system that does not support a write-ahead log; choose a local disk",
                           database->path);
    if (status == WEFT_OK)
        status = database_script(database, "PRAGMA journal_size_limit=67108864", "cannot open", error);
    if (status == WEFT_OK)
        status = migrate(database, schema, version, error);
    if (status == WEFT_OK)
        sqlite3_db_config(database->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return status;
}

/* Sync the directory, so that the names of new files survive a power cut. */
static weft_status sync_directory(const struct database *database, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    snprintf(directory, sizeof directory, "%s", database->path);
    char *slash = strrchr(directory, '/');
    if (!slash)
        return file_sync_directory(".", error);
    slash[slash == directory] = '\0';
    return file_sync_directory(directory, error);
}

/* Remove the files of a database that could not be created completely. */
static void store_open_remove_files(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char name[FILE_PATH_BYTES + 16];
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

/* Take the writer lock, a file beside the database; the kernel releases it when the process ends. */
static weft_status lock_writers(struct database *database, struct error *error)
{
    char path[FILE_PATH_BYTES + 8], use[FILE_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s.writer", database->path);
    snprintf(use, sizeof use, "writing to '%s'", database->path);
    return lock_take(path, 0600, use, &database->lock, error);
}

static weft_status store_open_open_all(struct database *database, const struct database_schema *schema,
                                       enum database_access access, bool *made, struct error *error)
{
    weft_status status = WEFT_OK;
    int64_t version = 0;
    if (access != DATABASE_READER) {
        if ((status = file_make_directory_of(database->path, error)) != WEFT_OK ||
            (status = lock_writers(database, error)) != WEFT_OK ||
            (status = store_open_make_file(database, made, error)) != WEFT_OK)
            return status;
    }
    if ((status = open_handle(database, access, error)) != WEFT_OK ||
        (status = check_schema(database, schema, access, &version, error)) != WEFT_OK)
        return status;
    if (access == DATABASE_WRITER && !*made)
        status = check_pages(database, "PRAGMA quick_check(1)", error);
    if (status == WEFT_OK && access != DATABASE_READER)
        status = prepare_to_write(database, schema, version, error);
    if (status == WEFT_OK && *made)
        status = sync_directory(database, error);
    return status;
}

weft_status database_open(const char *path, const struct database_schema *schema, enum database_access access,
                          struct database **database, struct error *error)
{
    struct database *opened = calloc(1, sizeof *opened);
    bool made = false;
    if (!opened)
        return error_memory(error, sizeof *opened, "a database");
    opened->lock = opened->synchronous = -1;
    weft_status status = WEFT_OK;
    /* Leave room for the suffixes of the files beside it. */
    if (snprintf(opened->path, sizeof opened->path, "%s", path) >= FILE_PATH_BYTES - 16)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the path of a database is too long: '%.64s...'", path);
    if (status == WEFT_OK)
        status = store_open_open_all(opened, schema, access, &made, error);
    if (status == WEFT_OK) {
        opened->version = schema->version;
        *database = opened;
        return WEFT_OK;
    }
    if (made) {
        /* The lock is still held, so no other process uses these files. */
        database_free_statements(opened);
        sqlite3_close(opened->handle);
        opened->handle = NULL;
        store_open_remove_files(opened->path);
    }
    database_close(opened);
    return status;
}

void database_close(struct database *database)
{
    if (!database)
        return;
    database_checkpoint_stop(database);
    database_free_statements(database);
    sqlite3_close_v2(database->handle);
    if (database->lock >= 0)
        close(database->lock);
    free(database);
}

const char *database_path(const struct database *database)
{
    return database->path;
}
