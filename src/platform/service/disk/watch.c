/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/disk.h"

#define PERIOD      1000 /* milliseconds between two looks, */
#define PERIOD_NEAR 200  /* where less is free than */
#define NEAR        8    /* times the low mark */
#define FILLS       50   /* it fills where one part of so many of what is free was taken between two looks */

static void disk_watch_say_full(struct disk_watch *watch, const struct disk_space_state *state)
{
    char largest[192];
    struct error error = {0};
    if (!state->full) {
        complain_no_more(&watch->told, "there is space on the disk again: runs start, and submissions are accepted");
        return;
    }
    if (*watch->told.told.text)
        return;
    disk_use_largest(watch->use, largest, sizeof largest);
    error_set(&error, WEFT_ERROR_SYSTEM, "%s%s%s", state->trouble, *largest ? "; the largest runs are " : "", largest);
    complain(&watch->told, "no run starts, and only runs over their quota are stopped", &error);
}

int64_t disk_watch_look(struct disk_watch *watch, bool troubled, int64_t now)
{
    struct disk_space_state state;
    if (now < watch->due)
        return watch->due;
    watch->full = disk_space_look(watch->space);
    disk_space_state(watch->space, &state);
    watch->due = now + (state.free / NEAR < state.low ? PERIOD_NEAR : PERIOD);
    disk_use_hurry(watch->use,
                   watch->full || (watch->free > state.free && watch->free - state.free > state.free / FILLS));
    watch->free = state.free;
    disk_watch_say_full(watch, &state);
    if (troubled)
        disk_space_give_up(watch->space);
    return watch->due;
}

weft_status disk_watch_heed(struct disk_watch *watch, struct controller *controller, int64_t now, struct error *error)
{
    struct disk_space_state state;
    struct disk_use_told told;
    weft_status status = WEFT_OK;
    disk_space_state(watch->space, &state);
    controller_disk_trouble(controller, state.trouble);
    while (status == WEFT_OK && disk_use_next(watch->use, &told)) {
        status = controller_stop_disk(controller, told.run, told.message, watch->full || told.further, now, error);
        if (status != WEFT_OK)
            disk_use_repeat(watch->use, &told);
    }
    return status;
}

weft_status disk_watch_check(const struct disk_watch *watch, const char *project, struct error *error)
{
    struct disk_space_state state;
    disk_space_state(watch->space, &state);
    return state.full ? error_set(error, WEFT_ERROR_SYSTEM, "%s", state.trouble)
                      : disk_use_check(watch->use, project, error);
}
