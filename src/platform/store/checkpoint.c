/* SPDX-License-Identifier: Apache-2.0 */
/* A thread with its own handle that writes the log back, so that the writer never waits for these syncs. */
#include "base/thread.h"
#include "platform/store/internal/state.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_PAGES   1000       /* log size that starts a checkpoint; SQLite's default */
#define INDEX_BYTES (64 << 10) /* of the log's index; SQLite begins with 32 KiB */
#define LOG_MOST    8192       /* 32 MiB: commits outrun the thread, so the writer runs the checkpoint itself */

struct checkpointer {
    sqlite3 *handle; /* the thread's */
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t come;
    bool wanted, stopping;
};

/* Does not wait for readers. What cannot be written back stays in the log until the next attempt. */
static void write_back(sqlite3 *handle)
{
    sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static void *store_checkpoint_serve(void *context)
{
    struct checkpointer *checkpointer = context;
    pthread_mutex_lock(&checkpointer->lock);
    for (;;) {
        while (!checkpointer->wanted && !checkpointer->stopping)
            pthread_cond_wait(&checkpointer->come, &checkpointer->lock);
        if (checkpointer->stopping)
            break;
        checkpointer->wanted = false;
        pthread_mutex_unlock(&checkpointer->lock);
        write_back(checkpointer->handle);
        pthread_mutex_lock(&checkpointer->lock);
    }
    pthread_mutex_unlock(&checkpointer->lock);
    return NULL;
}

static void store_checkpoint_ask(struct checkpointer *checkpointer, bool stop)
{
    pthread_mutex_lock(&checkpointer->lock);
    checkpointer->wanted = true;
    checkpointer->stopping = stop;
    pthread_cond_signal(&checkpointer->come);
    pthread_mutex_unlock(&checkpointer->lock);
}

/* Called by SQLite on the writer's thread after each commit. SQLite restarts the log at the first commit that finds all
 * of it written back. Pages committed during a checkpoint are left to the next one. */
static int committed(void *context, sqlite3 *writer, const char *name, int pages)
{
    if (pages >= LOG_MOST)
        write_back(writer);
    else if (pages >= LOG_PAGES)
        store_checkpoint_ask(context, false);
    return SQLITE_OK;
}

static weft_status open_own(struct checkpointer *checkpointer, struct database *database, struct error *error)
{
    char path[FILE_PATH_BYTES + 2];
    snprintf(path, sizeof path, "%s%s", *database->path == '/' ? "" : "./", database->path);
    int code = sqlite3_open_v2(path, &checkpointer->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) /* the writer closes last, and does this */
        code = sqlite3_db_config(checkpointer->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (code == SQLITE_OK) /* a handle discovers the log with its first read */
        code = sqlite3_exec(checkpointer->handle, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    return code == SQLITE_OK ? WEFT_OK : database_error(database, code, "cannot open once more", error);
}

weft_status database_checkpoint_apart(struct database *database, struct error *error)
{
    if (database->lock < 0 || database->checkpointer)
        return error_set(error, WEFT_ERROR_STATE, "'%s' is not open to be written, or has a checkpoint thread already",
                         database->path);
    struct checkpointer *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a thread for a database's log");
    weft_status status = open_own(made, database, error);
    if (status == WEFT_OK) {
        pthread_mutex_init(&made->lock, NULL);
        pthread_cond_init(&made->come, NULL);
        const int code = thread_start(&made->thread, store_checkpoint_serve, made);
        if (code != 0) {
            pthread_cond_destroy(&made->come);
            pthread_mutex_destroy(&made->lock);
            status = error_set(error, WEFT_ERROR_SYSTEM, "cannot start a thread for the log of '%s': %s",
                               database->path, strerror(code));
        }
    }
    if (status != WEFT_OK) {
        sqlite3_close(made->handle);
        free(made);
        return status;
    }
    database->checkpointer = made;
    sqlite3_wal_hook(database->handle, committed, made);
    return WEFT_OK;
}

void database_checkpoint_stop(struct database *database)
{
    struct checkpointer *checkpointer = database->checkpointer;
    if (!checkpointer)
        return;
    sqlite3_wal_hook(database->handle, NULL, NULL);
    store_checkpoint_ask(checkpointer, true);
    pthread_join(checkpointer->thread, NULL);
    sqlite3_close(checkpointer->handle);
    pthread_cond_destroy(&checkpointer->come);
    pthread_mutex_destroy(&checkpointer->lock);
    free(checkpointer);
    database->checkpointer = NULL;
}

void database_keep_log(struct database *database)
{
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* Closing a descriptor drops a process's POSIX locks on the file. SQLite holds none on the log. */
void database_keep_spare(const char *path, uint64_t bytes)
{
    char log[FILE_PATH_BYTES];
    struct stat about;
    if (snprintf(log, sizeof log, "%s-wal", path) >= (int)sizeof log)
        return;
    const int file = open(log, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    if (fstat(file, &about) == 0)
        (void)fallocate(file, FALLOC_FL_KEEP_SIZE, about.st_size, (off_t)bytes);
    close(file);
}

/* Allocate `bytes` for the file PATH + suffix, creating it if need be. */
static void store_checkpoint_allocate(const char *path, const char *suffix, uint64_t bytes)
{
    char name[FILE_PATH_BYTES];
    if (snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
        return;
    const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    (void)fallocate(file, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    close(file);
}

void database_keep_room(const char *path, uint64_t bytes)
{
    if (access(path, F_OK) != 0)
        return;
    store_checkpoint_allocate(path, "-shm", INDEX_BYTES);
    store_checkpoint_allocate(path, "-wal", bytes);
}
