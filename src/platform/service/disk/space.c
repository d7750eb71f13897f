/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/disk.h"

#include "base/file/file.h"
#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESERVE_MOST  ((uint64_t)64 << 20)
#define RESERVE_SHARE 16 /* of a small file system, one part of so many is the reserve */
#define LOG_SHARE     8  /* and of the reserve what each log has besides */
#define PART_SHARE    8  /* what is left of the reserve is given up in such parts when a database cannot be opened, */
#define PART_LEAST    (1 << 19) /* or all of it if it is smaller */
#define LOW_SHARE     50
#define LOW_MOST      ((uint64_t)4 << 30)

struct disk_space {
    char directory[FILE_PATH_BYTES], reserve_path[FILE_PATH_BYTES];
    char logged[2][FILE_PATH_BYTES]; /* databases whose logs have space kept for them */
    uint64_t reserve;
    bool held; /* the reserve is there */
    pthread_mutex_t mutex;
    struct disk_space_state state; /* by the mutex */
};

static bool space_look(const struct disk_space *space, uint64_t *size, uint64_t *available)
{
    struct statvfs about;
    if (statvfs(space->directory, &about) != 0)
        return false;
    *size = (uint64_t)about.f_blocks * about.f_frsize;
    *available = (uint64_t)about.f_bavail * about.f_frsize;
    return true;
}

static void space_say_full(struct disk_space *space, struct disk_space_state *state)
{
    char low[32], size[32];
    snprintf(state->trouble, sizeof state->trouble,
             "the disk is full: less than %s of %s is free in '%.150s'; discard runs, or free some space",
             text_bytes(state->low, low, sizeof low), text_bytes(state->size, size, sizeof size), space->directory);
}

/* Whether all of the reserve is there: a server may have been killed before it had allocated it, and the policy may
 * have asked for less then. */
static bool has_reserve(const struct disk_space *space)
{
    struct stat about;
    return stat(space->reserve_path, &about) == 0 && (uint64_t)about.st_size >= space->reserve;
}

static void take_reserve(struct disk_space *space)
{
    const int file = open(space->reserve_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    space->held = posix_fallocate(file, 0, (off_t)space->reserve) == 0;
    close(file);
    if (!space->held)
        unlink(space->reserve_path);
}

bool disk_space_look(struct disk_space *space)
{
    struct disk_space_state state = space->state;
    if (!space_look(space, &state.size, &state.free))
        return state.full;
    const uint64_t mark = state.full ? state.low + state.low / 4 : state.low;
    state.full = state.free < mark;
    if (state.full)
        space_say_full(space, &state);
    else
        state.trouble[0] = '\0';
    for (size_t i = 0; i < sizeof space->logged / sizeof *space->logged; i++)
        database_keep_spare(space->logged[i], space->reserve / LOG_SHARE);
    if (!space->held && state.free > mark + space->reserve)
        take_reserve(space);
    pthread_mutex_lock(&space->mutex);
    space->state = state;
    pthread_mutex_unlock(&space->mutex);
    return state.full;
}

void disk_space_give_up(struct disk_space *space)
{
    uint64_t size, available;
    if (!space_look(space, &size, &available) || available >= space->state.low)
        return;
    unlink(space->reserve_path);
    space->held = false;
}

/* Remove one part of `share` of what is left of the reserve, or all of it if it is small. */
static bool give_up_part(struct disk_space *space, int share)
{
    struct stat about;
    uint64_t size, available;
    if (!space_look(space, &size, &available) || available >= space->state.low ||
        stat(space->reserve_path, &about) != 0)
        return false;
    space->held = false;
    if (about.st_size < PART_LEAST || truncate(space->reserve_path, about.st_size - about.st_size / share) != 0)
        unlink(space->reserve_path);
    return true;
}

/* Give half of the reserve to the logs of the databases, at once: a run that fills the disk would have it before they
 * are opened. The rest is for disk_space_try_again(). */
static void space_make_room(struct disk_space *space)
{
    static const char *const names[] = {"platform.db", "access.db", "metrics.db"};
    char path[FILE_PATH_BYTES];
    const bool given = give_up_part(space, 2);
    for (size_t i = 0; i < ARRAY_SIZE(names) && given; i++)
        if (file_join(path, space->directory, names[i], NULL) == WEFT_OK)
            database_keep_room(path, space->reserve / LOG_SHARE);
}

bool disk_space_try_again(struct disk_space *space, weft_status status, struct error *error)
{
    if (status != WEFT_ERROR_SYSTEM || !give_up_part(space, PART_SHARE))
        return false;
    error_clear(error);
    return true;
}

weft_status disk_space_open(const char *directory, int64_t reserve, struct disk_space **space, struct error *error)
{
    struct disk_space *made = calloc(1, sizeof *made);
    uint64_t size = 0, available = 0;
    if (!made)
        return error_memory(error, sizeof *made, "what is known of the disk");
    pthread_mutex_init(&made->mutex, NULL);
    snprintf(made->directory, sizeof made->directory, "%s", directory);
    weft_status status = file_join(made->reserve_path, directory, "reserve", error);
    if (status == WEFT_OK)
        status = file_join(made->logged[0], directory, "platform.db", error);
    if (status == WEFT_OK)
        status = file_join(made->logged[1], directory, "access.db", error);
    if (status == WEFT_OK && !space_look(made, &size, &available))
        status = error_system(error, "cannot tell how much is free on the disk of '%s'", directory);
    if (status != WEFT_OK) {
        disk_space_close(made);
        return status;
    }
    const uint64_t share = size / RESERVE_SHARE, low = size / LOW_SHARE < LOW_MOST ? size / LOW_SHARE : LOW_MOST;
    made->reserve = reserve ? (uint64_t)reserve : share < RESERVE_MOST ? share : RESERVE_MOST;
    made->state.low = low > made->reserve ? low : made->reserve;
    made->held = has_reserve(made);
    made->state.size = size;
    made->state.free = available;
    made->state.full = available < made->state.low;
    if (made->state.full)
        space_say_full(made, &made->state);
    space_make_room(made);
    *space = made;
    return WEFT_OK;
}

void disk_space_keep_log(struct disk_space *space, struct database *database)
{
    struct disk_space_state state;
    disk_space_state(space, &state);
    if (state.full)
        database_keep_log(database);
}

void disk_space_close(struct disk_space *space)
{
    if (!space)
        return;
    pthread_mutex_destroy(&space->mutex);
    free(space);
}

void disk_space_state(struct disk_space *space, struct disk_space_state *state)
{
    pthread_mutex_lock(&space->mutex);
    *state = space->state;
    pthread_mutex_unlock(&space->mutex);
}
