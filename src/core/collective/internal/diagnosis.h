/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Diagnosis: when ranks disagree or one is missing, find the state of each and report it in one message.
 *
 *  - Two ranks make different calls in one operation: both calls are named. In the v-forms, where calls may look alike:
 *  the sender, the receiver, and the counts that they send and expect.
 *  - An operation is stalled: follow the ranks' operation logs to find which rank waits for which. Calls that cross
 *    (one rank blocked in A while the others are blocked in B) are reported as a cycle. A rank that has called
 *    weft_finalize(), or freed the communicator, without its part in the operation is named at once. One that has done
 *    its part is not: its messages may still be on their way.
 *  - An operation is slow: the late rank and what it is doing are named on standard error. The operation keeps waiting.
 *  - It exceeds its limit: the same message, and the job ends.
 *
 * An awaited rank may itself be waiting for another in the same operation: the last rank of that chain is named. Where
 * the chain is a cycle, or ends at a rank that is done, the others are asked in turn, to find one that has not joined.
 *
 * The holder of the progress lock reports a finding; the helper thread fetches the logs and ends the job with the
 * message.
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
    _Atomic int kind; /**< enum diagnosis_kind; set last by the reporting thread, cleared by the helper */
    struct diagnosis_operation
        links[DIAGNOSIS_LINKS]; /**< links[0]: this rank's; each further one is the rank that the previous one waits
                                     for */
    uint32_t link_count;
    bool all_asked;                    /**< all members have joined the operation, and none is known to be the cause */
    uint32_t members[DIAGNOSIS_LINKS]; /**< world ranks of the first operation's communicator, as many as fit */
    uint32_t member_count;
    uint64_t patience;                  /**< clock_now() until which another rank may give a better message */
    uint64_t ask_after;                 /**< clock_now() before which no rank is asked */
    uint64_t expected[DIAGNOSIS_LINKS]; /**< of allgatherv: elements that this rank expects of each of `members` */
    struct {
        bool known;          /**< a message's sizes differ */
        bool sends;          /**< this rank sends it */
        uint64_t bytes;      /**< that this rank sends or expects */
        uint64_t peer_bytes; /**< that the peer expects or sends */
    } message;
    bool surveys;    /**< two ranks wait for each other in one operation: the others are asked in turn whether they
                        have left */
    double waited;   /**< seconds */
    uint64_t warned; /**< tag of the last operation that was reported late */
    _Atomic uint64_t next_look; /**< clock_now() before which a stall is not examined again */

    /* The helper's own. */
    bool asking;
    uint32_t asked;    /**< world rank whose log is awaited */
    uint64_t asked_at; /**< clock_now() */
    uint64_t seen;     /**< hash of the last cycle found: it must be found twice */
};

/**
 * Rank `comm_rank` has made another call. `transfer`: the message to or from it that showed this; NULL: found through
 * shared memory. With the progress lock.
 */
void diagnosis_mismatch(struct weft_request *request, uint32_t comm_rank, const struct transfer *transfer);

/** `request` has not progressed for `seconds`. With the progress lock. */
void diagnosis_watch(struct weft_request *request, double seconds);

/** The helper thread's part. Returns milliseconds until it must be called again, or -1. */
int diagnosis_progress(weft_context *context);

#endif
