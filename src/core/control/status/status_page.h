/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The board: what a rank shows its user from outside, at any moment, without being asked.
 *
 * It is a piece of shared memory (a sealed memfd called "weft-board") that holds the rank's operation log itself, so
 * that showing costs nothing: the log has to be written somewhere. Who looks finds it as /proc/PROCESS/fd/NUMBER, which
 * the kernel opens for the same user and root alone, and which is there as long as the process is, stopped or not.
 * Nothing is left behind by a process that is killed.
 *
 * What ranks on other hosts do is fetched only when somebody wants it: who looks adds one to `asked` (board_ring()) of
 * any rank whose helper thread lives; at its next turn (a heartbeat at most) that thread asks them over the control
 * plane and puts their logs beside its own. The threads of the program take no part.
 *
 * The writing side belongs to the helper thread, the log apart. A reader trusts nothing that it finds: the process may
 * be broken, or another user's who wants to harm the root that looks, and may change what is there at any moment.
 */
#ifndef WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H
#define WEFT_CORE_CONTROL_STATUS_STATUS_PAGE_H

#include "core/control/control.h"

#define BOARD_MAGIC      0x0064726f42746657 /**< also says which layout this is: count up with each change */
#define BOARD_FILE       "weft-board"       /**< the memfd's name */
#define BOARD_TEXT_BYTES 64
#define BOARD_WAIT       1.0 /**< seconds that ranks elsewhere have to answer */
#define BOARD_RANKS_MOST (1u << 20)

/** Who a rank is: of its card, what people want to know. */
struct board_rank {
    int32_t process;
    uint32_t unused;
    char host[CARD_HOST_BYTES];
    char machine[CARD_MACHINE_BYTES];
};

/** What a rank of another machine has told. */
struct board_answer {
    _Atomic uint64_t number; /**< of the question that it answers; 0: none. Written last. */
    int64_t offset;          /**< its clock_now() less this rank's, give or take half the round trip */
    uint64_t round_trip;     /**< nanoseconds */
    struct operation_log log;
};

struct board {
    uint64_t magic;
    uint64_t bytes; /**< all of it */
    uint32_t rank, ranks;
    int32_t process;
    uint32_t unused;
    uint64_t job;                    /**< the same on all ranks of a job, another for another job */
    int64_t started;                 /**< seconds since 1970 */
    char launcher[BOARD_TEXT_BYTES]; /**< meeting_launcher() */
    char run[BOARD_TEXT_BYTES];      /**< the run record's id; "" for none */
    _Atomic uint64_t asked;          /**< questions from outside */
    _Atomic uint64_t answered;       /**< all have answered this one, or have not for BOARD_WAIT seconds */
    struct operation_log log;
    struct board_rank who[]; /**< of every rank; behind them a struct board_answer each, see board_answers() */
};

/** The answers of a board of so many ranks, in rank order, behind who[]; only those of ranks on other machines are ever
 * touched. */
struct board_answer *board_answers(const struct board *board, uint32_t ranks);

/** Bytes of a board for so many ranks. */
uint64_t board_bytes(uint32_t ranks);

/* ---- the rank ---- */

/** What this rank does to keep its board. */
struct board_keeper {
    struct board *board;
    struct control *control;
    int descriptor;
    uint64_t asking, asked_at; /**< the question that is under way, and clock_now() when it was put; 0: none */
    uint32_t missing;          /**< answers to it */
};

/** Make the board of rank `rank`. `run` may be NULL. `cards` and `control` are borrowed. Errors: SYSTEM, MEMORY. */
weft_status board_open(struct board_keeper *keeper, uint32_t rank, uint32_t ranks, const struct card *cards,
                       const struct meeting *meeting, const char *run, struct control *control, struct error *error);

/** Harmless on what is zeroed. The helper thread has ended. */
void board_close(struct board_keeper *keeper);

/** The helper's part: beat, and answer questions; milliseconds until it wants to be called again, or -1. */
int board_progress(struct board_keeper *keeper);

/* ---- who looks ---- */

/**
 * A board of some process, mapped. What a reader reckons with (how many ranks, of which job) is read once and kept
 * here, as it is all within the mapping now and may be anything a moment later.
 */
struct board_view {
    struct board *board; /**< shared with the rank: read with care, write nothing but by board_ring() */
    uint64_t bytes;
    uint32_t rank, ranks; /**< rank < ranks, and the mapping has room for them */
    uint64_t job;
    int32_t process;       /**< as numbered here; its own view may be another, in a container */
    uint32_t owner;        /**< user id */
    uint64_t device, node; /**< which memory it is: a forked child has its parent's board, too */
};

/** View the board that is open as `path` (/proc/PROCESS/fd/NUMBER); false if that is none, or cannot be believed. */
bool board_view_open(const char *path, int32_t process, struct board_view *view);
void board_view_close(struct board_view *view);

/** The boards of all processes that this user may look into; *views is the caller's, to give to board_views_free(). */
weft_status board_views_list(struct board_view **views, uint32_t *count, struct error *error);
void board_views_free(struct board_view *views, uint32_t count);

/**
 * Have this board's rank ask the ranks of other machines, and wait until they have answered. Returns the number of the
 * question, which their answers bear (or a larger one); 0 when the helper thread does not respond: the process is
 * stopped.
 */
uint64_t board_ring(const struct board_view *view);

#endif
