/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/proc/internal/process_table.h"

#include "base/file/file.h"
#include "base/hash.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 2048 /* more than /proc/PID/stat has */

static_assert(sizeof(struct process_table_head) == 48, "no bytes between the members of a head");
static_assert(sizeof(struct kernel_process) == 48, "what is in the file is as it is in memory");

/* A table in memory of its own, which goes back to the machine as a whole: agents are many, and read seldom. */
struct process_table_content {
    void *bytes;
    size_t size; /* mapped; 0: there is none */
    const struct process_table_head *head;
    const struct kernel_process *processes;
};

struct process_table {
    char path[FILE_PATH_BYTES], next[FILE_PATH_BYTES], lock[FILE_PATH_BYTES];
    int root;
    uint64_t interval; /* nanoseconds */
    uint64_t walks;
    struct process_table_content content;
};

weft_status process_table_open(const char *path, int root, double seconds, struct process_table **table,
                               struct error *error)
{
    struct process_table *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a table of processes");
    made->root = root;
    made->interval = seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
    if (snprintf(made->path, sizeof made->path, "%s", path) >= (int)sizeof made->path ||
        snprintf(made->next, sizeof made->next, "%s.new", path) >= (int)sizeof made->next ||
        snprintf(made->lock, sizeof made->lock, "%s.lock", path) >= (int)sizeof made->lock) {
        free(made);
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
    }
    *table = made;
    return WEFT_OK;
}

static void content_free(struct process_table_content *content)
{
    if (content->size)
        munmap(content->bytes, content->size);
    *content = (struct process_table_content){0};
}

void process_table_release(struct process_table *table)
{
    content_free(&table->content);
}

void process_table_close(struct process_table *table)
{
    if (!table)
        return;
    process_table_release(table);
    free(table);
}

uint64_t process_table_walks(const struct process_table *table)
{
    return table->walks;
}

/* ---- listing a machine ---- */

weft_status process_walk(int root, process_walk_visit *visit, void *context, struct error *error)
{
    weft_status status = WEFT_OK;
    const int descriptor = openat(root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!directory) {
        if (descriptor >= 0)
            close(descriptor);
        return WEFT_OK;
    }
    for (struct dirent *name; status == WEFT_OK && (name = readdir(directory));)
        if (name->d_name[0] >= '1' && name->d_name[0] <= '9')
            status = visit(context, dirfd(directory), name->d_name, error);
    closedir(directory);
    return status;
}

/* ---- what is in the file ---- */

uint64_t process_table_checksum(const struct process_table_head *head, const struct kernel_process *processes)
{
    const uint64_t seed = hash_bytes(head, offsetof(struct process_table_head, checksum), 0);
    return hash_bytes(processes, head->count * sizeof *processes, seed);
}

bool process_table_parse(const void *bytes, size_t size, uint64_t machine, const struct process_table_head **head,
                         const struct kernel_process **processes)
{
    const struct process_table_head *found = bytes;
    const struct kernel_process *list = (const struct kernel_process *)(found + 1);
    if (size < sizeof *found || memcmp(found->magic, PROCESS_TABLE_MAGIC, sizeof found->magic) != 0 ||
        found->machine != machine || found->count > PROCESS_TABLE_MOST ||
        size - sizeof *found != found->count * sizeof *list || found->checksum != process_table_checksum(found, list))
        return false;
    for (uint64_t i = 0; i < found->count; i++)
        if (list[i].process <= (i ? list[i - 1].process : 0))
            return false;
    *head = found;
    *processes = list;
    return true;
}

/* ---- reading ---- */

static uint64_t boot_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* By what a machine is told from itself after a start, and numbers of processes from those of another container. */
static uint64_t process_table_machine_of(int root)
{
    char boot[64];
    struct stat numbers = {0};
    file_read_small(root, "proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (fstatat(root, "proc/self/ns/pid", &numbers, 0) != 0)
        numbers.st_ino = 0;
    return hash_number(numbers.st_ino, hash_text(boot, 0));
}

static bool content_make(struct process_table_content *content, size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return false;
    *content = (struct process_table_content){.bytes = bytes, .size = size};
    return true;
}

static bool process_table_read_all(int file, char *bytes, size_t size)
{
    size_t done = 0;
    for (ssize_t got = 1; done < size && got != 0;) {
        got = read(file, bytes + done, size - done);
        if (got < 0 && errno != EINTR)
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return done == size;
}

/* The table as it is in the file; false: there is none that is right. */
static bool process_table_load(struct process_table *table)
{
    const size_t most = sizeof(struct process_table_head) + PROCESS_TABLE_MOST * sizeof(struct kernel_process);
    struct process_table_content *content = &table->content;
    struct stat status;
    content_free(content);
    const int file = open(table->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    bool right = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                 (status.st_mode & 077) == 0 && status.st_size >= (off_t)sizeof(struct process_table_head) &&
                 status.st_size <= (off_t)most && content_make(content, (size_t)status.st_size);
    right = right && process_table_read_all(file, content->bytes, content->size) &&
            process_table_parse(content->bytes, content->size, process_table_machine_of(table->root), &content->head,
                                &content->processes);
    close(file);
    if (!right)
        content_free(content);
    return right;
}

/* Whether there is a table that was read at most `age` nanoseconds ago. */
static bool is_younger(const struct process_table *table, uint64_t age)
{
    const uint64_t now = boot_clock();
    return table->content.size && table->content.head->moment <= now && now - table->content.head->moment <= age;
}

/* ---- renewing ---- */

struct walk {
    const struct process_table_head *before; /* NULL: there is no table that can be taken over */
    const struct kernel_process *known;
    struct process_table_head head;
    struct kernel_process *processes; /* of the table that is made, in pages of its own */
    uint32_t room;
    bool sorted;
};

static int process_table_by_number(const void *left, const void *right)
{
    const struct kernel_process *a = left, *b = right;
    return (a->process > b->process) - (a->process < b->process);
}

static const struct kernel_process *find_known(const struct walk *walk, int32_t number)
{
    const struct kernel_process key = {.process = number};
    return walk->before ? bsearch(&key, walk->known, walk->before->count, sizeof key, process_table_by_number) : NULL;
}

static weft_status process_table_take_process(void *context, int directory, const char *number, struct error *error)
{
    struct walk *walk = context;
    char path[64], text[TEXT_BYTES];
    const long wanted = strtol(number, NULL, 10);
    if (walk->head.count == walk->room)
        return error_set(error, WEFT_ERROR_STATE, "there are more processes than the table has room for");
    struct kernel_process *process = &walk->processes[walk->head.count];
    const struct kernel_process *known = find_known(walk, (int32_t)wanted);
    memset(process, 0, sizeof *process);
    if (known && ((uint64_t)wanted + walk->head.walks) % PROCESS_TABLE_TURNS != 0) {
        *process = *known;
    } else {
        snprintf(path, sizeof path, "%.16s/stat", number);
        if (file_read_small(directory, path, text, sizeof text) <= 0 || !kernel_process_parse(text, process) ||
            process->process != wanted)
            return WEFT_OK;
    }
    walk->sorted = walk->sorted && (walk->head.count == 0 || process_table_by_number(process - 1, process) < 0);
    walk->head.count++;
    return WEFT_OK;
}

/* A name that comes twice, as processes come and go while they are listed, is one process. */
static void sort_processes(struct walk *walk)
{
    uint64_t kept = 0;
    if (walk->sorted)
        return;
    qsort(walk->processes, walk->head.count, sizeof *walk->processes, process_table_by_number);
    for (uint64_t i = 0; i < walk->head.count; i++)
        if (i == 0 || walk->processes[i].process != walk->processes[kept - 1].process)
            walk->processes[kept++] = walk->processes[i];
    walk->head.count = kept;
}

static bool process_table_write_all(int file, const char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t put = write(file, bytes + done, size - done);
        if (put < 0 && errno != EINTR)
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* Have others find it. Nothing is synced: after a power cut it is of no use to anybody. */
static void process_table_publish(const struct process_table *table, const void *bytes, size_t size)
{
    const int file = open(table->next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    const bool whole = file >= 0 && fchmod(file, 0600) == 0 && process_table_write_all(file, bytes, size);
    if (file >= 0)
        close(file);
    if (!whole || rename(table->next, table->path) != 0)
        unlink(table->next);
}

/* List the machine; what there was before says what is known. False: memory ran out, or there is too much. */
static bool process_table_renew(struct process_table *table)
{
    struct process_table_content made;
    const bool known = is_younger(table, 2 * table->interval);
    struct walk walk = {.before = known ? table->content.head : NULL,
                        .known = table->content.processes,
                        .head = {.machine = process_table_machine_of(table->root), .moment = boot_clock()},
                        .room = PROCESS_TABLE_MOST,
                        .sorted = true};
    /* Room for all there can be; only what is written to becomes memory. */
    if (!content_make(&made, sizeof walk.head + PROCESS_TABLE_MOST * sizeof *walk.processes))
        return false;
    walk.processes = (struct kernel_process *)((struct process_table_head *)made.bytes + 1);
    walk.head.walks = table->content.size ? table->content.head->walks + 1 : 1;
    memcpy(walk.head.magic, PROCESS_TABLE_MAGIC, sizeof walk.head.magic);
    table->walks++;
    const weft_status status = process_walk(table->root, process_table_take_process, &walk, NULL);
    if (status != WEFT_OK) {
        content_free(&made);
        return false;
    }
    sort_processes(&walk);
    walk.head.checksum = process_table_checksum(&walk.head, walk.processes);
    memcpy(made.bytes, &walk.head, sizeof walk.head);
    made.head = made.bytes;
    made.processes = walk.processes;
    process_table_publish(table, made.bytes, sizeof walk.head + walk.head.count * sizeof *walk.processes);
    content_free(&table->content);
    table->content = made;
    return true;
}

/* The lock, if nobody has it: closing gives it back, and so does the end of a process. -1: somebody has. */
static int take_lock(const struct process_table *table)
{
    const int file = open(table->lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

bool process_table_read(struct process_table *table, const struct kernel_process **processes, uint32_t *count)
{
    bool renewed = false;
    process_table_load(table);
    const int lock = is_younger(table, table->interval / 2) ? -1 : take_lock(table);
    if (lock >= 0) {
        process_table_load(table); /* somebody may have renewed it just now */
        renewed = !is_younger(table, table->interval / 2) && process_table_renew(table);
        close(lock);
    }
    if (!renewed && !is_younger(table, 2 * table->interval)) {
        content_free(&table->content);
        return false;
    }
    *processes = table->content.processes;
    *count = (uint32_t)table->content.head->count;
    return true;
}
