/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the boards of other processes. */
#include "control/board.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RING_SECONDS (BOARD_WAIT + 0.75) /* for the helper's turn to come, and for the answers */

/* What has been found so far, and which memory it is: a forked child has its parent's board, too. */
struct found {
    struct board_view *views;
    ino_t *nodes;
    uint32_t count, room;
};

static bool is_board(int descriptor, const struct stat *about)
{
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && (uint64_t)about->st_size >= sizeof(struct board);
}

/* Map the board behind a descriptor of a process; false if it is none that can be read. */
static bool view_open(const char *path, int32_t process, struct board_view *view, ino_t *node)
{
    struct stat about;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    void *memory = MAP_FAILED;
    if (fstat(descriptor, &about) == 0 && is_board(descriptor, &about))
        memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED)
        return false;
    struct board *board = memory;
    uint32_t ranks = board->ranks;
    *view = (struct board_view){board, (uint64_t)about.st_size, process, (uint32_t)about.st_uid};
    *node = about.st_ino;
    if (__atomic_load_n(&board->magic, __ATOMIC_ACQUIRE) == BOARD_MAGIC && ranks > 0 && board->rank < ranks &&
        board_bytes(ranks) == view->bytes)
        return true;
    munmap(memory, view->bytes);
    return false;
}

/* Keep a view, once for each memory: of a process and the children that it forked, the process. */
static bool keep(struct found *found, struct board_view *view, ino_t node)
{
    for (uint32_t i = 0; i < found->count; i++) {
        if (found->nodes[i] != node)
            continue;
        if (view->process == view->board->process)
            found->views[i].process = view->process;
        munmap(view->board, view->bytes);
        return true;
    }
    if (found->count == found->room) {
        uint32_t room = found->room ? 2 * found->room : 16;
        struct board_view *views = realloc(found->views, room * sizeof *views);
        if (views)
            found->views = views;
        ino_t *nodes = realloc(found->nodes, room * sizeof *nodes);
        if (nodes)
            found->nodes = nodes;
        if (!views || !nodes) {
            munmap(view->board, view->bytes);
            return false;
        }
        found->room = room;
    }
    found->views[found->count] = *view;
    found->nodes[found->count++] = node;
    return true;
}

/* The boards among the descriptors of a process; one that may not be looked into has none. */
static bool look_into(int32_t process, struct found *found)
{
    char folder[64], path[352], target[64];
    snprintf(folder, sizeof folder, "/proc/%d/fd", process);
    DIR *descriptors = opendir(folder);
    bool good = true;
    for (const struct dirent *entry; good && descriptors && (entry = readdir(descriptors));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        struct board_view view;
        ino_t node;
        if (strncmp(target, "/memfd:" BOARD_FILE, strlen("/memfd:" BOARD_FILE)) == 0 &&
            view_open(path, process, &view, &node))
            good = keep(found, &view, node);
    }
    if (descriptors)
        closedir(descriptors);
    return good;
}

weft_status board_views_list(struct board_view **views, uint32_t *count, struct error *error)
{
    struct found found = {0};
    DIR *processes = opendir("/proc");
    if (!processes)
        return error_system(error, "cannot list the processes in /proc");
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(processes));) {
        int32_t process = atoi(entry->d_name);
        if (process > 0)
            good = look_into(process, &found);
    }
    closedir(processes);
    free(found.nodes);
    if (!good) {
        board_views_free(found.views, found.count);
        return error_memory(error, found.room * sizeof *found.views, "the list of ranks on this machine");
    }
    *views = found.views;
    *count = found.count;
    return WEFT_OK;
}

void board_views_free(struct board_view *views, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        munmap(views[i].board, views[i].bytes);
    free(views);
}

uint64_t board_ring(const struct board_view *view)
{
    struct board *board = view->board;
    uint64_t number = atomic_fetch_add(&board->asked, 1) + 1, end = clock_now() + (uint64_t)(RING_SECONDS * 1e9);
    while (clock_now() < end) {
        if (atomic_load_explicit(&board->answered, memory_order_acquire) >= number)
            return number;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return 0;
}
