/* SPDX-License-Identifier: Apache-2.0 */
/* A full disk, and runs that take more of it than they may. */
#include "platform/controller/internal/state.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#define SHARE        2                   /* of what is free, one part of so many is a run's */
#define FILE_LEAST   ((int64_t)64 << 20) /* bytes: the limit counts for files in memory too, which ranks share */
#define LEAST_SHARE  8                   /* FILE_LEAST is any run's, or one part of so many of a small file system */
#define OUTPUT_MOST  ((int64_t)256 << 20)
#define OUTPUT_LEAST ((int64_t)1 << 20)
#define OUTPUT_SHARE 8 /* of its quota, one part of so many is what a run may keep of what it prints */

int64_t controller_disk_quota(int64_t asked, int64_t policy, const char *directory, int64_t has)
{
    struct statvfs about;
    if (asked)
        return asked;
    if (policy)
        return policy;
    if (statvfs(directory, &about) != 0)
        return 0;
    const int64_t block = (int64_t)about.f_frsize, part = (int64_t)about.f_blocks * block / LEAST_SHARE;
    const int64_t least = part < FILE_LEAST ? part : FILE_LEAST;
    const int64_t share = ((int64_t)about.f_bavail * block + has) / SHARE;
    return share > least ? share : least;
}

void disk_limit_order(const struct controller *controller, int64_t asked, struct engine_order *order)
{
    const int64_t quota =
        controller_disk_quota(asked, controller->config.disk_run, controller->config.directories.runs, 0);
    const int64_t output = quota / OUTPUT_SHARE / (order->nodes ? order->nodes : 1);
    if (!quota)
        return;
    order->file_bytes = (uint64_t)(quota > FILE_LEAST ? quota : FILE_LEAST);
    order->output_bytes = (uint64_t)(output > OUTPUT_MOST    ? OUTPUT_MOST
                                     : output < OUTPUT_LEAST ? OUTPUT_LEAST
                                                             : output);
}

weft_status controller_stop_disk(struct controller *controller, int64_t number, const char *message, bool kill,
                                 int64_t now, struct error *error)
{
    struct controlled_run *run = runs_find(controller, number);
    if (!run || !run->node || (run->leaving && !kill))
        return WEFT_OK;
    weft_status status = WEFT_OK;
    if (!run->leaving)
        status = attempt_ask_durably(controller, run, RUN_CAUSE_DISK, message, now, error);
    if (status == WEFT_OK && kill && run->leaving && run->how != ENGINE_KILL) {
        run->to_stop = true;
        run->how = ENGINE_KILL;
        run->stop_due = 0;
    }
    controlled_change(controller);
    return status;
}

void controller_disk_trouble(struct controller *controller, const char *message)
{
    if (strcmp(controller->disk_trouble, message) == 0)
        return;
    snprintf(controller->disk_trouble, sizeof controller->disk_trouble, "%s", message);
    controlled_change(controller);
}

char *disk_say(const struct controller *controller, char *text, size_t size)
{
    snprintf(text, size, "waits for disk space: %s", controller->disk_trouble);
    return text;
}
