/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An SQLite database with one writer.
 *
 * Guarantees:
 * - One process writes. A second one that opens the file for writing gets an error that names the first. The lock is a
 *   file beside the database (PATH.writer) and ends with the process.
 * - Every change is part of a transaction; a statement that changes something outside of one fails. A transaction is
 *   stored completely or not at all, also after kill -9 and power loss.
 * - A database that is damaged, belongs to another program, or has a newer schema is refused and not modified. An older
 *   schema is upgraded by the caller's migrations in one transaction.
 * - If the disk is full, the directory is not writable, or the database is busy for DATABASE_BUSY_MS, the transaction
 *   fails and is undone; earlier data is intact.
 *
 * Usage:
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
 * Durability. A DURABLE transaction is synced to disk before database_end() returns; use it for everything that is
 * acknowledged to a user. That costs one sync, 1 to 4 ms on an ordinary disk. A LAZY transaction costs 15 us. A power
 * cut may lose the last lazy transactions, each as a whole, newest first; kill -9 loses none.
 *
 * An AS_NEEDED transaction ends like a LAZY one if statement_can_wait() was called for every statement that changed
 * something, and like a DURABLE one otherwise. Use it when the caller does not know beforehand what it will write, and
 * call statement_can_wait() for changes that can be made again from another source. A durable transaction makes all
 * earlier ones durable. If the final sync fails, database_end() returns an error although the changes are visible to
 * this process and the next one; only a power cut may still lose them.
 *
 * Group commit. Between database_group_begin() and database_group_end(), each pair of database_begin() and
 * database_end() is a member of one group that pays for one sync. A member that fails is undone alone.
 * database_group_end() makes all members durable together or, on an error, undoes them all, so nothing may be
 * acknowledged before it returns WEFT_OK. Reads on the same handle see members that are not durable yet; answers to
 * reads wait for the end of the group too.
 *
 *     database_group_begin(database, DATABASE_DURABLE)   at the first event of a pass of the event loop
 *     ... handlers of requests; their answers are held back ...
 *     status = database_group_end(database, error);      then send all answers, or one error to all
 *
 * Checkpoints. Commits go to a write-ahead log (PATH-wal). A commit that brings the log to 1,000 pages writes it back
 * to the database and syncs both files, which takes 10 ms or more. database_checkpoint_apart() moves this to a thread.
 *
 * Names for people are sorted by `ORDER BY name COLLATE natural_order` (host-2 before host-10, as
 * text_compare_natural()). The schema does not use this collation, so other programs can read the file.
 *
 * A handle and its statements belong to one thread at a time. Other threads and processes open their own
 * DATABASE_READERs; they read what was committed last and wait neither for the writer nor for a checkpoint. A child
 * that forks without exec must not use the handle, and holds the writer lock while it lives.
 */
#ifndef WEFT_PLATFORM_STORE_DATABASE_H
#define WEFT_PLATFORM_STORE_DATABASE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATABASE_BUSY_MS 5000 /**< how long to wait for a transaction of another process */

struct database;
struct statement;

/** Identity and schema of a database. Must outlive the handle. */
struct database_schema {
    const char *what;              /**< for messages: "the platform's state" */
    int32_t application;           /**< the application id in the file's header; not 0 */
    const char *const *migrations; /**< SQL texts; number i brings version i to version i + 1 (0: empty) */
    int version;                   /**< number of migrations: the version that this program writes */
};

enum database_access {
    DATABASE_WRITER,           /**< the only writer; creates file and directory */
    DATABASE_WRITER_UNCHECKED, /**< the same without checking every page, which takes 2.5 s per GiB */
    DATABASE_READER,           /**< read-only; the schema must be current */
};

enum database_durability {
    DATABASE_DURABLE,   /**< on disk when the transaction or its group has ended */
    DATABASE_LAZY,      /**< on disk with the next durable one, or at a checkpoint */
    DATABASE_AS_NEEDED, /**< one or the other, depending on the changes */
};

/**
 * Check and open the database at `path`.
 *
 * Errors: STATE if another process writes to it; DATA if it is damaged, foreign, or has a newer schema (for a reader:
 * any other schema); SYSTEM if it cannot be read or written, or the disk is full. A file that could not be created
 * completely is removed.
 */
weft_status database_open(const char *path, const struct database_schema *schema, enum database_access access,
                          struct database **database, struct error *error);

/**
 * Start a thread that writes the log back while commits continue. The writer does it itself only when the log has
 * reached 32 MiB. Pages that cannot be written back (a full disk) stay in the log, also across a crash.
 * database_close() ends the thread. Errors: STATE for a reader, or if the thread exists; SYSTEM, MEMORY.
 */
weft_status database_checkpoint_apart(struct database *database, struct error *error);

/**
 * Allocate `bytes` past the end of the log of the database at `path`, so that commits succeed on a full disk. Call it
 * regularly: commits use the space up, and truncating the log frees it. Does nothing if there is no log, no space, or
 * no support in the file system. Thread-safe.
 */
void database_keep_spare(const char *path, uint64_t bytes);

/**
 * Before opening the database at `path`: allocate `bytes` for its log and the space of the log's index, so that opening
 * it succeeds on a full disk. Does nothing if there is no database, or as above.
 */
void database_keep_room(const char *path, uint64_t bytes);

/**
 * Keep the log when the database is closed instead of writing it back and removing it. On a full disk this keeps its
 * space for the next start.
 */
void database_keep_log(struct database *database);

/** Undo an open transaction and close the handle with its statements. NULL is allowed. */
void database_close(struct database *database);

/** The path given to database_open(). */
const char *database_path(const struct database *database);

/** Check every page, row and index (5 s per GiB). Errors: DATA with the first problem. */
weft_status database_check(struct database *database, struct error *error);

/**
 * Copy the database at `path`, which another process may write to, into the new file `target`: as of one point in time,
 * and on disk, after a quick check of every page. The writer does not wait. Errors: SYSTEM; DATA if it is damaged.
 * Thread-safe.
 */
weft_status database_copy(const char *path, const char *target, struct error *error);

/* ---- transactions ---- */

/** Begin a transaction. Errors: STATE inside another one; SYSTEM if another process holds the database. */
weft_status database_begin(struct database *database, enum database_durability durability, struct error *error);

/**
 * End the transaction: commit if `status` is WEFT_OK, undo otherwise. Returns `status`, or the error of the commit.
 */
weft_status database_end(struct database *database, weft_status status, struct error *error);

/** Whether a transaction is open. */
bool database_inside(const struct database *database);

/** Begin a group (see above). No effect inside a group. Takes no lock yet. */
void database_group_begin(struct database *database, enum database_durability durability);

/** Commit the group; on an error all members are undone. Free if there were none. */
weft_status database_group_end(struct database *database, struct error *error);

/* ---- statements ---- */

/**
 * The statement for an SQL text with `?` for each value to bind. Compiled once and cached by its text. Never NULL:
 * statement_run() or statement_end(), one of which must follow, returns any error.
 */
struct statement *database_prepare(struct database *database, const char *sql);

/** Bind the next value; text and blobs are copied. A NULL pointer binds NULL. */
void statement_bind_integer(struct statement *statement, int64_t value);
void statement_bind_number(struct statement *statement, double value);
void statement_bind_text(struct statement *statement, const char *value);
void statement_bind_blob(struct statement *statement, const void *bytes, size_t size);

/** Changes of this use of the statement may wait for the next durable transaction (DATABASE_AS_NEEDED); changes made by
 * triggers may not. */
void statement_can_wait(struct statement *statement);

/** Go to the next row. False after the last one, and on an error, which statement_end() returns. */
bool statement_next(struct statement *statement);

/** Columns of the current row, from 0; pointers are valid until the next call on `statement`. */
int64_t statement_integer(struct statement *statement, int column);
double statement_number(struct statement *statement, int column);
const char *statement_text(struct statement *statement, int column);               /**< NULL if the column is NULL */
const void *statement_blob(struct statement *statement, int column, size_t *size); /**< NULL if it is empty */
bool statement_is_null(struct statement *statement, int column);

/** Copy a text column to `buffer`, truncated to its size; "" if it is NULL. Returns `buffer`. */
char *statement_copy_text(struct statement *statement, int column, char *buffer, size_t size);

/** Release the statement. Returns the first error since database_prepare(). */
weft_status statement_end(struct statement *statement, struct error *error);

/** Run a statement to its end and release it. */
weft_status statement_run(struct statement *statement, struct error *error);

/** Rows changed by the last INSERT, UPDATE or DELETE. */
int64_t database_changes(const struct database *database);

/** Key (rowid) of the last inserted row. */
int64_t database_last_key(const struct database *database);

#endif
