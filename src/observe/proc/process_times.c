/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/proc/process_times.h"

#include "base/file/file.h"
#include "observe/proc/kernel_tables.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANCESTORS_MOST 256        /* steps from a process upward; a damaged tree may be circular */
#define PROCESSES_MOST (1u << 18) /* more than a host has; bounds the walk down a damaged tree */
#define TEXT_BYTES     2048       /* more than /proc/PID/stat and smaps_rollup have */

struct process_times_entry {
    struct kernel_process process;
    uint64_t gone; /* ticks counted for its descendants that have ended since the previous reading */
};

/* The processes of the sets at one reading, by increasing number. */
struct process_list {
    struct process_times_entry *entries;
    size_t count, room;
};

/* Numbers of processes to be read. */
struct process_numbers {
    int32_t *items;
    size_t count, room;
};

struct process_times {
    int root;
    struct process_list now, before;
};

weft_status process_times_open(int root, struct process_times **times, struct error *error)
{
    struct process_times *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a table of processes");
    made->root = root;
    *times = made;
    return WEFT_OK;
}

void process_times_close(struct process_times *times)
{
    if (!times)
        return;
    free(times->now.entries);
    free(times->before.entries);
    free(times);
}

/* ---- finding processes ---- */

static weft_status process_numbers_add(struct process_numbers *numbers, int32_t number, struct error *error)
{
    if (number <= 0 || numbers->count == PROCESSES_MOST)
        return WEFT_OK;
    weft_status status =
        ARRAY_RESERVE(numbers->items, numbers->room, numbers->count + 1, "numbers of processes", error);
    if (status == WEFT_OK)
        numbers->items[numbers->count++] = number;
    return status;
}

/* The next entry of a directory whose name is a number, which every process and thread has; NULL at the end. */
static const char *process_directory_next(DIR *directory)
{
    const char *name = file_listing_next(directory);
    while (name && (*name < '1' || *name > '9'))
        name = file_listing_next(directory);
    return name;
}

/* The children of one thread; a thread that has just ended has none. */
static weft_status process_add_thread_children(struct process_numbers *numbers, int tasks, const char *thread,
                                               struct error *error)
{
    char path[64];
    weft_status status = WEFT_OK;
    snprintf(path, sizeof path, "%.16s/children", thread);
    const int descriptor = openat(tasks, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *children = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!children) {
        file_close(descriptor);
        return WEFT_OK;
    }
    for (int number; status == WEFT_OK && fscanf(children, "%d", &number) == 1;)
        status = process_numbers_add(numbers, number, error);
    fclose(children);
    return status;
}

static weft_status process_add_children(struct process_numbers *numbers, int root, int32_t process, struct error *error)
{
    char path[64];
    weft_status status = WEFT_OK;
    snprintf(path, sizeof path, "proc/%d/task", process);
    DIR *tasks = file_listing_open(root, path, 0);
    for (const char *thread; status == WEFT_OK && (thread = process_directory_next(tasks));)
        status = process_add_thread_children(numbers, dirfd(tasks), thread, error);
    file_listing_close(tasks);
    return status;
}

static weft_status process_add_all(struct process_numbers *numbers, int root, struct error *error)
{
    weft_status status = WEFT_OK;
    DIR *directory = file_listing_open(root, "proc", 0);
    for (const char *name; status == WEFT_OK && (name = process_directory_next(directory));)
        status = process_numbers_add(numbers, (int32_t)strtol(name, NULL, 10), error);
    file_listing_close(directory);
    return status;
}

static int process_number_compare(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/*
 * The processes that may be in the sets, each once. Those of the previous reading are included: the walk misses a
 * process that is given to a new parent at the same time, and it must not be taken for one that has ended.
 */
static weft_status process_numbers_choose(const struct process_times *times, const struct process_set *sets,
                                          uint32_t count, struct process_numbers *numbers, struct error *error)
{
    weft_status status = WEFT_OK;
    if (faccessat(times->root, "proc/thread-self/children", F_OK, 0) == 0) {
        for (uint32_t s = 0; s < count && status == WEFT_OK; s++)
            status = process_numbers_add(numbers, sets[s].ancestor, error);
        for (size_t i = 0; i < numbers->count && status == WEFT_OK; i++)
            status = process_add_children(numbers, times->root, numbers->items[i], error);
        for (size_t i = 0; i < times->before.count && status == WEFT_OK; i++)
            status = process_numbers_add(numbers, times->before.entries[i].process.process, error);
    } else {
        status = process_add_all(numbers, times->root, error);
    }
    size_t kept = 0;
    if (numbers->count)
        qsort(numbers->items, numbers->count, sizeof *numbers->items, process_number_compare);
    for (size_t i = 0; i < numbers->count; i++)
        if (i == 0 || numbers->items[i] != numbers->items[kept - 1])
            numbers->items[kept++] = numbers->items[i];
    numbers->count = kept;
    return status;
}

/* ---- reading ---- */

static bool process_read(int root, int32_t number, struct kernel_process *process)
{
    char path[64], text[TEXT_BYTES];
    snprintf(path, sizeof path, "proc/%d/stat", number);
    return file_read_small(root, path, text, sizeof text) > 0 && kernel_process_parse(text, process) &&
           process->process == number;
}

static weft_status process_list_read(struct process_times *times, const struct process_set *sets, uint32_t count,
                                     struct error *error)
{
    struct process_numbers numbers = {0};
    struct process_list *list = &times->now;
    list->count = 0;
    weft_status status = process_numbers_choose(times, sets, count, &numbers, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(list->entries, list->room, numbers.count, "a table of processes", error);
    for (size_t i = 0; i < numbers.count && status == WEFT_OK; i++) {
        struct process_times_entry *entry = &list->entries[list->count];
        *entry = (struct process_times_entry){0};
        list->count += process_read(times->root, numbers.items[i], &entry->process);
    }
    free(numbers.items);
    return status;
}

/* PSS in bytes; 0 where it may not be read. */
static uint64_t read_proportional(int root, int32_t process)
{
    char path[64], text[TEXT_BYTES];
    snprintf(path, sizeof path, "proc/%d/smaps_rollup", process);
    if (file_read_small(root, path, text, sizeof text) <= 0)
        return 0;
    const uint64_t kib = kernel_number_of(text, "Pss", 0);
    return kib > UINT64_MAX / 1024 ? 0 : kib * 1024;
}

/* ---- counting ---- */

static uint64_t process_times_add(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

static int process_times_by_number(const void *left, const void *right)
{
    const struct process_times_entry *a = left, *b = right;
    return process_number_compare(&a->process.process, &b->process.process);
}

static struct process_times_entry *process_times_find(const struct process_list *list, int32_t number)
{
    const struct process_times_entry key = {.process.process = number};
    return list->count ? bsearch(&key, list->entries, list->count, sizeof key, process_times_by_number) : NULL;
}

/* The same process in another reading: its number may have been reused. */
static struct process_times_entry *find_same(const struct process_list *list, const struct kernel_process *process)
{
    struct process_times_entry *found = process_times_find(list, process->process);
    return found && found->process.start == process->start ? found : NULL;
}

/* The parent of `process` in the same reading; NULL at the top, or after too many steps. */
static const struct kernel_process *step_up(const struct process_list *list, const struct kernel_process *process,
                                            int step)
{
    const struct process_times_entry *parent =
        step < ANCESTORS_MOST && process->parent > 0 ? process_times_find(list, process->parent) : NULL;
    return parent ? &parent->process : NULL;
}

/* Counted time of processes that have ended is now in the counters of their nearest living ancestor, or nowhere. */
static void note_gone(struct process_times *times)
{
    const struct process_list *before = &times->before;
    for (size_t i = 0; i < before->count; i++) {
        const struct kernel_process *ended = &before->entries[i].process, *above = ended;
        if (find_same(&times->now, ended))
            continue;
        for (int step = 0; (above = step_up(before, above, step)); step++) {
            struct process_times_entry *alive = find_same(&times->now, above);
            if (!alive)
                continue;
            alive->gone = process_times_add(alive->gone, process_times_add(ended->own, ended->children));
            break;
        }
    }
}

/* Ticks of a process, and of children whose time it has inherited, since the previous reading or its birth. */
static uint64_t increase_of(const struct process_times *times, const struct process_times_entry *entry)
{
    static const struct kernel_process nothing;
    const struct process_times_entry *found = find_same(&times->before, &entry->process);
    const struct kernel_process *process = &entry->process, *before = found ? &found->process : &nothing;
    return process_times_add(less(process->own, before->own),
                             less(less(process->children, before->children), entry->gone));
}

/* Add a process to the set of `ancestor`. A set that was not there before has not used anything yet. */
static void process_set_take(const struct process_times *times, const struct process_times_entry *entry,
                             const struct kernel_process *ancestor, bool proportional, struct process_set *set)
{
    set->processes++;
    set->resident = process_times_add(set->resident, entry->process.resident);
    if (find_same(&times->before, ancestor))
        set->ticks = process_times_add(set->ticks, increase_of(times, entry));
    if (proportional)
        set->proportional =
            process_times_add(set->proportional, read_proportional(times->root, entry->process.process));
}

weft_status process_times_read(struct process_times *times, struct process_set *sets, uint32_t count, bool proportional,
                               struct error *error)
{
    const struct process_list swap = times->before;
    times->before = times->now;
    times->now = swap;
    weft_status status = process_list_read(times, sets, count, error);
    if (status != WEFT_OK) {
        times->now.count = 0; /* the next reading begins again */
        return status;
    }
    note_gone(times);
    for (uint32_t s = 0; s < count; s++) {
        sets[s].processes = 0;
        sets[s].resident = sets[s].proportional = 0;
    }
    for (size_t i = 0; i < times->now.count; i++) {
        const struct process_times_entry *entry = &times->now.entries[i];
        const struct kernel_process *above = &entry->process;
        for (int step = 0; above; above = step_up(&times->now, above, step++))
            for (uint32_t s = 0; s < count; s++)
                if (above->process == sets[s].ancestor)
                    process_set_take(times, entry, above, proportional, &sets[s]);
    }
    return WEFT_OK;
}
