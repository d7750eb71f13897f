/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/process_times.h"

#include "base/file.h"
#include "insight/kernel_tables.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES_MOST (1u << 18) /* a table beyond this is none that a machine has */
#define ANCESTORS_MOST 256        /* looked at for one that lives: parents may be told in a circle */
#define KEPT_MOST      256        /* files kept open: reading one again takes a third of opening it, too */
#define OTHERS_EVERY   16         /* readings, of processes that are of no set */
#define TEXT_BYTES     2048       /* more than /proc/PID/stat and smaps_rollup have */

struct entry {
    struct kernel_process process;
    uint64_t gone;  /* ticks seen of its descendants that have ended since the reading before */
    int descriptor; /* of its stat, or -1; the newest reading has it */
};

/* All processes at one reading, by number. */
struct process_list {
    struct entry *entries;
    uint32_t count, room;
};

struct process_times {
    int root;
    bool read; /* once before */
    uint32_t readings;
    uint32_t kept; /* descriptors */
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

static void forget_descriptor(struct process_times *times, struct entry *entry)
{
    if (entry->descriptor < 0)
        return;
    close(entry->descriptor);
    entry->descriptor = -1;
    times->kept--;
}

/* Close what no newer reading has taken over: files of processes that are gone, or of no set any more. */
static void forget_descriptors(struct process_times *times, struct process_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        forget_descriptor(times, &list->entries[i]);
}

void process_times_close(struct process_times *times)
{
    if (!times)
        return;
    forget_descriptors(times, &times->now);
    forget_descriptors(times, &times->before);
    free(times->now.entries);
    free(times->before.entries);
    free(times);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static weft_status list_grow(struct process_list *list, struct error *error)
{
    const uint32_t room = list->room ? 2 * list->room : 256;
    struct entry *larger = realloc(list->entries, room * sizeof *larger);
    if (!larger)
        return error_memory(error, room * sizeof *larger, "a table of processes");
    list->entries = larger;
    list->room = room;
    return WEFT_OK;
}

static int by_number(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return (a->process.process > b->process.process) - (a->process.process < b->process.process);
}

static struct entry *find(const struct process_list *list, int32_t number)
{
    const struct entry key = {.process.process = number};
    return list->count ? bsearch(&key, list->entries, list->count, sizeof key, by_number) : NULL;
}

/* The same process in another reading: a number may have been given to a new one. */
static struct entry *find_same(const struct process_list *list, const struct kernel_process *process)
{
    struct entry *found = find(list, process->process);
    return found && found->process.start == process->start ? found : NULL;
}

/* One step up from `process` (its parent in the same reading), `step` of them done: NULL at the top, or after so many
 * that they must go round in a circle. */
static const struct kernel_process *step_up(const struct process_list *list, const struct kernel_process *process,
                                            int step)
{
    const struct entry *parent = step < ANCESTORS_MOST && process->parent > 0 ? find(list, process->parent) : NULL;
    return parent ? &parent->process : NULL;
}

/* Whether a set holds a process for the sake of `above`, which is the process itself at step 0, and then one above it.
 */
static bool is_held(const struct process_set *set, const struct kernel_process *above, int step)
{
    return set->ancestor ? above->process == set->ancestor : step == 0 && above->group == set->group;
}

static bool is_of_a_set(const struct process_list *list, const struct kernel_process *process,
                        const struct process_set *sets, uint32_t count)
{
    int step = 0;
    for (const struct kernel_process *above = process; above; above = step_up(list, above, step++))
        for (uint32_t s = 0; s < count; s++)
            if (is_held(&sets[s], above, step))
                return true;
    return false;
}

/* Read an open file again, from its beginning. */
static bool read_again(int descriptor, char text[TEXT_BYTES])
{
    const ssize_t length = pread(descriptor, text, TEXT_BYTES - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Read one for the first time, and keep its file where it is to be read `often`. */
static bool read_first(struct process_times *times, int folder, const char *number, bool often, char text[TEXT_BYTES],
                       int *kept)
{
    char path[64];
    snprintf(path, sizeof path, "%.16s/stat", number);
    if (!often || times->kept >= KEPT_MOST)
        return file_read_small(folder, path, text, TEXT_BYTES) > 0;
    *kept = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*kept < 0)
        return false;
    times->kept++;
    return read_again(*kept, text);
}

/*
 * Fill `entry` with the process called `number`; false: there is none. One of no set is read the first time, and then
 * only now and then, by turns: what it uses is of use when it ends, and its parent, of some set, is handed its time.
 */
static bool read_process(struct process_times *times, int folder, const char *number, const struct process_set *sets,
                         uint32_t count, struct entry *entry)
{
    char text[TEXT_BYTES];
    const long wanted = strtol(number, NULL, 10);
    struct entry *before = find(&times->before, (int32_t)wanted);
    const bool often = before && is_of_a_set(&times->before, &before->process, sets, count);
    *entry = (struct entry){.descriptor = -1};
    if (before && !often && ((uint32_t)wanted + times->readings) % OTHERS_EVERY != 0) {
        entry->process = before->process;
        return true;
    }
    bool found = false;
    if (often && before->descriptor >= 0) {
        entry->descriptor = before->descriptor;
        before->descriptor = -1;
        found = read_again(entry->descriptor, text);
        if (!found) /* it has ended, and its number has been given again */
            forget_descriptor(times, entry);
    }
    if (!found)
        found = read_first(times, folder, number, often, text, &entry->descriptor);
    if (found && kernel_process_parse(text, &entry->process) && entry->process.process == wanted)
        return true;
    forget_descriptor(times, entry);
    return false;
}

static weft_status read_processes(struct process_times *times, const struct process_set *sets, uint32_t count,
                                  struct error *error)
{
    struct process_list *list = &times->now;
    weft_status status = WEFT_OK;
    bool sorted = true;
    list->count = 0;
    const int descriptor = openat(times->root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!folder) {
        if (descriptor >= 0)
            close(descriptor);
        return WEFT_OK;
    }
    for (struct dirent *name; status == WEFT_OK && list->count < PROCESSES_MOST && (name = readdir(folder));) {
        if (name->d_name[0] < '1' || name->d_name[0] > '9')
            continue;
        if (list->count == list->room)
            status = list_grow(list, error);
        if (status != WEFT_OK ||
            !read_process(times, dirfd(folder), name->d_name, sets, count, &list->entries[list->count]))
            continue;
        sorted =
            sorted && (list->count == 0 || by_number(&list->entries[list->count - 1], &list->entries[list->count]) < 0);
        list->count++;
    }
    closedir(folder);
    if (!sorted)
        qsort(list->entries, list->count, sizeof *list->entries, by_number);
    times->readings++;
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

/* ---- reckoning -------------------------------------------------------------------------------------------------- */

static uint64_t add(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

/* What was seen of processes that have ended is in the counters of the nearest ancestor that lives, or in nobody's. */
static void note_gone(struct process_times *times)
{
    const struct process_list *before = &times->before;
    for (uint32_t i = 0; i < before->count; i++) {
        const struct kernel_process *ended = &before->entries[i].process, *above = ended;
        if (find_same(&times->now, ended))
            continue;
        for (int step = 0; (above = step_up(before, above, step)); step++) {
            struct entry *alive = find_same(&times->now, above);
            if (!alive)
                continue;
            alive->gone = add(alive->gone, add(ended->own, ended->children));
            break;
        }
    }
}

/* Ticks that a process, and children that it has got the time of, have used since the reading before. */
static uint64_t increase_of(const struct process_times *times, uint32_t index)
{
    static const struct kernel_process nothing; /* of one that was born since */
    const struct entry *entry = &times->now.entries[index], *found = find_same(&times->before, &entry->process);
    const struct kernel_process *process = &entry->process, *before = found ? &found->process : &nothing;
    return add(less(process->own, before->own), less(less(process->children, before->children), entry->gone));
}

static void take_process(const struct process_times *times, uint32_t index, bool proportional, struct process_set *set)
{
    const struct kernel_process *process = &times->now.entries[index].process;
    set->processes++;
    set->resident = add(set->resident, process->resident);
    set->ticks = add(set->ticks, times->read ? increase_of(times, index) : 0);
    if (proportional)
        set->proportional = add(set->proportional, read_proportional(times->root, process->process));
}

weft_status process_times_read(struct process_times *times, struct process_set *sets, uint32_t count, bool proportional,
                               struct error *error)
{
    const struct process_list swap = times->before;
    times->before = times->now;
    times->now = swap;
    weft_status status = read_processes(times, sets, count, error);
    forget_descriptors(times, &times->before);
    if (status != WEFT_OK) {
        times->read = false;
        return status;
    }
    note_gone(times);
    for (uint32_t s = 0; s < count; s++) {
        sets[s].processes = 0;
        sets[s].resident = sets[s].proportional = 0;
    }
    for (uint32_t i = 0; i < times->now.count; i++) {
        int step = 0;
        const struct kernel_process *above = &times->now.entries[i].process;
        for (; above; above = step_up(&times->now, above, step++))
            for (uint32_t s = 0; s < count; s++)
                if (is_held(&sets[s], above, step))
                    take_process(times, i, proportional, &sets[s]);
    }
    times->read = true;
    return WEFT_OK;
}
