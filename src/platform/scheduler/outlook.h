/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Why a run waits, for what, and when it is expected to start.
 *
 * The expectation is a plan, not a promise: runs, those in the queue too, are taken to last as long as runs like them
 * did (history.h), or where they run and report when they will have ended, as they report; but no longer than they may;
 * and those before in the queue to have what they ask for first. It counts
 * slots, wherever they are. A run for which hosts are reserved is expected when these can be empty.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_OUTLOOK_H
#define WEFT_PLATFORM_SCHEDULER_OUTLOOK_H

#include "platform/scheduler/scheduler.h"

enum outlook_reason {
    OUTLOOK_NEXT_PASS, /**< the next pass starts it, or has not looked at it yet */
    OUTLOOK_TOO_FEW,   /**< fewer slots are free than it asks for */
    OUTLOOK_SCATTERED, /**< slots enough are free, but not together on a host, or on hosts of one Pod */
    OUTLOOK_RESERVED,  /**< the same; hosts are being emptied for it */
    OUTLOOK_EXCLUSIVE, /**< slots enough are free, but on hosts that are kept for another run (internal/reservation.h) */
    OUTLOOK_CLOSED,    /**< it could start on no host that is in use, were they all empty */
    OUTLOOK_KEPT, /**< slots enough are free, but not for runs without checkpoints: some are kept for personal runs */
};

#define OUTLOOK_NOBODY UINT32_MAX

struct outlook {
    uint32_t run;
    uint32_t position; /**< in the queue, from 0 */
    enum outlook_reason reason;
    struct gang gang; /**< that it asks for */
    uint64_t free;    /**< slots free in all */
    uint64_t kept;    /**< slots that runs without checkpoints leave to others */
    uint32_t fit,
        lacking; /**< the best Pod, or what is reserved for it, has so many hosts that fit, and lacks so many */
    uint64_t slots_before; /**< asked for by the runs before it */
    double expected_start; /**< by the caller's clock; now at the earliest; INFINITY: nobody knows (OUTLOOK_CLOSED) */
    uint32_t awaits;       /**< the run after whose end it is, if that runs now; or OUTLOOK_NOBODY */
};

/**
 * The outlooks of all queued runs in the order of the queue, into `outlooks[scheduler_queued()]`. To be called when no
 * run has come, gone or been queued again since the last pass.
 */
weft_status outlook_all(const struct scheduler *scheduler, double now, struct outlook *outlooks, struct error *error);

/** A run that is parked until a known time. */
struct outlook_return {
    uint32_t run;
    double when;           /**< it is in the queue again */
    double expected_start; /**< from then on, when it finds its slots; INFINITY: not known */
};

/**
 * When parked runs, given in the order of their returns, are expected to start: after all that wait in the queue now.
 * May be called when outlook_all() may.
 */
weft_status outlook_returns(const struct scheduler *scheduler, double now, struct outlook_return *returns, size_t count,
                            struct error *error);

/** One as a message ("waits for 2 hosts of one Pod with 8 slots each: ..."), into `text`; returns it. */
char *outlook_say(const struct outlook *outlook, double now, char *text, size_t size);

#endif
