/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/proc/process_times.h"

#include "base/file/file.h"
#include "observe/proc/internal/process_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANCESTORS_MOST 256  /* looked at for one that lives: parents may be told in a circle */
#define KEPT_MOST      256  /* files kept open: reading one again takes a third of opening it, too */
#define TEXT_BYTES     2048 /* more than /proc/PID/stat and smaps_rollup have */

struct process_times_entry {
    struct kernel_process process;
    uint64_t gone;  /* ticks seen of its descendants that have ended since the reading before */
    int descriptor; /* of its stat, or -1; the newest reading has it */
};

/* All processes at one reading, or those that the sets are about, by number. */
struct process_list {
    struct process_times_entry *entries;
    uint32_t count, room;
};

struct process_times {
    int root;
    bool read; /* once before */
    uint32_t readings;
    uint64_t walks; /* through all of the machine's processes */
    uint32_t kept;  /* descriptors */
    struct process_list now, before;
    struct process_table *table; /* NULL: it is not shared */
    uint64_t newest;             /* start of the newest process in the table at the reading before; 0: none was used */
    uint64_t newest_now;         /* and at this one */
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

static void forget_descriptor(struct process_times *times, struct process_times_entry *entry)
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
    process_table_close(times->table);
    free(times->now.entries);
    free(times->before.entries);
    free(times);
}

weft_status process_times_share(struct process_times *times, const char *path, double seconds, struct error *error)
{
    return process_table_open(path, times->root, seconds, &times->table, error);
}

uint64_t process_times_walks(const struct process_times *times)
{
    return times->walks + (times->table ? process_table_walks(times->table) : 0);
}

/* ---- reading ---- */

static weft_status list_grow(struct process_list *list, struct error *error)
{
    const uint32_t room = list->room ? 2 * list->room : 256;
    struct process_times_entry *larger = realloc(list->entries, room * sizeof *larger);
    if (!larger)
        return error_memory(error, room * sizeof *larger, "a table of processes");
    list->entries = larger;
    list->room = room;
    return WEFT_OK;
}

static int process_times_by_number(const void *left, const void *right)
{
    const struct process_times_entry *a = left, *b = right;
    return (a->process.process > b->process.process) - (a->process.process < b->process.process);
}

static struct process_times_entry *process_times_find(const struct process_list *list, int32_t number)
{
    const struct process_times_entry key = {.process.process = number};
    return list->count ? bsearch(&key, list->entries, list->count, sizeof key, process_times_by_number) : NULL;
}

/* The same process in another reading: a number may have been given to a new one. */
static struct process_times_entry *find_same(const struct process_list *list, const struct kernel_process *process)
{
    struct process_times_entry *found = process_times_find(list, process->process);
    return found && found->process.start == process->start ? found : NULL;
}

/* One step up from `process` (its parent in the same reading), `step` of them done: NULL at the top, or after so many
 * that they must go round in a circle. */
static const struct kernel_process *step_up(const struct process_list *list, const struct kernel_process *process,
                                            int step)
{
    const struct process_times_entry *parent =
        step < ANCESTORS_MOST && process->parent > 0 ? process_times_find(list, process->parent) : NULL;
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
static bool process_times_read_again(int descriptor, char text[TEXT_BYTES])
{
    const ssize_t length = pread(descriptor, text, TEXT_BYTES - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Read one for the first time, and keep its file where it is to be read `often`. */
static bool read_first(struct process_times *times, int directory, const char *number, bool often,
                       char text[TEXT_BYTES], int *kept)
{
    char path[64];
    snprintf(path, sizeof path, "%.16s/stat", number);
    if (!often || times->kept >= KEPT_MOST)
        return file_read_small(directory, path, text, TEXT_BYTES) > 0;
    *kept = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*kept < 0)
        return false;
    times->kept++;
    return process_times_read_again(*kept, text);
}

/*
 * Fill `entry` with the process called `number`; false: there is none. One of no set is read the first time, and then
 * only now and then, by turns: what it uses is of use when it ends, and its parent, of some set, is handed its time.
 */
static bool process_times_read_process(struct process_times *times, int directory, const char *number,
                                       const struct process_set *sets, uint32_t count,
                                       struct process_times_entry *entry)
{
    char text[TEXT_BYTES];
    const long wanted = strtol(number, NULL, 10);
    struct process_times_entry *before = process_times_find(&times->before, (int32_t)wanted);
    const bool often = before && is_of_a_set(&times->before, &before->process, sets, count);
    *entry = (struct process_times_entry){.descriptor = -1};
    if (before && !often && ((uint32_t)wanted + times->readings) % PROCESS_TABLE_TURNS != 0) {
        entry->process = before->process;
        return true;
    }
    bool found = false;
    if (often && before->descriptor >= 0) {
        entry->descriptor = before->descriptor;
        before->descriptor = -1;
        found = process_times_read_again(entry->descriptor, text);
        if (!found) /* it has ended, and its number has been given again */
            forget_descriptor(times, entry);
    }
    if (!found)
        found = read_first(times, directory, number, often, text, &entry->descriptor);
    if (found && kernel_process_parse(text, &entry->process) && entry->process.process == wanted)
        return true;
    forget_descriptor(times, entry);
    return false;
}

/* Who reads, and for which sets. */
struct process_times_reading {
    struct process_times *times;
    const struct process_set *sets;
    uint32_t count;
};

/* Read the process of that name, if there is one, to the end of the list. */
static weft_status add_process(void *context, int directory, const char *number, struct error *error)
{
    const struct process_times_reading *reading = context;
    struct process_list *list = &reading->times->now;
    weft_status status = WEFT_OK;
    if (list->count == PROCESS_TABLE_MOST)
        return WEFT_OK;
    if (list->count == list->room)
        status = list_grow(list, error);
    if (status == WEFT_OK && process_times_read_process(reading->times, directory, number, reading->sets,
                                                        reading->count, &list->entries[list->count]))
        list->count++;
    return status;
}

static void sort_list(struct process_list *list)
{
    bool sorted = true;
    for (uint32_t i = 1; i < list->count && sorted; i++)
        sorted = process_times_by_number(&list->entries[i - 1], &list->entries[i]) < 0;
    if (!sorted)
        qsort(list->entries, list->count, sizeof *list->entries, process_times_by_number);
}

/* All processes of the machine. */
static weft_status process_times_read_all(struct process_times_reading *reading, struct error *error)
{
    struct process_times *times = reading->times;
    times->walks++;
    times->newest_now = 0;
    const weft_status status = process_walk(times->root, add_process, reading, error);
    sort_list(&times->now);
    return status;
}

/* ---- reading those that a table names ---- */

/* Numbers of processes, rising. */
struct numbers {
    int32_t *items;
    uint32_t count, room;
};

/* Where `number` is, or belongs. */
static uint32_t process_times_place_of(const struct numbers *numbers, int32_t number)
{
    uint32_t low = 0, high = numbers->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (numbers->items[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool numbers_have(const struct numbers *numbers, int32_t number)
{
    const uint32_t place = process_times_place_of(numbers, number);
    return place < numbers->count && numbers->items[place] == number;
}

static weft_status numbers_add(struct numbers *numbers, int32_t number, struct error *error)
{
    const uint32_t place = process_times_place_of(numbers, number);
    if (number <= 0 || (place < numbers->count && numbers->items[place] == number))
        return WEFT_OK;
    if (numbers->count == numbers->room) {
        const uint32_t room = numbers->room ? 2 * numbers->room : 64;
        int32_t *larger = realloc(numbers->items, room * sizeof *larger);
        if (!larger)
            return error_memory(error, room * sizeof *larger, "numbers of processes");
        numbers->items = larger;
        numbers->room = room;
    }
    memmove(&numbers->items[place + 1], &numbers->items[place], (numbers->count - place) * sizeof number);
    numbers->items[place] = number;
    numbers->count++;
    return WEFT_OK;
}

/* Whether a process, or one above it, is in a set: then its end may bring time to one in a set. */
static bool concerns(const struct process_times_reading *reading, const struct process_list *list,
                     const struct kernel_process *process)
{
    int step = 0;
    for (const struct kernel_process *above = process; above; above = step_up(list, above, step++))
        for (uint32_t s = 0; s < reading->count; s++)
            if (is_held(&reading->sets[s], above, reading->sets[s].ancestor ? step : 0))
                return true;
    return false;
}

/* The processes of the table below those that were chosen: parents come before their children, but where numbers have
 * begun again from the lowest. */
static weft_status choose_below(const struct kernel_process *table, uint32_t count, struct numbers *chosen,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    uint32_t before = 0;
    for (int pass = 0; pass < ANCESTORS_MOST && before != chosen->count && status == WEFT_OK; pass++) {
        before = chosen->count;
        for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
            if (numbers_have(chosen, table[i].parent))
                status = numbers_add(chosen, table[i].process, error);
    }
    return status;
}

/* The processes that the sets are about: those that the table has, those that the reading before had, of which the
 * table, which is older than this moment, may have lost sight, and the first ones themselves. */
static weft_status process_times_choose(struct process_times_reading *reading, const struct kernel_process *table,
                                        uint32_t count, struct numbers *chosen, struct error *error)
{
    const struct process_list *before = &reading->times->before;
    weft_status status = WEFT_OK;
    for (uint32_t s = 0; s < reading->count && status == WEFT_OK; s++)
        status = numbers_add(chosen, reading->sets[s].ancestor, error);
    for (uint32_t i = 0; i < before->count && status == WEFT_OK; i++)
        if (concerns(reading, before, &before->entries[i].process))
            status = numbers_add(chosen, before->entries[i].process.process, error);
    for (uint32_t s = 0; s < reading->count; s++)
        for (uint32_t i = 0; i < count && status == WEFT_OK && reading->sets[s].group; i++)
            if (table[i].group == reading->sets[s].group)
                status = numbers_add(chosen, table[i].process, error);
    return status == WEFT_OK ? choose_below(table, count, chosen, error) : status;
}

static weft_status read_chosen(struct process_times_reading *reading, const struct kernel_process *table,
                               uint32_t count, struct error *error)
{
    struct process_times *times = reading->times;
    struct numbers chosen = {0};
    weft_status status = process_times_choose(reading, table, count, &chosen, error);
    const int directory = status == WEFT_OK ? openat(times->root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    for (uint32_t i = 0; i < chosen.count && directory >= 0 && status == WEFT_OK; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", chosen.items[i]);
        status = add_process(reading, directory, number, error);
    }
    if (directory >= 0)
        close(directory);
    free(chosen.items);
    times->newest_now = 1;
    for (uint32_t i = 0; i < count; i++)
        times->newest_now = table[i].start > times->newest_now ? table[i].start : times->newest_now;
    return status;
}

static weft_status read_processes(struct process_times *times, const struct process_set *sets, uint32_t count,
                                  struct error *error)
{
    struct process_times_reading reading = {times, sets, count};
    const struct kernel_process *table;
    uint32_t listed;
    times->now.count = 0;
    times->newest = times->newest_now;
    if (!times->table || !process_table_read(times->table, &table, &listed))
        return process_times_read_all(&reading, error);
    const weft_status status = read_chosen(&reading, table, listed, error);
    process_table_release(times->table);
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

/* ---- reckoning ---- */

static uint64_t process_times_add(uint64_t left, uint64_t right)
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
            struct process_times_entry *alive = find_same(&times->now, above);
            if (!alive)
                continue;
            alive->gone = process_times_add(alive->gone, process_times_add(ended->own, ended->children));
            break;
        }
    }
}

/*
 * Ticks that a process, and children that it has got the time of, have used since the reading before. One that the
 * table had then, and no set, has come to a set since: what it used before is not known, and what it used since
 * neither.
 */
static uint64_t increase_of(const struct process_times *times, uint32_t index)
{
    static const struct kernel_process nothing; /* of one that was born since */
    const struct process_times_entry *entry = &times->now.entries[index],
                                     *found = find_same(&times->before, &entry->process);
    const struct kernel_process *process = &entry->process, *before = found ? &found->process : &nothing;
    if (!found && process->start < times->newest)
        return 0;
    return process_times_add(less(process->own, before->own),
                             less(less(process->children, before->children), entry->gone));
}

static void process_times_take_process(const struct process_times *times, uint32_t index, bool proportional,
                                       struct process_set *set)
{
    const struct kernel_process *process = &times->now.entries[index].process;
    set->processes++;
    set->resident = process_times_add(set->resident, process->resident);
    set->ticks = process_times_add(set->ticks, times->read ? increase_of(times, index) : 0);
    if (proportional)
        set->proportional = process_times_add(set->proportional, read_proportional(times->root, process->process));
}

weft_status process_times_read(struct process_times *times, struct process_set *sets, uint32_t count, bool proportional,
                               struct error *error)
{
    const struct process_list swap = times->before;
    times->before = times->now;
    times->now = swap;
    weft_status status = read_processes(times, sets, count, error);
    times->readings++;
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
                    process_times_take_process(times, i, proportional, &sets[s]);
    }
    times->read = true;
    return WEFT_OK;
}
