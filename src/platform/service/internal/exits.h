/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How the server ended the last few times. A server that crashes because of what it schedules would crash again after
 * every restart, so after several unclean exits within a minute it starts with scheduling paused until an administrator
 * resumes it. An exit is unclean if the service was not closed: a crash, SIGKILL, a machine that went down.
 *
 * The record is the file "exits" in the directory of the state: whether a server runs, whether scheduling is paused, and
 * the times of unclean exits. Its modification time is the last time at which the server was alive, to a few seconds.
 * It has two records of 4 KiB, each with a number and a checksum. They are overwritten in turns, in place: that needs
 * no space, so a clean exit counts as one on a full disk, too, and a record that was written in part leaves the one
 * before it. Where the file cannot be made (a full disk), a complaint says so, and it is tried again every few seconds.
 *
 * exits_begin() comes before threads are started, exits_end() after the writer's has ended; exits_why() is for any
 * thread, the others are for the writer's.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_EXITS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_EXITS_H

#include "base/file/file.h"
#include "platform/service/internal/complaint.h"

#include <stdatomic.h>
#include <stdint.h>

#define EXITS_WINDOW 60000 /**< milliseconds: unclean exits that far apart count together */
#define EXITS_KEPT   16    /**< times of exits that are kept */

struct exits {
    char path[FILE_PATH_BYTES]; /**< "": not begun */
    int64_t times[EXITS_KEPT];  /**< of unclean exits, oldest first; milliseconds since 1970 */
    unsigned count;
    uint64_t number; /**< of the newest record; 0: there is none */
    bool running;
    _Atomic bool paused;
    char why[256];
    int64_t alive_at; /**< when the file was touched last */
    struct complaint trouble;
};

/** Note that a server runs, with `directory` locked. Pauses scheduling if the last exit was unclean and `most` were (0:
 * never pause) within EXITS_WINDOW before it, or if it was paused before. Errors: ARGUMENT if the path is too long. */
weft_status exits_begin(struct exits *exits, const char *directory, int64_t most, int64_t now, struct error *error);

/** The server is alive; to be called often. Returns in how many milliseconds to call it again. */
int64_t exits_alive(struct exits *exits, int64_t now);

/** Why scheduling is paused, as a message; NULL: it is not. */
const char *exits_why(const struct exits *exits);

/** Resume scheduling, and forget the exits. Errors: those of writing the record; it stays paused then. */
weft_status exits_resume(struct exits *exits, struct error *error);

/** The service closes properly. Nothing happens if it has not begun. */
void exits_end(struct exits *exits);

#endif
