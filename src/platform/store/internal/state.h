/* SPDX-License-Identifier: Apache-2.0 */
/** The database handle and internal functions shared by the files of this directory. */
#ifndef WEFT_PLATFORM_STORE_INTERNAL_STATE_H
#define WEFT_PLATFORM_STORE_INTERNAL_STATE_H

#include "base/file/file.h"
#include "platform/store/database.h"

#include <sqlite3.h>

#define STATEMENTS_MOST 1024 /**< cached statements; others are compiled each time */

struct statement {
    struct database *database;
    sqlite3_stmt *handle;           /**< NULL: compilation failed */
    uint64_t hash;                  /**< of the text */
    int bound;                      /**< values bound so far */
    bool busy, kept, stepped, done; /**< done: there are no more rows */
    bool can_wait;                  /**< its changes need not be durable at once */
    struct error error;             /**< the first since database_prepare() */
};

struct database {
    sqlite3 *handle;
    int lock;        /**< the open lock file; -1 for a reader */
    bool inside;     /**< between database_begin() and database_end() */
    bool group;      /**< between database_group_begin() and database_group_end() */
    bool group_open; /**< the group's transaction is open */
    enum database_durability group_durability;
    struct error group_error;      /**< why the group was undone */
    int version;                   /**< of the schema, as in the file */
    int synchronous;               /**< whether commits are synced; -1: not set yet */
    enum database_durability open; /**< of the open transaction */
    int64_t changes_before;        /**< rows changed by this handle before that transaction */
    int64_t changes_waiting;       /**< rows changed in it by statements that can wait */
    struct statement **statements; /**< an open hash table with 2 x STATEMENTS_MOST slots */
    size_t statement_count;
    struct checkpointer *checkpointer; /**< NULL: the writer checkpoints */
    char path[FILE_PATH_BYTES];
};

/** Set `error` for SQLite's `code`: `action` ("cannot write to") failed. */
weft_status database_error(struct database *database, int code, const char *action, struct error *error);

/** Run SQL statements that have no values to bind. */
weft_status database_script(struct database *database, const char *sql, const char *action, struct error *error);

/** End the checkpoint thread, if there is one, after its current checkpoint. */
void database_checkpoint_stop(struct database *database);

/** Free all compiled statements. */
void database_free_statements(struct database *database);

#endif
