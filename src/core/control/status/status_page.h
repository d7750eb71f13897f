/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The status page: a rank's state, readable from outside at any time without its help.
 *
 * It is a piece of shared memory (a sealed memfd called "weft-status page") that holds the rank's operation log itself, so
 * that showing costs nothing: the log has to be written somewhere. Who looks finds it as /proc/PROCESS/fd/NUMBER, which
 * the kernel opens for the same user and root alone, and which is there as long as the process is, stopped or not.
 * Nothing is left behind by a process that is killed.
 *
 * What ranks on other hosts do is fetched only when somebody wants it: who looks adds one to `asked` (status_page_ring()) of
 * any rank whose helper thread lives; at its next turn (a heartbeat at most) that thread asks them over the control
 * plane and puts their logs beside its own. The threads of the program take no part.
 *
 * The writing side belongs to the helper thread, the log apart. A reader trusts nothing that it finds: the process may
 * be broken, or another user's who wants to harm the root that looks, and may change it at any time.
 */
#ifndef WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H
#define WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H

#include "core/control/control.h"

#define STATUS_PAGE_MAGIC      0x0064726f42746657 /**< also says which layout this is: count up with each change */
#define STATUS_PAGE_FILE       "weft-board"       /**< the memfd's name */
#define STATUS_PAGE_TEXT_BYTES 64
#define STATUS_PAGE_WAIT       1.0 /**< seconds that ranks elsewhere have to answer */
#define STATUS_PAGE_RANKS_MOST (1u << 20)

/** Who a rank is: of its endpoint info, what people want to know. */
struct status_page_rank {
    int32_t process;
    uint32_t unused;
    char host[ENDPOINT_HOST_BYTES];
    char machine[ENDPOINT_MACHINE_BYTES];
};

/** What a rank of another machine has told. */
struct status_page_answer {
    _Atomic uint64_t number; /**< of the question that it answers; 0: none. Written last. */
    int64_t offset;          /**< its clock_now() less this rank's, give or take half the round trip */
    uint64_t round_trip;     /**< nanoseconds */
    struct operation_log log;
};

struct status_page {
    uint64_t magic;
    uint64_t bytes; /**< all of it */
    uint32_t rank, ranks;
    int32_t process;
    uint32_t unused;
    uint64_t job;                          /**< the same on all ranks of a job, another for another job */
    int64_t started;                       /**< seconds since 1970 */
    char launcher[STATUS_PAGE_TEXT_BYTES]; /**< bootstrap_launcher() */
    char run[STATUS_PAGE_TEXT_BYTES];      /**< the run record's id; "" for none */
    _Atomic uint64_t asked;                /**< questions from outside */
    _Atomic uint64_t answered;             /**< all have answered this one, or have not for STATUS_PAGE_WAIT seconds */
    struct operation_log log;
    struct status_page_rank
        who[]; /**< of every rank; followed by one struct status_page_answer per rank, see status_page_answers() */
};

/** The answers of a status page of so many ranks, in rank order, after who[]; only those of ranks on other machines are ever
 * touched. */
struct status_page_answer *status_page_answers(const struct status_page *status_page, uint32_t ranks);

/** Bytes of a status page for so many ranks. */
uint64_t status_page_bytes(uint32_t ranks);

/* ---- the rank ---- */

/** What this rank does to keep its status page. */
struct status_page_writer {
    struct status_page *status_page;
    struct control *control;
    int descriptor;
    uint64_t asking, asked_at; /**< the question that is under way, and clock_now() when it was put; 0: none */
    uint32_t missing;          /**< answers to it */
};

/** Make the status page of rank `rank`. `run` may be NULL. `endpoint infos` and `control` are borrowed. Errors: SYSTEM, MEMORY. */
weft_status status_page_open(struct status_page_writer *writer, uint32_t rank, uint32_t ranks,
                             const struct endpoint_info *endpoints, const struct bootstrap *bootstrap, const char *run,
                             struct control *control, struct error *error);

/** Harmless on what is zeroed. The helper thread has ended. */
void status_page_close(struct status_page_writer *writer);

/** The helper's part: beat, and answer questions; milliseconds until it wants to be called again, or -1. */
int status_page_progress(struct status_page_writer *writer);

/* ---- who looks ---- */

/**
 * A status page of some process, mapped. The number of ranks and the job are read once,
 * checked and kept here, since the process may change the page later.
 */
struct status_page_view {
    struct status_page
        *status_page; /**< shared with the rank: read with care, write nothing but by status_page_ring() */
    uint64_t bytes;
    uint32_t rank, ranks; /**< rank < ranks, and the mapping has room for them */
    uint64_t job;
    int32_t process;       /**< as numbered here; its own view may be another, in a container */
    uint32_t owner;        /**< user id */
    uint64_t device, node; /**< which memory it is: a forked child has its parent's status page, too */
};

/** View the status page that is open as `path` (/proc/PROCESS/fd/NUMBER); false if it is no status page, or not trustworthy. */
bool status_page_view_open(const char *path, int32_t process, struct status_page_view *view);
void status_page_view_close(struct status_page_view *view);

/** The status pages of all processes that this user may look into; *views is the caller's, to give to status_page_views_free(). */
weft_status status_page_views_list(struct status_page_view **views, uint32_t *count, struct error *error);
void status_page_views_free(struct status_page_view *views, uint32_t count);

/**
 * Have this status page's rank ask the ranks of other machines, and wait until they have answered. Returns the number of the
 * question, which their answers bear (or a larger one); 0 when the helper thread does not respond: the process is
 * stopped.
 */
uint64_t status_page_ring(const struct status_page_view *view);

#endif
