/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: a status page (core/control/status/status_page.h) that no rank has made, so that anything can be in it. */
#ifndef WEFT_TESTS_FORGED_STATUS_PAGE_H
#define WEFT_TESTS_FORGED_STATUS_PAGE_H

#include "core/control/status/status_page.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct forged_status_page {
    int descriptor;
    char path[32]; /**< for status_page_view_open() */
    struct status_page *status_page;
    uint64_t bytes;
};

/** A memory of `bytes`, sealed if so asked, that says it is the status page of `ranks` ranks. */
static inline void forged_status_page_open(struct forged_status_page *forged, uint32_t ranks, uint64_t bytes,
                                           bool sealed)
{
    forged->descriptor = memfd_create(STATUS_PAGE_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    forged->bytes = bytes;
    if (forged->descriptor < 0 || ftruncate(forged->descriptor, (off_t)bytes) != 0 ||
        (sealed && fcntl(forged->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0))
        abort();
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, forged->descriptor, 0);
    if (memory == MAP_FAILED)
        abort();
    snprintf(forged->path, sizeof forged->path, "/proc/self/fd/%d", forged->descriptor);
    forged->status_page = memory;
    forged->status_page->magic = STATUS_PAGE_MAGIC;
    forged->status_page->bytes = bytes;
    forged->status_page->ranks = ranks;
}

/** One that passes for whole: every rank has a host. */
static inline void forged_status_page_make(struct forged_status_page *forged, uint32_t rank, uint32_t ranks)
{
    forged_status_page_open(forged, ranks, status_page_bytes(ranks), true);
    forged->status_page->rank = rank;
    for (uint32_t r = 0; r < ranks; r++)
        snprintf(forged->status_page->who[r].host, sizeof forged->status_page->who[r].host, "host%u", r);
    atomic_store(&forged->status_page->answered, UINT64_MAX); /* so that nobody who asks has to wait */
}

static inline void forged_status_page_close(struct forged_status_page *forged)
{
    munmap(forged->status_page, forged->bytes);
    close(forged->descriptor);
}

#endif
