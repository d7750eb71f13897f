/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Diagnosis: when ranks do not fit together, find out what each is doing and say it in one message.
 *
 *  - Two ranks meet in one operation with different calls: both calls are named. In the v-forms, where calls may look
 *    alike: which rank gives how much to which, and what that one expects.
 *  - An operation stands still for a while: follow who waits for whom through the ranks' operation logs. Calls that
 *    cross (blocked in A while the others are blocked in B) are named as the cycle that they are. A rank that has
 *    called weft_finalize(), or freed the communicator, without its part in the operation is named at once, but not one
 *    that has done its part: that may still be on its way.
 *  - An operation waits for long: who is late is named on standard error, and what that rank is doing; the operation
 *    goes on waiting.
 *  - It waits longer than its limit: the same message, and the end.
 *
 * Who is awaited may be waiting for another rank in the same operation: the one named is the last of that chain. Where
 * the chain bites its tail, or ends at a rank that is done, the others are asked in turn for one that has not come.
 *
 * Whoever holds the progress_lock reports a finding; the helper thread fetches the logs and ends the job with the message.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_DIAGNOSIS_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_DIAGNOSIS_H

#include "core/control/control.h"
#include "core/schedule/format/schedule.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct transfer;
struct weft_request;

#define DIAGNOSIS_LINKS 64

enum diagnosis_kind {
    DIAGNOSIS_NONE,
    DIAGNOSIS_MISMATCH,
    DIAGNOSIS_STUCK,
    DIAGNOSIS_LATE,
    DIAGNOSIS_LIMIT,
};

/** An operation as its rank's log describes it; a copy. */
struct diagnosis_operation {
    uint32_t rank; /**< world */
    uint32_t communicator;
    uint64_t sequence;
    uint64_t hash, count;
    enum collective collective;
    weft_type type;
    uint32_t awaited; /**< world rank + 1; 0: not known */
    uint32_t member;  /**< of links[0]: this rank's number in the communicator */
    bool sends;       /**< of links[0], a message: this rank is its sender */
    char text[OPERATION_TEXT_BYTES];
};

struct diagnosis {
    _Atomic int kind; /**< enum diagnosis_kind; set last by who reports, cleared by the helper */
    struct diagnosis_operation
        links[DIAGNOSIS_LINKS]; /**< links[0]: this rank's; then who is awaited by the one before */
    uint32_t link_count;
    bool all_asked;                    /**< all members have come to the operation, and none is known to be the one */
    uint32_t members[DIAGNOSIS_LINKS]; /**< world ranks of the first operation's communicator, as many as have room */
    uint32_t member_count;
    uint64_t patience;                  /**< clock_now() until which another rank may say more than this one can */
    uint64_t ask_after;                 /**< clock_now() before which nobody is asked */
    uint64_t expected[DIAGNOSIS_LINKS]; /**< of allgatherv: elements that this rank expects of each of `members` */
    struct {
        bool known;          /**< a message's sizes differ */
        bool sends;          /**< this rank sends it */
        uint64_t bytes;      /**< that this rank sends or expects */
        uint64_t peer_bytes; /**< that the other one expects or sends */
    } message;
    bool surveys;  /**< two ranks wait for one another in one operation: the others are asked for a departure in turn */
    double waited; /**< seconds */
    uint64_t warned;            /**< tag of the operation that was last said to wait for a late rank */
    _Atomic uint64_t next_look; /**< clock_now() before which a standstill is not looked into again */

    /* The helper's own. */
    bool asking;
    uint32_t asked;    /**< world rank whose log is awaited */
    uint64_t asked_at; /**< clock_now() */
    uint64_t seen;     /**< of the cycle found last: it must be found twice */
};

/** Rank `comm_rank` has made another call, as `transfer` has shown, a message to or from it; NULL: shared memory has.
 * With the progress_lock. */
void diagnosis_mismatch(struct weft_request *request, uint32_t comm_rank, const struct transfer *transfer);

/** `request` has not moved for so many seconds. With the progress_lock. */
void diagnosis_watch(struct weft_request *request, double seconds);

/** The helper's part; milliseconds until it wants to be called again, or -1. */
int diagnosis_progress(weft_context *context);

#endif
