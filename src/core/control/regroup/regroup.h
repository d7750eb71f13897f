/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Regrouping: after a failure, or to admit newcomers, the ranks find each other and agree on a new membership.
 *
 * Each agreement begins an *epoch*: some of the ranks of the previous epoch, in their old order, then *newcomers*,
 * renumbered, with a new secret and new control listeners. Ranks here are *first* ranks: their numbers when the job
 * began. Newcomers have larger ones, which the launcher gives to nobody else.
 *
 * The lowest living rank leads. Each rank connects to those below it at the listeners of the first epoch, which stay
 * open for the life of the job, and joins the lowest that answers. The leader connects to those above it that have not
 * joined. A rank whose host refuses the connection is dead; one that accepts it and stays silent is stopped; one that
 * cannot be reached at all may be alive on the other side of a network partition. The leader waits up to a limit for
 * ranks that answer but have not joined, then leaves them out. Once no rank is missing, the leader sends the table of
 * the new epoch to all that have joined. If a leader dies meanwhile, the next lowest rank takes over.
 *
 * A newcomer also follows the lowest living rank, and waits until that rank leads an agreement. There is no other way to
 * join, so a failure at any time leaves the newcomer either waiting or a member of the new epoch, whose table it gets.
 *
 * The launcher may ask ranks to leave (regroup_ask_to_leave()). The lowest rank notes that, and the table of the next
 * agreement that it leads releases them: they take part in that agreement, but not in the epoch.
 *
 * In a partition the larger side continues. A leader that cannot reach more ranks than have joined it gives up, with a
 * message that says so; ties go to the side with the lowest rank.
 *
 * Threads: regroup_progress() is called by the context's helper thread; regroup_agree() by one caller at a time, which
 * drives progress while it waits.
 */
#ifndef WEFT_CORE_CONTROL_REGROUP_REGROUP_H
#define WEFT_CORE_CONTROL_REGROUP_REGROUP_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"
#include "core/control/wire/secret.h"

#include <stdbool.h>
#include <stdint.h>

struct regroup;

/**
 * Prepare for regrouping: take over the listener at endpoints[rank].control (regroup_close() closes it, also on
 * failure). Endpoint info and secret are copied.
 */
weft_status regroup_open(uint32_t rank, uint32_t ranks, const struct endpoint_info *endpoints, const uint8_t *secret,
                         int listener, struct regroup **regroup, struct error *error);
void regroup_close(struct regroup *regroup);

/** A rank and where the others find it: the listener that stays open. */
struct regroup_member {
    uint32_t rank;
    struct endpoint_info endpoint;
};

/**
 * Prepare a newcomer: `members` are those of some epoch, in ascending order, `own` is this rank with the address of
 * `listener`. Then regroup_agree(). Otherwise as regroup_open().
 */
weft_status regroup_open_newcomer(const struct regroup_member *own, const struct regroup_member *members,
                                  uint32_t count, const uint8_t *secret, int listener, struct regroup **regroup,
                                  struct error *error);

/** The members of the present epoch, for a newcomer; malloc'ed, the caller's. Errors: MEMORY. */
weft_status regroup_members(struct regroup *regroup, struct regroup_member **members, uint32_t *count,
                            struct error *error);

/**
 * After regroup_agree() has failed: whether this newcomer was turned away only because one with a larger number has joined
 * before it. It may come again with a number above that one's.
 */
bool regroup_was_overtaken(struct regroup *regroup);

/** Newcomers that wait at this rank, and members that it was asked to release. */
uint32_t regroup_waiting(struct regroup *regroup);

/** One descriptor (an epoll) that becomes readable when regroup_progress() has something to do. */
int regroup_descriptor(const struct regroup *regroup);

/**
 * Answer connections, advance an agreement in progress. Returns milliseconds until it must be called again, or -1.
 * `quiet`: nothing of this rank is in flight, nor can be again in this epoch, so it may be left out without endangering
 * the memory of others.
 */
int regroup_progress(struct regroup *regroup, bool quiet);

/** The agreed membership. regroup_table_free() frees its arrays. */
struct regroup_table {
    uint32_t epoch; /**< 1 after the first regrouping */
    uint32_t rank, ranks;
    bool leaves;                     /**< this rank was released: it is not among `ranks` */
    struct endpoint_info *endpoints; /**< by new rank */
    uint32_t *first;                 /**< first[r]: the first rank of new rank r */
    uint32_t *released;              /**< the first ranks of those that leave, ascending */
    uint32_t released_count;
    uint8_t secret[SECRET_BYTES];
};

void regroup_table_free(struct regroup_table *table);

struct regroup_wait {
    double limit_seconds; /**< how long to wait for ranks that are alive but have not joined */
    double late_seconds;  /**< after which `late` is called with the list of missing ranks */
    void (*late)(void *context, const char *message);
    void *context;
};

/**
 * Agree on the next epoch, with this rank's endpoint info for it. Errors: PEER, with a message that says why this rank
 * cannot continue (the smaller side of a partition; left out by the others); TIMEOUT.
 */
weft_status regroup_agree(struct regroup *regroup, const struct endpoint_info *endpoint,
                          const struct regroup_wait *wait, struct regroup_table *table, struct error *error);

/**
 * Not a rank: ask the job's lowest rank, `leader`, to release the `count` ranks `ranks` with the next agreement. `secret` is
 * that of regroup_open(). Waits for its answer. May be repeated. Errors: NETWORK, TIMEOUT after `limit_seconds`, PEER, SYSTEM:
 * it may be gone, or may have noted the request all the same.
 */
weft_status regroup_ask_to_leave(const struct endpoint_info *leader, const uint8_t *secret, const uint32_t *ranks,
                                 uint32_t count, double limit_seconds, struct error *error);

#endif
