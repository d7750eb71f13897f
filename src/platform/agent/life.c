/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's lock, and cleaning up after a dead agent. */
#include "platform/agent/internal/life.h"
#include "base/clock.h"
#include "base/hash.h"
#include "platform/agent/agent.h"
#include "platform/agent/internal/process.h"
#include "platform/agent/journal/file.h"
#include "platform/agent/limits.h"
#include "platform/agent/link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLDER_SECONDS 5.0 /* for the agent of an older attempt to end its node, before it is killed */
#define KILL_SECONDS  5.0

/* The process id in a lock; 0 if it is empty. */
static int64_t life_read_number(int lock)
{
    char text[24] = "";
    ssize_t n = pread(lock, text, sizeof text - 1, 0);
    return n > 0 ? atoll(text) : 0;
}

static weft_status read_life(const char *directory, enum node_life *life, int64_t *process, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, directory, "lock", error);
    if (status != WEFT_OK)
        return status;
    int lock = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0) {
        *life = NODE_NOT_BEGUN;
        return errno == ENOENT || errno == ENOTDIR ? WEFT_OK : error_system(error, "cannot open '%s'", path);
    }
    *life = NODE_LIVES;
    if (flock(lock, LOCK_SH | LOCK_NB) == 0) { /* shared: several may look at a time */
        char ended[8] = "";
        ssize_t n = pread(lock, ended, sizeof ended - 1, 0);
        *life = n <= 0 ? NODE_NOT_BEGUN : strncmp(ended, "ended", 5) == 0 ? NODE_HAS_ENDED : NODE_IS_DEAD;
    }
    *process = life_read_number(lock);
    close(lock);
    return WEFT_OK;
}

enum node_life node_agent_life(const char *directory, int64_t *process)
{
    enum node_life life;
    int64_t number = 0;
    weft_status status = read_life(directory, &life, &number, NULL);
    if (process)
        *process = number;
    return status == WEFT_OK ? life : NODE_NOT_BEGUN;
}

weft_status node_lock_take(const char *directory, int *lock, bool *taken, bool *begun, struct error *error)
{
    char path[FILE_PATH_BYTES], text[8] = "";
    *taken = *begun = false;
    weft_status status = file_join(path, directory, "lock", error);
    if (status != WEFT_OK)
        return status;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return error_system(error, "cannot create '%s'", path);
    /* read_life() holds it for some microseconds. */
    for (int attempt = 0; attempt < 200 && !*taken; attempt++) {
        *taken = flock(file, LOCK_EX | LOCK_NB) == 0;
        if (!*taken && life_read_number(file) > 0 && attempt > 20)
            break;
        if (!*taken)
            poll(NULL, 0, 1);
    }
    if (!*taken) {
        close(file);
        return WEFT_OK;
    }
    *begun = pread(file, text, sizeof text - 1, 0) > 0;
    *lock = file;
    return WEFT_OK;
}

void node_lock_write(int lock, const char *text)
{
    const size_t length = strlen(text);
    (void)!pwrite(lock, text, length,
                  0); /* first write, then truncate: if killed in between, it must not look as if it had not begun */
    (void)!ftruncate(lock, (off_t)length);
}

void node_cgroup_name(const struct attempt *attempt, uint32_t node, const char *directory, char *name, size_t room)
{
    snprintf(name, room, "weft-%s-%" PRIu64 "-%" PRIu32 "-%08" PRIx32, attempt->run, attempt->epoch, node,
             (uint32_t)hash_text(directory, 0));
}

/* Kill what is left of a node. */
static void kill_rest(const char *directory)
{
    struct node_order order;
    node_process_sweep(directory);
    if (node_order_load(directory, &order, NULL) != WEFT_OK)
        return;
    struct cgroup group;
    node_limits_find(&order, directory, &group);
    cgroup_kill(&group, KILL_SECONDS);
    cgroup_remove(&group);
    node_order_free(&order);
}

/* Append the end to a journal that has none: JOURNAL_LOST, or, if `order` is given because the run has killed its
 * agent, JOURNAL_EXITED. */
static weft_status life_write_end(const char *directory, const struct node_order *order, const char *message,
                                  struct error *error)
{
    char path[FILE_PATH_BYTES], killed[256];
    struct journal_writer journal;
    weft_status status = file_join(path, directory, "journal", error);
    if (status == WEFT_OK)
        status = journal_writer_open(&journal, path, NULL, error);
    if (status == WEFT_OK) {
        struct journal_record end = {.kind = JOURNAL_LOST, .text = message, .size = (uint32_t)strlen(message)};
        if (order) {
            const int length =
                snprintf(killed, sizeof killed,
                         "the run's agent on host %.100s was killed, by the run itself or its user", order->host);
            end = (struct journal_record){.kind = JOURNAL_EXITED, .text = killed};
            if (journal.time) /* the agent may have died long ago; the run has not used its slots since */
                end.time = journal.time + order->heartbeat * 1000;
            end.size = (uint32_t)length;
            end.exited.signal = SIGKILL;
            end.exited.cause = JOURNAL_AGENT_KILLED;
        }
        if (!journal.ended)
            status = journal_append(&journal, &end, error);
        if (status == WEFT_OK)
            status = journal_sync(&journal, error);
        journal_writer_close(&journal);
    }
    return status;
}

/* Whether the dead agent of this order was killed by its run or the run's user. */
static bool run_has_killed(const char *directory, const struct node_order *order)
{
    const struct node_place place = {.order = order, .directory = directory};
    char path[FILE_PATH_BYTES], text[FILE_PATH_BYTES + 32] = "";
    struct cgroup_kills before = {0}, now;
    if (node_process_user(&place) != geteuid())
        return false;
    if (file_join(path, directory, "kills", NULL) != WEFT_OK || file_read_small(AT_FDCWD, path, text, sizeof text) <= 0)
        return false; /* the run had not started */
    char *end;
    before.count = strtoull(text, &end, 10);
    snprintf(before.file, sizeof before.file, "%s", *end == ' ' ? end + 1 : "");
    now = before;
    return !cgroup_kills_read(&now) || now.count == before.count;
}

void node_kills_note(const char *directory)
{
    char path[FILE_PATH_BYTES];
    struct cgroup_kills kills;
    if (!cgroup_kills_find("", &kills))
        kills = (struct cgroup_kills){0};
    const int file =
        file_join(path, directory, "kills", NULL) == WEFT_OK ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    dprintf(file, "%" PRIu64 " %s", kills.count, kills.file); /* not synced: useless after a crash */
    close(file);
}

static weft_status bury(const char *directory, const struct node_order *killed, const char *message,
                        struct error *error)
{
    bool taken, begun;
    int lock;
    weft_status status = node_lock_take(directory, &lock, &taken, &begun, error);
    if (status != WEFT_OK || !taken)
        return status;
    kill_rest(directory);
    status = life_write_end(directory, killed, message, error);
    if (status == WEFT_OK)
        node_lock_write(lock, "ended\n");
    close(lock);
    return status;
}

weft_status node_agent_bury(const char *directory, const char *message, struct error *error)
{
    return bury(directory, NULL, message, error);
}

weft_status node_agent_bury_killed(const char *directory, struct error *error)
{
    struct node_order order;
    const bool known = node_order_load(directory, &order, NULL) == WEFT_OK;
    const weft_status status = bury(directory, known && run_has_killed(directory, &order) ? &order : NULL,
                                    "its agent was killed, and everything with it", error);
    if (known)
        node_order_free(&order);
    return status;
}

weft_status node_agent_gone(const char *directory, bool kill_it, bool *gone, struct error *error)
{
    enum node_life life;
    int64_t process = 0;
    bool taken, begun;
    int lock;
    weft_status status = read_life(directory, &life, &process, error);
    if (status != WEFT_OK)
        return status;
    *gone = life == NODE_HAS_ENDED || (life == NODE_NOT_BEGUN && !file_is_directory(directory));
    if (*gone || (life == NODE_NOT_BEGUN && !kill_it))
        return WEFT_OK;
    if (life == NODE_LIVES) {
        if (kill_it && process > 1 && kill((pid_t)process, SIGKILL) != 0 && errno != ESRCH)
            return error_system(error, "cannot kill the agent of '%s'", directory);
        return WEFT_OK;
    }
    status = node_lock_take(directory, &lock, &taken, &begun, error);
    if (status != WEFT_OK || !taken)
        return status;
    kill_rest(directory);
    if (kill_it) { /* also if that failed */
        (void)life_write_end(directory, NULL, "it was killed, as nothing could be heard of it", NULL);
        node_lock_write(lock, "ended\n");
    }
    close(lock);
    *gone = true;
    return WEFT_OK;
}

/* ---- older attempts ---- */

/* End the node in `directory`, of an older attempt. */
static void end_older_node(const char *directory)
{
    uint64_t end = clock_after(OLDER_SECONDS);
    int64_t process = 0;
    enum node_life life;
    (void)node_wake(directory, NULL);
    while ((life = node_agent_life(directory, &process)) == NODE_LIVES && clock_now() < end)
        poll(NULL, 0, 5);
    if (life == NODE_LIVES && process > 1) {
        kill((pid_t)process, SIGKILL); /* it is stopped or stuck */
        end = clock_after(OLDER_SECONDS);
        while ((life = node_agent_life(directory, NULL)) == NODE_LIVES && clock_now() < end)
            poll(NULL, 0, 5);
    }
    if (life == NODE_IS_DEAD)
        node_agent_bury(directory, "its agent had to be killed, as a newer attempt of the run was started", NULL);
}

/* Each entry of a directory whose name is a number below `bound`. */
static void each_number(const char *directory, uint64_t bound, void (*visit)(const char *path))
{
    DIR *listing = opendir(directory);
    for (const char *name; (name = file_listing_next(listing));) {
        char path[FILE_PATH_BYTES], *end;
        const uint64_t number = strtoull(name, &end, 10);
        if (end != name && !*end && number < bound && file_join(path, directory, name, NULL) == WEFT_OK)
            visit(path);
    }
    file_listing_close(listing);
}

static void end_older_attempt(const char *directory)
{
    each_number(directory, UINT64_MAX, end_older_node);
}

void node_life_end_older(const char *root, const struct attempt *attempt)
{
    struct attempt run = *attempt;
    char directory[FILE_PATH_BYTES];
    run.epoch = 0;
    if (node_directory(directory, root, &run, 0, NULL) == WEFT_OK)
        each_number(directory, attempt->epoch, end_older_attempt);
}
