/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One SQLite database, opened with care.
 *
 * What is promised:
 * - One process writes. A second one that opens the same file to write is refused by a message that names the first.
 *   The lock is a file beside the database (PATH.writer) and ends with the process, however that ends.
 * - Every change is inside a transaction (a statement that changes something outside of one is refused), and a
 *   transaction is there whole or not at all, also after kill -9 and power loss.
 * - A database that is damaged, of another program, or of a newer schema is refused by a message and not touched. One
 *   of an older schema is brought up by the caller's migrations, all in one transaction.
 * - A full disk, a directory that cannot be written, a database busy for DATABASE_BUSY_MS: a message; the transaction is
 *   undone and what was there before is whole.
 *
 * How it is used:
 *
 *     static const char *const migrations[] = {
 *         "CREATE TABLE runs (run INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"};
 *     static const struct database_schema schema = {"the platform's state", 0x57454654, migrations, 1};
 *     status = database_open(path, &schema, DATABASE_WRITER, &database, error);
 *
 *     status = database_begin(database, DATABASE_DURABLE, error);
 *     if (status == WEFT_OK) {
 *         struct statement *insert = database_prepare(database, "INSERT INTO runs (name) VALUES (?)");
 *         statement_bind_text(insert, name);
 *         status = database_end(database, statement_run(insert, error), error);
 *     }
 *
 *     struct statement *select = database_prepare(database, "SELECT run, name FROM runs WHERE run > ?");
 *     statement_bind_integer(select, 41);
 *     while (statement_next(select))
 *         show(statement_integer(select, 0), statement_text(select, 1));
 *     status = statement_end(select, error);
 *
 * Durability: a transaction is DURABLE (synced to disk before database_end() returns: for all that somebody is told
 * is done) or LAZY (a power cut may take the last ones, whole, newest first; kill -9 of the process takes none: for
 * metrics). A durable commit costs a sync of the disk, 1 to 4 ms on an ordinary one; a lazy commit
 * costs 15 us.
 *
 * AS_NEEDED is for who does not know beforehand what there will be to write. It ends as DURABLE does if anything was
 * changed but by statements of which statement_can_wait() was told, and as LAZY otherwise: such changes can be made
 * again from elsewhere after a power cut, which may take them, newest first; what a durable transaction has made stays,
 * with everything before it. If the sync at the end fails, database_end() says so, but what it wrote is there, for this
 * process and the next one; only a power cut may take it then.
 *
 * Group commit: a server that has many changes at hand pays for one sync for all of them. Between
 * database_group_begin() and database_group_end() each database_begin() and database_end() pair is a member: undone
 * alone if it fails, made durable with the others by database_group_end(). Nothing may be acknowledged before that has
 * returned WEFT_OK; if it fails, all members are undone. What the same handle reads meanwhile includes members not yet
 * durable, so answers to reads wait for the group's end too. Code that changes the database is the same inside a group
 * and outside.
 *
 *     database_group_begin(database, DATABASE_DURABLE)   at the first event of a pass of the event loop
 *     ... handlers of requests; their answers are kept back ...
 *     status = database_group_end(database, error);      then all answers go out, or, if it failed, one error to all
 *
 * The log: what is committed goes to a write-ahead log (PATH-wal) first, and once that has 1,000 pages back into the
 * database, with a sync of both: a checkpoint. That commit takes as long as the disk does for it, some 10 ms to many
 * times that. Where others wait for the writer's thread, database_checkpoint_apart() has another thread do it.
 *
 * Names that people read in a list are ordered by `ORDER BY name COLLATE natural_order`: host-2 before host-10, as
 * text_compare_natural() has it. No schema says so, or else no other program could read the file.
 *
 * A handle and its statements belong to one thread at a time; another thread of the process, or another process, may
 * open DATABASE_READERs of its own. A child that forks without exec must not use the handle, and keeps the lock for as
 * long as it lives.
 */
#ifndef WEFT_PLATFORM_STORE_DATABASE_H
#define WEFT_PLATFORM_STORE_DATABASE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATABASE_BUSY_MS 5000 /**< how long to wait for another process that is inside a transaction */

struct database;
struct statement;

/** What a database holds. All of it must outlive the handle. */
struct database_schema {
    const char *what;              /**< for messages: "the platform's state" */
    int32_t application;           /**< the number in the file's header that says whose it is; not 0 */
    const char *const *migrations; /**< SQL texts; number i brings version i to version i + 1 (0: empty) */
    int version;                   /**< how many: the version that this program writes */
};

enum database_access {
    DATABASE_WRITER,           /**< the one process that writes; makes file and directory where there are none */
    DATABASE_WRITER_UNCHECKED, /**< the same without the look at every page, which takes 2.5 s a GiB */
    DATABASE_READER, /**< changes nothing, and sees what has been committed; the schema must be the present one */
};

enum database_durability {
    DATABASE_DURABLE,   /**< on disk when the transaction (or its group) has ended */
    DATABASE_LAZY,      /**< on disk some time later: with the next durable one, or at a checkpoint of the log */
    DATABASE_AS_NEEDED, /**< as the one or the other, by what was changed */
};

/**
 * Open the database at `path`, after looking whether it is whole, this program's, and of no newer schema.
 *
 * Errors: STATE if another process writes to it; DATA if it is damaged, foreign or of a newer schema (of another one,
 * for a reader); SYSTEM if it cannot be read or written, or the disk is full. Nothing is left of a file that could not
 * be made whole.
 */
weft_status database_open(const char *path, const struct database_schema *schema, enum database_access access,
                          struct database **database, struct error *error);

/**
 * Have a thread of its own write the log back from now on; commits go on meanwhile. Only where they come so fast that
 * it has grown to 32 MiB does the writer do it as before. What cannot be written back (a full disk) stays in the log,
 * which a process that opens the database after a crash finds as it does any. database_close() ends the thread. Errors:
 * STATE for a reader, and the second time; SYSTEM, MEMORY.
 */
weft_status database_checkpoint_apart(struct database *database, struct error *error);

/**
 * Allocate so many bytes behind the end of the log of the database at `path`, so that commits find room where the disk
 * is full. To be called again from time to time: commits use them up, and writing the log back gives them back. Does
 * nothing where there is no log, where the file system cannot do it, and where there is no room. From any thread.
 */
void database_keep_spare(const char *path, uint64_t bytes);

/**
 * Before the database at `path` is opened: allocate so many bytes to its log, and what the log's index needs, so that
 * opening it needs no further space. Does nothing where there is no database, or as above.
 */
void database_keep_room(const char *path, uint64_t bytes);

/**
 * Leave the log as it is when the database is closed, instead of writing it back and removing it: on a full disk, so
 * that its space is there when the database is opened again, as after a crash.
 */
void database_keep_log(struct database *database);

/** Close the handle, undoing a transaction that is open; NULL is harmless. No statement may be used afterwards. */
void database_close(struct database *database);

/** The path as it was given. */
const char *database_path(const struct database *database);

/** Look at every page, row and index (5 s a GiB). Errors: DATA with what is wrong first. */
weft_status database_check(struct database *database, struct error *error);

/* ---- transactions ---- */

/** Begin a transaction that may write. Errors: STATE inside another; SYSTEM if another process does not let go. */
weft_status database_begin(struct database *database, enum database_durability durability, struct error *error);

/**
 * End it: keep all changes if `status` is WEFT_OK, undo all otherwise. Returns `status`, or why they could not be kept.
 */
weft_status database_end(struct database *database, weft_status status, struct error *error);

/** Whether database_begin() has been called and database_end() not yet. */
bool database_inside(const struct database *database);

/** From now on transactions are members of one group (see above). Harmless inside a group. Takes no lock yet. */
void database_group_begin(struct database *database, enum database_durability durability);

/** Make all members durable. Costs nothing if there were none. On an error all of them are undone. */
weft_status database_group_end(struct database *database, struct error *error);

/* ---- statements ---- */

/**
 * The statement of that SQL text, with `?` for each value to bind. Compiled once and kept by its text. Never NULL: what
 * is wrong with it is told by statement_run() or statement_end(), one of which must follow.
 */
struct statement *database_prepare(struct database *database, const char *sql);

/** Bind the next value; texts and blobs are copied. NULL for text or bytes binds NULL. */
void statement_bind_integer(struct statement *statement, int64_t value);
void statement_bind_number(struct statement *statement, double value);
void statement_bind_text(struct statement *statement, const char *value);
void statement_bind_blob(struct statement *statement, const void *bytes, size_t size);
void statement_bind_null(struct statement *statement);

/** What this use of the statement changes may wait for the next durable transaction (DATABASE_AS_NEEDED). What triggers
 * change because of it may not. */
void statement_can_wait(struct statement *statement);

/** Go to the next row; false after the last one, and on an error, which statement_end() tells. */
bool statement_next(struct statement *statement);

/** Columns of the present row, from 0; pointers live until the next call on `statement`. */
int64_t statement_integer(struct statement *statement, int column);
double statement_number(struct statement *statement, int column);
const char *statement_text(struct statement *statement, int column);               /**< NULL where the column is NULL */
const void *statement_blob(struct statement *statement, int column, size_t *size); /**< NULL where it is empty */
bool statement_is_null(struct statement *statement, int column);

/** Copy a text column to `buffer`, cut to its size, "" where it is NULL; returns `buffer`. */
char *statement_copy_text(struct statement *statement, int column, char *buffer, size_t size);

/** Done with the statement; it goes back. Returns what went wrong since database_prepare(), if anything. */
weft_status statement_end(struct statement *statement, struct error *error);

/** statement_next() to the last row, then statement_end(): for statements whose rows nobody needs. */
weft_status statement_run(struct statement *statement, struct error *error);

/** Rows that the last INSERT, UPDATE or DELETE changed. */
int64_t database_changes(const struct database *database);

/** Key (rowid) of the row inserted last. */
int64_t database_last_key(const struct database *database);

#endif
