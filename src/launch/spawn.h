/* SPDX-License-Identifier: Apache-2.0 */
/** Processes of this machine: starting a rank, ending all processes that came from this one. */
#ifndef WEFT_LAUNCH_SPAWN_H
#define WEFT_LAUNCH_SPAWN_H

#include "base/error.h"
#include "launch/order.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#define SPAWN_END_BYTES 128

/** A rank that runs, seen from the helper that started it. */
struct rank_process {
    uint32_t number; /**< in the job */
    uint32_t place;  /**< among the ranks of this host: free again when the rank has ended */
    pid_t process;   /**< also its process group; 0: not started, or reaped */
    int input;       /**< where its standard input is written; -1: none */
    int streams[2];  /**< where its standard output and error are read; -1: ended */
    bool ended;      /**< it has, with wait status `end` */
    int end;
};

/**
 * Start rank->number at rank->place; the rest of `rank` is set. It leads a process group of its own, dies with the
 * helper (PR_SET_PDEATHSIG), begins with default signals, in order->directory, and finds in its environment:
 *
 *     WEFT_RANK, WEFT_RANKS              its number, how many ranks the job began with
 *     WEFT_LOCAL_RANK, WEFT_LOCAL_RANKS  its place, how many ranks this host began with; for a rank that joins the
 *                                        job later, how many places this host has
 *     WEFT_HOST                          the host's name as the user wrote it, unless that is this machine's own
 *     OMP_NUM_THREADS                    compute threads, unless the user has set it
 *     OMP_WAIT_POLICY=passive            if the host's threads outnumber its cores, unless the user has set it
 *
 * and the variables of the order. Errors: SYSTEM; ARGUMENT if the program cannot be run (the message names program and
 * host): then rank->process is a child to be reaped, which ends with exit code 127.
 */
weft_status spawn_rank(const struct order *order, struct rank_process *rank, struct error *error);

/**
 * In a child, before it becomes another program: a process group of its own; signal `death` when `parent` ends (0:
 * none); these descriptors as the standard ones (`errors` -1: the parent's); every signal as a program expects it.
 */
void spawn_settle(pid_t parent, int death, int input, int output, int errors);

/**
 * In a child that cannot become its program: tell the parent through the pipe `report` what failed, a letter of the
 * caller's choice, and errno, and exit. spawn_hear() waits in the parent until the pipe is closed, by this or by the
 * program's start, and returns that errno and `*what`; 0: the program has started.
 */
_Noreturn void spawn_give_up(int report, char what);
int spawn_hear(int report, char *what);

/**
 * Kill and reap every child, and every orphan that the kernel hands to this process as its parents die, until none is
 * left. For a process with one thread that is their subreaper (PR_SET_CHILD_SUBREAPER). False: some are left after
 * `seconds`.
 */
bool spawn_descendants_kill(double seconds);

/** How a process with wait status `end` ended: "was killed by signal 9 (Killed)", "ended with exit code 1". Returns `text`. */
char *spawn_end_describe(int end, char text[SPAWN_END_BYTES]);

/** The number of cores that this process may use, and their set. */
uint32_t spawn_cores(cpu_set_t *set);

#endif
