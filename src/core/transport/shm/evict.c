/* SPDX-License-Identifier: Apache-2.0 */
/* The end of local processes that are dead to the job, but may still have this rank's memory mapped. */
#include "core/transport/shm/internal/state.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>

void shm_peer_hold(struct shm_peer *peer)
{
    if (peer->process > 0 && !peer->same_process)
        peer->process_descriptor = pidfd_open(peer->process, 0);
}

/*
 * Whether it has ended, waiting up to `milliseconds`. A kernel without pidfd identifies it by its number, which may
 * have been reused: that errs on the side of waiting.
 */
static bool process_has_ended(const struct shm_peer *peer, int milliseconds)
{
    struct pollfd wait = {peer->process_descriptor, POLLIN, 0};
    if (peer->process_descriptor >= 0)
        return poll(&wait, 1, milliseconds) > 0;
    if (kill(peer->process, 0) != 0 && errno == ESRCH)
        return true;
    poll(NULL, 0, milliseconds < 10 ? milliseconds : 10);
    return false;
}

static int milliseconds_until(uint64_t deadline)
{
    const uint64_t now = clock_now();
    return now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
}

void shm_await_end(struct shm *shm, uint32_t rank, uint64_t deadline)
{
    const struct shm_peer *peer = shm->peers[rank];
    if (!peer || !peer->connected || peer->same_process || rank == shm->rank || !peer->process)
        return;
    while (!process_has_ended(peer, milliseconds_until(deadline)) && milliseconds_until(deadline) > 0)
        ;
}

static weft_status shm_peer_evict(struct shm_peer *peer, uint64_t deadline, struct error *error)
{
    if (!peer->process)
        return error_set(
            error, WEFT_ERROR_SYSTEM,
            "cannot verify that rank %u on this machine has ended: its process has no id in this PID namespace",
            peer->rank);
    int result = peer->process_descriptor >= 0 ? pidfd_send_signal(peer->process_descriptor, SIGKILL, NULL, 0)
                                               : kill(peer->process, SIGKILL);
    if (result != 0 && errno != ESRCH)
        return error_system(error, "cannot kill process %d, rank %u of this machine, which no longer takes part",
                            peer->process, peer->rank);
    while (!process_has_ended(peer, milliseconds_until(deadline)))
        if (milliseconds_until(deadline) == 0)
            return error_set(error, WEFT_ERROR_SYSTEM,
                             "process %d, rank %u of this machine, was killed but does not end; it may be blocked "
                             "in the kernel",
                             peer->process, peer->rank);
    peer->fenced = true;
    return WEFT_OK;
}

weft_status shm_evict(struct shm *shm, const uint32_t *ranks, uint32_t count, double limit_seconds, struct error *error)
{
    uint64_t deadline = clock_after(limit_seconds);
    for (uint32_t i = 0; i < count; i++) {
        struct shm_peer *peer = shm->peers[ranks[i]];
        if (!peer || !peer->connected || peer->same_process || ranks[i] == shm->rank)
            continue;
        weft_status status = shm_peer_evict(peer, deadline, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}
