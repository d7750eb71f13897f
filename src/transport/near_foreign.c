/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory of a near rank's process that it has not put into the shared heap: cross-memory attach,
 * process_vm_readv(). Whether the kernel allows it (ptrace rules, containers) is tried once, on a word that the peer
 * names in its hello. Only ever reading: a process number that has been given to another process meanwhile costs a
 * wrong result of an operation that fails anyway, never somebody's memory.
 */
#include "transport/near_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

static bool read_process(int process, void *target, uint64_t source, uint64_t bytes)
{
    while (bytes) {
        struct iovec here = {target, bytes}, there = {(void *)(uintptr_t)source, bytes};
        ssize_t done = process_vm_readv(process, &here, 1, &there, 1, 0);
        if (done <= 0)
            return false;
        target = (char *)target + done;
        source += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return true;
}

bool near_foreign_probe(const struct near *near, int process, uint64_t word)
{
    uint64_t seen = 0;
    return process > 0 && read_process(process, &seen, word, sizeof seen) && seen == near->secret_hash;
}

bool near_foreign_allowed(const struct near *near)
{
    for (uint32_t i = 0; i < near->known_count; i++)
        if (near->known[i]->connected && near->known[i]->rank != near->rank && !near->known[i]->readable)
            return false;
    return true;
}

weft_status near_foreign_read(const struct near *near, uint32_t rank, void *target, uint64_t source, uint64_t bytes,
                              struct error *error)
{
    const struct near_peer *peer = near->peers[rank];
    if (read_process(peer->process, target, source, bytes))
        return WEFT_OK;
    if (errno == ESRCH)
        return error_set(error, WEFT_ERROR_PEER, "rank %u is gone", rank);
    return error_system(error,
                        "cannot read %" PRIu64 " bytes of rank %u's memory (process_vm_readv); set "
                        "WEFT_STAGE_ONLY=1 to do without",
                        bytes, rank);
}
