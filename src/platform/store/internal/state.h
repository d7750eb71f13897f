/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of database.h share: the handle, and how a code of SQLite's becomes a message. */
#ifndef WEFT_PLATFORM_STORE_INTERNAL_STATE_H
#define WEFT_PLATFORM_STORE_INTERNAL_STATE_H

#include "base/file/file.h"
#include "platform/store/database.h"

#include <sqlite3.h>

#define STATEMENTS_MOST 1024 /**< statements kept compiled; texts beyond that are compiled each time */

struct statement {
    struct database *database;
    sqlite3_stmt *handle;           /**< NULL: the text could not be compiled */
    uint64_t hash;                  /**< of the text */
    int bound;                      /**< values bound so far */
    bool busy, kept, stepped, done; /**< done: there are no more rows */
    bool can_wait;                  /**< what it changes need not be durable at once */
    struct error error;             /**< the first that went wrong since database_prepare() */
};

struct database {
    sqlite3 *handle;
    int lock;        /**< the open lock file; -1 for a reader */
    bool inside;     /**< between database_begin() and database_end() */
    bool group;      /**< between database_group_begin() and database_group_end() */
    bool group_open; /**< a member has begun, so that the group's transaction is open */
    enum database_durability group_durability;
    struct error group_error;      /**< why all members of the group are undone */
    int version;                   /**< of the schema, as in the file */
    int synchronous;               /**< whether commits are synced, as set; -1: not yet */
    enum database_durability open; /**< of the transaction that is open */
    int64_t changes_before;        /**< rows changed by this handle before it */
    int64_t changes_waiting;       /**< and in it, by statements that can wait */
    struct statement **statements; /**< kept ones, an open hash table of 2 x STATEMENTS_MOST places */
    size_t statement_count;
    struct checkpointer *checkpointer; /**< NULL: the log is written back by its writer */
    char path[FILE_PATH_BYTES];
};

/** Note in a message that `action` ("cannot write to") on the database failed with SQLite's `code`. */
weft_status database_error(struct database *database, int code, const char *action, struct error *error);

/** Run SQL text without values. */
weft_status database_script(struct database *database, const char *sql, const char *action, struct error *error);

/** End the thread of database_checkpoint_apart(), if there is one, after what it is at. */
void database_checkpoint_stop(struct database *database);

/** Free all compiled statements. */
void database_free_statements(struct database *database);

#endif
