/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the boards of other processes. */
#include "core/control/status/status_page.h"

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

/* What has been found so far. */
struct found {
    struct board_view *views;
    uint32_t count, room;
};

/* A sealed piece of memory, which cannot become shorter while it is mapped. */
static bool is_sealed(int descriptor)
{
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* A rank has written who[] before the magic, so that this memory is there: who looks need not provide it. */
static bool status_page_view_is_whole(const struct board_view *view, uint64_t held)
{
    return view->ranks > 0 && view->ranks <= BOARD_RANKS_MOST && view->rank < view->ranks &&
           board_bytes(view->ranks) == view->bytes && held >= view->ranks * sizeof(struct board_rank);
}

bool board_view_open(const char *path, int32_t process, struct board_view *view)
{
    struct stat about;
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return false;
    void *memory = MAP_FAILED;
    if (is_sealed(descriptor) && fstat(descriptor, &about) == 0 && (uint64_t)about.st_size >= sizeof(struct board))
        memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED)
        return false;
    struct board *board = memory;
    bool ready = __atomic_load_n(&board->magic, __ATOMIC_ACQUIRE) == BOARD_MAGIC;
    *view = (struct board_view){.board = board,
                                .bytes = (uint64_t)about.st_size,
                                .rank = __atomic_load_n(&board->rank, __ATOMIC_RELAXED),
                                .ranks = __atomic_load_n(&board->ranks, __ATOMIC_RELAXED),
                                .job = __atomic_load_n(&board->job, __ATOMIC_RELAXED),
                                .process = process,
                                .owner = (uint32_t)about.st_uid,
                                .device = about.st_dev,
                                .node = about.st_ino};
    if (ready && status_page_view_is_whole(view, (uint64_t)about.st_blocks * 512))
        return true;
    board_view_close(view);
    return false;
}

void board_view_close(struct board_view *view)
{
    munmap(view->board, view->bytes);
    *view = (struct board_view){0};
}

/* Keep a view, once for each memory: of a process and the children that it forked, the process. */
static bool status_page_view_keep(struct found *found, struct board_view *view)
{
    for (uint32_t i = 0; i < found->count; i++) {
        struct board_view *known = &found->views[i];
        if (known->node != view->node || known->device != view->device)
            continue;
        if (view->process == view->board->process)
            known->process = view->process;
        board_view_close(view);
        return true;
    }
    if (found->count == found->room) {
        uint32_t room = found->room ? 2 * found->room : 16;
        struct board_view *views = realloc(found->views, room * sizeof *views);
        if (!views) {
            board_view_close(view);
            return false;
        }
        found->views = views;
        found->room = room;
    }
    found->views[found->count++] = *view;
    return true;
}

/* The boards among the descriptors of a process; one that may not be looked into has none. */
static bool look_into(int32_t process, struct found *found)
{
    char directory[64], path[352], target[64];
    snprintf(directory, sizeof directory, "/proc/%d/fd", process);
    DIR *descriptors = opendir(directory);
    bool good = true;
    for (const struct dirent *entry; good && descriptors && (entry = readdir(descriptors));) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        struct board_view view;
        if (strncmp(target, "/memfd:" BOARD_FILE, strlen("/memfd:" BOARD_FILE)) == 0 &&
            board_view_open(path, process, &view))
            good = status_page_view_keep(found, &view);
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
        board_view_close(&views[i]);
    free(views);
}

uint64_t board_ring(const struct board_view *view)
{
    struct board *board = view->board;
    uint64_t number = atomic_fetch_add(&board->asked, 1) + 1, end = clock_after(RING_SECONDS);
    while (clock_now() < end) {
        if (atomic_load_explicit(&board->answered, memory_order_acquire) >= number)
            return number;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return 0;
}
