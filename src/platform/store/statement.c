/* SPDX-License-Identifier: Apache-2.0 */
/* Statements are compiled once and cached by their text. The first error is kept until statement_end(). */
#include "base/hash.h"
#include "platform/store/internal/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES ((size_t)2 * STATEMENTS_MOST)

/* Returned when memory runs out: it only reports that, and is never modified. */
static struct statement no_memory = {.error = {WEFT_ERROR_MEMORY, "not enough memory for a statement of a database"}};

/* The slot of a cached idle statement with that text, or the first empty slot. */
static struct statement **statement_find(struct database *database, const char *sql, uint64_t hash)
{
    for (size_t place = hash % PLACES;; place = (place + 1) % PLACES) {
        struct statement *kept = database->statements[place];
        if (!kept || (kept->hash == hash && !kept->busy && strcmp(sqlite3_sql(kept->handle), sql) == 0))
            return &database->statements[place];
    }
}

struct statement *database_prepare(struct database *database, const char *sql)
{
    if (!database->statements && !(database->statements = calloc(PLACES, sizeof *database->statements)))
        return &no_memory;
    uint64_t hash = hash_text(sql, 0);
    struct statement **place = statement_find(database, sql, hash);
    if (*place) {
        (*place)->busy = true;
        return *place;
    }
    struct statement *made = calloc(1, sizeof *made);
    if (!made)
        return &no_memory;
    *made = (struct statement){.database = database, .hash = hash, .busy = true};
    const char *rest = NULL;
    int code = sqlite3_prepare_v3(database->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &made->handle, &rest);
    if (code != SQLITE_OK)
        database_error(database, code, "cannot ask", &made->error);
    else if (!made->handle || *rest)
        error_set(&made->error, WEFT_ERROR_ARGUMENT, "'%s' is not one statement", sql);
    /* An error is not cached: the schema may have changed by the next time. */
    if (made->error.status == WEFT_OK && database->statement_count < STATEMENTS_MOST) {
        made->kept = true;
        *place = made;
        database->statement_count++;
    }
    return made;
}

static void statement_note(struct statement *statement, int code, const char *action)
{
    if (code != SQLITE_OK && statement->error.status == WEFT_OK)
        database_error(statement->database, code, action, &statement->error);
}

/* The position of the next value; 0 after an error. */
static int next_place(struct statement *statement)
{
    return statement->error.status == WEFT_OK ? ++statement->bound : 0;
}

void statement_bind_integer(struct statement *statement, int64_t value)
{
    int place = next_place(statement);
    if (place)
        statement_note(statement, sqlite3_bind_int64(statement->handle, place, value), "cannot bind a value for");
}

void statement_bind_number(struct statement *statement, double value)
{
    int place = next_place(statement);
    if (place)
        statement_note(statement, sqlite3_bind_double(statement->handle, place, value), "cannot bind a value for");
}

void statement_bind_text(struct statement *statement, const char *value)
{
    int place = next_place(statement);
    if (place)
        statement_note(statement, sqlite3_bind_text(statement->handle, place, value, -1, SQLITE_TRANSIENT),
                       "cannot bind a value for");
}

void statement_bind_blob(struct statement *statement, const void *bytes, size_t size)
{
    int place = next_place(statement);
    if (place)
        statement_note(statement, sqlite3_bind_blob64(statement->handle, place, bytes, size, SQLITE_TRANSIENT),
                       "cannot bind a value for");
}

void statement_can_wait(struct statement *statement)
{
    if (statement != &no_memory)
        statement->can_wait = true;
}

/* Catch mistakes of the caller before they do harm. */
static void statement_check_use(struct statement *statement)
{
    int parameters = sqlite3_bind_parameter_count(statement->handle);
    if (statement->bound != parameters)
        error_set(&statement->error, WEFT_ERROR_ARGUMENT, "%d values are bound where '%s' has %d", statement->bound,
                  sqlite3_sql(statement->handle), parameters);
    else if (!sqlite3_stmt_readonly(statement->handle) && !statement->database->inside)
        error_set(&statement->error, WEFT_ERROR_STATE, "'%s' would change '%s' outside of a transaction",
                  sqlite3_sql(statement->handle), statement->database->path);
}

bool statement_next(struct statement *statement)
{
    if (statement->error.status == WEFT_OK && !statement->stepped)
        statement_check_use(statement);
    /* After the last row SQLite would start again. */
    if (statement->error.status != WEFT_OK || statement->done)
        return false;
    statement->stepped = true;
    int code = sqlite3_step(statement->handle);
    if (code == SQLITE_ROW)
        return true;
    statement->done = true;
    if (code == SQLITE_DONE && statement->can_wait && !sqlite3_stmt_readonly(statement->handle))
        statement->database->changes_waiting += sqlite3_changes64(statement->database->handle);
    if (code != SQLITE_DONE)
        statement_note(statement, code,
                       sqlite3_stmt_readonly(statement->handle) ? "cannot read from" : "cannot write to");
    return false;
}

int64_t statement_integer(struct statement *statement, int column)
{
    return sqlite3_column_int64(statement->handle, column);
}

double statement_number(struct statement *statement, int column)
{
    return sqlite3_column_double(statement->handle, column);
}

const char *statement_text(struct statement *statement, int column)
{
    return (const char *)sqlite3_column_text(statement->handle, column);
}

const void *statement_blob(struct statement *statement, int column, size_t *size)
{
    const void *bytes = sqlite3_column_blob(statement->handle, column);
    *size = (size_t)sqlite3_column_bytes(statement->handle, column);
    return bytes;
}

bool statement_is_null(struct statement *statement, int column)
{
    return sqlite3_column_type(statement->handle, column) == SQLITE_NULL;
}

char *statement_copy_text(struct statement *statement, int column, char *buffer, size_t size)
{
    const char *text = statement_text(statement, column);
    snprintf(buffer, size, "%s", text ? text : "");
    return buffer;
}

weft_status statement_end(struct statement *statement, struct error *error)
{
    weft_status status = WEFT_OK;
    if (statement->error.status != WEFT_OK)
        status = error_set(error, statement->error.status, "%s", statement->error.text);
    if (statement == &no_memory)
        return status;
    if (!statement->kept) {
        sqlite3_finalize(statement->handle);
        free(statement);
        return status;
    }
    sqlite3_reset(statement->handle);
    sqlite3_clear_bindings(statement->handle);
    error_clear(&statement->error);
    statement->bound = 0;
    statement->busy = statement->stepped = statement->done = statement->can_wait = false;
    return status;
}

weft_status statement_run(struct statement *statement, struct error *error)
{
    while (statement_next(statement))
        continue;
    return statement_end(statement, error);
}

int64_t database_changes(const struct database *database)
{
    return sqlite3_changes64(database->handle);
}

int64_t database_last_key(const struct database *database)
{
    return sqlite3_last_insert_rowid(database->handle);
}

void database_free_statements(struct database *database)
{
    for (size_t i = 0; database->statements && i < PLACES; i++) {
        if (database->statements[i])
            sqlite3_finalize(database->statements[i]->handle);
        free(database->statements[i]);
    }
    free(database->statements);
    database->statements = NULL;
    database->statement_count = 0;
}
