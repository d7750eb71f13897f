/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the status pages of other processes. */
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

#define RING_SECONDS (STATUS_PAGE_WAIT + 0.75) /* for the helper's next round, and for the answers */

/* The views found so far. */
struct status_page_view_found {
    struct status_page_view *views;
    uint32_t count;
    size_t room;
};

/* A sealed piece of memory, which cannot become shorter while it is mapped. */
static bool status_page_view_is_sealed(int descriptor)
{
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* A rank has written who[] before the magic, so that memory is allocated and reading it cannot fault. */
static bool status_page_view_is_whole(const struct status_page_view *view, uint64_t held)
{
    return view->ranks > 0 && view->ranks <= STATUS_PAGE_RANKS_MOST && view->rank < view->ranks &&
           status_page_bytes(view->ranks) == view->bytes && held >= view->ranks * sizeof(struct status_page_rank);
}

bool status_page_view_open(const char *path, int32_t process, struct status_page_view *view)
{
    struct stat about;
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return false;
    void *memory = MAP_FAILED;
    if (status_page_view_is_sealed(descriptor) && fstat(descriptor, &about) == 0 &&
        (uint64_t)about.st_size >= sizeof(struct status_page))
        memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED)
        return false;
    struct status_page *status_page = memory;
    bool ready = __atomic_load_n(&status_page->magic, __ATOMIC_ACQUIRE) == STATUS_PAGE_MAGIC;
    *view = (struct status_page_view){.status_page = status_page,
                                      .bytes = (uint64_t)about.st_size,
                                      .rank = __atomic_load_n(&status_page->rank, __ATOMIC_RELAXED),
                                      .ranks = __atomic_load_n(&status_page->ranks, __ATOMIC_RELAXED),
                                      .job = __atomic_load_n(&status_page->job, __ATOMIC_RELAXED),
                                      .process = process,
                                      .owner = (uint32_t)about.st_uid,
                                      .device = about.st_dev,
                                      .node = about.st_ino};
    if (ready && status_page_view_is_whole(view, (uint64_t)about.st_blocks * 512))
        return true;
    status_page_view_close(view);
    return false;
}

void status_page_view_close(struct status_page_view *view)
{
    munmap(view->status_page, view->bytes);
    *view = (struct status_page_view){0};
}

/* Keep one view for each memory: among a process and its forked children, that of the process. */
static bool status_page_view_keep(struct status_page_view_found *found, struct status_page_view *view)
{
    for (uint32_t i = 0; i < found->count; i++) {
        struct status_page_view *known = &found->views[i];
        if (known->node != view->node || known->device != view->device)
            continue;
        if (view->process == view->status_page->process)
            known->process = view->process;
        status_page_view_close(view);
        return true;
    }
    if (ARRAY_RESERVE(found->views, found->room, found->count + 1, "status pages", NULL) != WEFT_OK) {
        status_page_view_close(view);
        return false;
    }
    found->views[found->count++] = *view;
    return true;
}

/* The status pages among the descriptors of a process; a process that this user may not inspect has none. */
static bool status_page_view_inspect(int32_t process, struct status_page_view_found *found)
{
    char directory[64], path[352], target[64];
    snprintf(directory, sizeof directory, "/proc/%d/fd", process);
    DIR *descriptors = opendir(directory);
    bool good = true;
    for (const struct dirent *entry; good && descriptors && (entry = readdir(descriptors));) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        struct status_page_view view;
        if (strncmp(target, "/memfd:" STATUS_PAGE_FILE, strlen("/memfd:" STATUS_PAGE_FILE)) == 0 &&
            status_page_view_open(path, process, &view))
            good = status_page_view_keep(found, &view);
    }
    if (descriptors)
        closedir(descriptors);
    return good;
}

weft_status status_page_views_list(struct status_page_view **views, uint32_t *count, struct error *error)
{
    struct status_page_view_found found = {0};
    DIR *processes = opendir("/proc");
    if (!processes)
        return error_system(error, "cannot list the processes in /proc");
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(processes));) {
        int32_t process = atoi(entry->d_name);
        if (process > 0)
            good = status_page_view_inspect(process, &found);
    }
    closedir(processes);
    if (!good) {
        status_page_views_free(found.views, found.count);
        return error_memory(error, found.room * sizeof *found.views, "the list of ranks on this machine");
    }
    *views = found.views;
    *count = found.count;
    return WEFT_OK;
}

void status_page_views_free(struct status_page_view *views, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        status_page_view_close(&views[i]);
    free(views);
}

uint64_t status_page_ring(const struct status_page_view *view)
{
    struct status_page *status_page = view->status_page;
    uint64_t number = atomic_fetch_add(&status_page->asked, 1) + 1, end = clock_after(RING_SECONDS);
    while (clock_now() < end) {
        if (atomic_load_explicit(&status_page->answered, memory_order_acquire) >= number)
            return number;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return 0;
}
