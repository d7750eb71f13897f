/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/shm/internal/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

weft_status shm_peer_add(struct shm *shm, uint32_t rank, struct shm_peer **peer, struct error *error)
{
    struct shm_peer *made = calloc(1, sizeof *made);
    void *mailbox = NULL;
    if (!made)
        return error_memory(error, sizeof *made, "a local peer");
    made->rank = rank;
    made->doorbell = made->process_descriptor = -1;
    weft_status status = heap_alloc(shm->heap, sizeof(struct shm_mailbox), &mailbox, error);
    made->mine = mailbox;
    if (status == WEFT_OK)
        status = shm_connection_open(made, error);
    if (status != WEFT_OK) {
        heap_free(shm->heap, mailbox);
        free(made);
        return status;
    }
    shm->peers[rank] = made;
    shm->known[shm->known_count++] = made;
    *peer = made;
    return WEFT_OK;
}

/* This rank is its own peer, so that sends to itself need no path of their own. */
static weft_status shm_add_self(struct shm *shm, struct error *error)
{
    struct shm_peer *self = NULL;
    weft_status status = shm_peer_add(shm, shm->rank, &self, error);
    if (status != WEFT_OK)
        return status;
    self->doorbell = dup(shm->doorbell);
    if (self->doorbell < 0)
        return error_system(error, "cannot duplicate the doorbell");
    self->connected = true;
    self->same_process = true;
    self->base = heap_base(shm->heap);
    self->heap_bytes = heap_size(shm->heap);
    self->heap_identity = heap_identity(shm->heap);
    self->page = shm->page;
    self->theirs = self->mine;
    shm_connection_begin(self);
    return WEFT_OK;
}

weft_status shm_create(struct heap *heap, uint32_t rank, uint32_t ranks, uint64_t secret_hash, struct shm **shm,
                       struct error *error)
{
    struct shm *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the local ranks");
    made->heap = heap;
    made->rank = rank;
    made->ranks = ranks;
    made->secret_hash = secret_hash;
    made->listener = -1;
    made->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->peers = calloc(ranks, sizeof *made->peers);
    made->known = calloc(ranks, sizeof *made->known);
    void *page = NULL;
    weft_status status = WEFT_OK;
    if (made->doorbell < 0)
        status = error_system(error, "cannot open a doorbell (eventfd)");
    else if (!made->peers || !made->known)
        status = error_memory(error, 2 * ranks * sizeof *made->peers, "the local ranks");
    if (status == WEFT_OK)
        status = heap_alloc(heap, sizeof(struct shm_page), &page, error);
    made->page = page;
    if (status == WEFT_OK)
        status = shm_add_self(made, error);
    if (status == WEFT_OK)
        status = shm_listen(made, error);
    if (status == WEFT_OK)
        status = shm_messages_open(made, &made->messages, error);
    if (status != WEFT_OK) {
        shm_destroy(made);
        return status;
    }
    *shm = made;
    return WEFT_OK;
}

static void shm_peer_free(struct shm *shm, struct shm_peer *peer)
{
    free(peer->connection);
    if (peer->doorbell >= 0)
        close(peer->doorbell);
    if (peer->process_descriptor >= 0)
        close(peer->process_descriptor);
    bool unseen = peer->fenced || (shm->settled && !peer->same_process);
    if (peer->connected && peer->rank != shm->rank && !unseen) {
        struct shm_mailbox *shared = shm->rank < peer->rank ? peer->mine : peer->theirs;
        bool last = atomic_fetch_add(&shared->departures, 1) > 0;
        if (last && peer->same_process)
            heap_free(shm->heap, peer->theirs);
        if (last)
            heap_free(shm->heap, peer->mine);
    } else {
        heap_free(shm->heap, peer->mine);
    }
    if (peer->base && !peer->same_process)
        heap_detach(shm->heap, peer->heap_identity);
    free(peer);
}

void shm_destroy(struct shm *shm)
{
    if (!shm)
        return;
    shm_messages_close(shm->messages);
    for (uint32_t i = 0; i < shm->known_count; i++)
        shm_peer_free(shm, shm->known[i]);
    if (shm->listener >= 0)
        close(shm->listener);
    if (shm->doorbell >= 0)
        close(shm->doorbell);
    heap_free(shm->heap, shm->page);
    free(shm->peers);
    free(shm->known);
    free(shm);
}

void shm_set_control(struct shm *shm, const struct control *control)
{
    shm->control = control;
}

void shm_mark_quiescent(struct shm *shm)
{
    shm->settled = true;
}

void shm_endpoint_info(const struct shm *shm, struct shm_endpoint *endpoint)
{
    *endpoint = shm->endpoint;
}

bool shm_reaches(const struct shm *shm, uint32_t rank)
{
    return rank < shm->ranks && shm->peers[rank] && shm->peers[rank]->connected;
}

char *shm_peer_base(const struct shm *shm, uint32_t rank)
{
    return shm_reaches(shm, rank) ? shm->peers[rank]->base : NULL;
}

/* ---- doorbells ------------------------------------------------------------------------------------------------------
 *
 * Sleeper: asleep = 1; fence; check again; poll. Ringer: store; fence; if asleep, take the flag and write the eventfd.
 * With both fences sequentially consistent, either the sleeper sees the store or the ringer sees that it sleeps. Only
 * one of several ringers gets the flag, so a sleeper that is slow to wake costs one system call. A write that comes
 * late, when the sleeper is up again, ends its next sleep early, which is harmless.
 */

void shm_peer_wake(const struct shm_peer *peer)
{
    struct shm_page *page = peer->page;
    if (!atomic_load_explicit(&page->asleep, memory_order_relaxed) || !atomic_exchange(&page->asleep, 0))
        return;
    uint64_t one = 1;
    while (write(peer->doorbell, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void shm_ring(struct shm *shm, uint32_t rank)
{
    if (!shm_reaches(shm, rank))
        return;
    shm_fence();
    shm_peer_wake(shm->peers[rank]);
}

void shm_ring_all(struct shm *shm, const uint32_t *ranks, uint32_t count)
{
    shm_fence();
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] != shm->rank && shm_reaches(shm, ranks[i]))
            shm_peer_wake(shm->peers[ranks[i]]);
}

int shm_doorbell(const struct shm *shm)
{
    return shm->doorbell;
}

void shm_sleep_begin(struct shm *shm)
{
    atomic_store_explicit(&shm->page->asleep, 1, memory_order_relaxed);
    shm_fence();
}

void shm_sleep_end(struct shm *shm)
{
    atomic_store_explicit(&shm->page->asleep, 0, memory_order_relaxed);
    uint64_t count;
    while (read(shm->doorbell, &count, sizeof count) < 0 && errno == EINTR)
        ; /* EAGAIN: it was not rung */
}

struct transport *shm_transport(struct shm *shm)
{
    return shm_messages_transport(shm->messages);
}
