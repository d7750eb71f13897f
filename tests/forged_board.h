/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: a board (core/control/status/status_page.h) that no rank has made, so that anything can be in it. */
#ifndef WEFT_TESTS_FORGED_BOARD_H
#define WEFT_TESTS_FORGED_BOARD_H

#include "core/control/status/status_page.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct forged_board {
    int descriptor;
    char path[32]; /**< for board_view_open() */
    struct board *board;
    uint64_t bytes;
};

/** A memory of `bytes`, sealed if so asked, that says it is the board of `ranks` ranks. */
static inline void forged_board_open(struct forged_board *forged, uint32_t ranks, uint64_t bytes, bool sealed)
{
    forged->descriptor = memfd_create(BOARD_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    forged->bytes = bytes;
    if (forged->descriptor < 0 || ftruncate(forged->descriptor, (off_t)bytes) != 0 ||
        (sealed && fcntl(forged->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0))
        abort();
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, forged->descriptor, 0);
    if (memory == MAP_FAILED)
        abort();
    snprintf(forged->path, sizeof forged->path, "/proc/self/fd/%d", forged->descriptor);
    forged->board = memory;
    forged->board->magic = BOARD_MAGIC;
    forged->board->bytes = bytes;
    forged->board->ranks = ranks;
}

/** One that passes for whole: every rank has a host. */
static inline void forged_board_make(struct forged_board *forged, uint32_t rank, uint32_t ranks)
{
    forged_board_open(forged, ranks, board_bytes(ranks), true);
    forged->board->rank = rank;
    for (uint32_t r = 0; r < ranks; r++)
        snprintf(forged->board->who[r].host, sizeof forged->board->who[r].host, "host%u", r);
    atomic_store(&forged->board->answered, UINT64_MAX); /* so that nobody who asks has to wait */
}

static inline void forged_board_close(struct forged_board *forged)
{
    munmap(forged->board, forged->bytes);
    close(forged->descriptor);
}

#endif
