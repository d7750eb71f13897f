/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The status page: a rank's state, readable from outside at any time without its help.
 *
 * It is shared memory (a sealed memfd called "weft-status") that holds the rank's operation log itself, so publishing
 * costs nothing. A reader opens it as /proc/PROCESS/fd/NUMBER, which the kernel allows for the same user and root
 * alone, and which exists as long as the process, stopped or not. A process that is killed leaves nothing behind.
 *
 * The operations of ranks on other hosts are fetched on demand: a reader adds one to `asked` (status_page_ring()) of
 * any rank whose helper thread is alive. In its next round (within a heartbeat) that thread asks the other hosts' ranks
 * over the control plane and stores their logs next to its own. The program's threads take no part.
 *
 * The helper thread writes the page, except the log. A reader must not trust the page: the process may be broken or
 * hostile, and may change it at any time.
 */
#ifndef WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H
#define WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H

#include "core/control/control.h"

#define STATUS_PAGE_MAGIC      0x0064726f42746659 /**< also identifies the layout: increment with each change */
#define STATUS_PAGE_FILE       "weft-status"      /**< the memfd's name */
#define STATUS_PAGE_TEXT_BYTES 64
#define STATUS_PAGE_WAIT       1.0 /**< seconds that other hosts' ranks have to answer */
#define STATUS_PAGE_RANKS_MOST (1u << 20)

/** A rank's identity, from its endpoint info. */
struct status_page_rank {
    int32_t process;
    uint32_t unused;
    char host[ENDPOINT_HOST_BYTES];
    char machine[ENDPOINT_MACHINE_BYTES];
};

/** The answer of a rank on another machine. */
struct status_page_answer {
    _Atomic uint64_t number; /**< the question that it answers; 0: none. Written last. */
    int64_t offset;          /**< its clock_now() minus this rank's, give or take half the round trip */
    uint64_t round_trip;     /**< nanoseconds */
    struct operation_log log;
};

struct status_page {
    uint64_t magic;
    uint64_t bytes; /**< all of it */
    uint32_t rank, ranks;
    int32_t process;
    uint32_t unused;
    uint64_t job;                          /**< equal on all ranks of a job, different between jobs */
    int64_t started;                       /**< seconds since 1970 */
    char launcher[STATUS_PAGE_TEXT_BYTES]; /**< bootstrap_launcher() */
    char run[STATUS_PAGE_TEXT_BYTES];      /**< the run record's id; "" for none */
    _Atomic uint64_t asked;                /**< questions from outside */
    _Atomic uint64_t answered;             /**< all have answered this one, or STATUS_PAGE_WAIT seconds have passed */
    struct operation_log log;
    struct status_page_rank
        who[]; /**< one per rank; followed by one struct status_page_answer per rank, see status_page_answers() */
};

/**
 * The answers of a status page for `ranks` ranks, in rank order, after who[]. Only those of ranks on other machines are
 * ever written.
 */
struct status_page_answer *status_page_answers(const struct status_page *status_page, uint32_t ranks);

/** Bytes of a status page for `ranks` ranks. */
uint64_t status_page_bytes(uint32_t ranks);

/* ---- the rank ---- */

/** The writing side of a status page. */
struct status_page_writer {
    struct status_page *status_page;
    struct control *control;
    int descriptor;
    uint64_t asking, asked_at; /**< the question in progress, and clock_now() when it was asked; 0: none */
    uint32_t missing;          /**< outstanding answers */
};

/**
 * Create the status page of rank `rank`. `run` may be NULL. `endpoints` and `control` are borrowed. Errors: SYSTEM,
 * MEMORY.
 */
weft_status status_page_open(struct status_page_writer *writer, uint32_t rank, uint32_t ranks,
                             const struct endpoint_info *endpoints, const struct bootstrap *bootstrap, const char *run,
                             struct control *control, struct error *error);

/** Harmless on a zeroed struct. The helper thread has ended. */
void status_page_close(struct status_page_writer *writer);

/**
 * The helper thread's part: update the time, and answer questions. Returns milliseconds until it must be called again,
 * or -1.
 */
int status_page_progress(struct status_page_writer *writer);

/* ---- readers ---- */

/**
 * A status page of some process, mapped. The number of ranks and the job are read once,
 * checked and kept here, since the process may change the page later.
 */
struct status_page_view {
    struct status_page
        *status_page; /**< shared with the rank: do not trust it, and write only with status_page_ring() */
    uint64_t bytes;
    uint32_t rank, ranks; /**< rank < ranks, and the mapping is large enough for them */
    uint64_t job;
    int32_t process;       /**< its id in this PID namespace; it may differ in a container */
    uint32_t owner;        /**< user id */
    uint64_t device, node; /**< identify the memory: a forked child has its parent's status page, too */
};

/** Map the status page open at `path` (/proc/PROCESS/fd/NUMBER); false if it is not a status page, or not plausible. */
bool status_page_view_open(const char *path, int32_t process, struct status_page_view *view);
void status_page_view_close(struct status_page_view *view);

/** The status pages of all processes that this user may inspect; free *views with status_page_views_free(). */
weft_status status_page_views_list(struct status_page_view **views, uint32_t *count, struct error *error);
void status_page_views_free(struct status_page_view *views, uint32_t count);

/**
 * Have this page's rank ask the ranks of other machines, and wait for their answers. Returns the number of the
 * question, which their answers carry (or a larger one); 0 when the helper thread does not respond: the process is
 * stopped.
 */
uint64_t status_page_ring(const struct status_page_view *view);

#endif
