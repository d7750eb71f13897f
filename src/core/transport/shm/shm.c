/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/shm/internal/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

weft_status near_peer_add(struct near *near, uint32_t rank, struct near_peer **peer, struct error *error)
{
    struct near_peer *made = calloc(1, sizeof *made);
    void *porch = NULL;
    if (!made)
        return error_memory(error, sizeof *made, "a local peer");
    made->rank = rank;
    made->doorbell = made->process_descriptor = -1;
    weft_status status = heap_alloc(near->heap, sizeof(struct near_porch), &porch, error);
    made->mine = porch;
    if (status == WEFT_OK)
        status = near_dialogue_open(made, error);
    if (status != WEFT_OK) {
        heap_free(near->heap, porch);
        free(made);
        return status;
    }
    near->peers[rank] = made;
    near->known[near->known_count++] = made;
    *peer = made;
    return WEFT_OK;
}

/* This rank is its own peer, so that sends to itself need no path of their own. */
static weft_status add_self(struct near *near, struct error *error)
{
    struct near_peer *self = NULL;
    weft_status status = near_peer_add(near, near->rank, &self, error);
    if (status != WEFT_OK)
        return status;
    self->doorbell = dup(near->doorbell);
    if (self->doorbell < 0)
        return error_system(error, "cannot duplicate the doorbell");
    self->connected = true;
    self->same_process = true;
    self->base = heap_base(near->heap);
    self->heap_bytes = heap_size(near->heap);
    self->heap_identity = heap_identity(near->heap);
    self->page = near->page;
    self->theirs = self->mine;
    near_dialogue_begin(self);
    return WEFT_OK;
}

weft_status near_open(struct heap *heap, uint32_t rank, uint32_t ranks, uint64_t secret_hash, struct near **near,
                      struct error *error)
{
    struct near *made = calloc(1, sizeof *made);
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
        status = heap_alloc(heap, sizeof(struct near_page), &page, error);
    made->page = page;
    if (status == WEFT_OK)
        status = add_self(made, error);
    if (status == WEFT_OK)
        status = near_listen(made, error);
    if (status == WEFT_OK)
        status = near_messages_open(made, &made->messages, error);
    if (status != WEFT_OK) {
        near_close(made);
        return status;
    }
    *near = made;
    return WEFT_OK;
}

static void peer_free(struct near *near, struct near_peer *peer)
{
    free(peer->dialogue);
    if (peer->doorbell >= 0)
        close(peer->doorbell);
    if (peer->process_descriptor >= 0)
        close(peer->process_descriptor);
    bool unseen = peer->fenced || (near->settled && !peer->same_process);
    if (peer->connected && peer->rank != near->rank && !unseen) {
        struct near_porch *shared = near->rank < peer->rank ? peer->mine : peer->theirs;
        bool last = atomic_fetch_add(&shared->departures, 1) > 0;
        if (last && peer->same_process)
            heap_free(near->heap, peer->theirs);
        if (last)
            heap_free(near->heap, peer->mine);
    } else {
        heap_free(near->heap, peer->mine);
    }
    if (peer->base && !peer->same_process)
        heap_detach(near->heap, peer->heap_identity);
    free(peer);
}

void near_close(struct near *near)
{
    if (!near)
        return;
    near_messages_close(near->messages);
    for (uint32_t i = 0; i < near->known_count; i++)
        peer_free(near, near->known[i]);
    if (near->listener >= 0)
        close(near->listener);
    if (near->doorbell >= 0)
        close(near->doorbell);
    heap_free(near->heap, near->page);
    free(near->peers);
    free(near->known);
    free(near);
}

void near_heed(struct near *near, const struct control *control)
{
    near->control = control;
}

void near_settle(struct near *near)
{
    near->settled = true;
}

void near_card(const struct near *near, struct near_card *card)
{
    *card = near->card;
}

bool near_reaches(const struct near *near, uint32_t rank)
{
    return rank < near->ranks && near->peers[rank] && near->peers[rank]->connected;
}

char *near_base(const struct near *near, uint32_t rank)
{
    return near_reaches(near, rank) ? near->peers[rank]->base : NULL;
}

/* ---- doorbells ------------------------------------------------------------------------------------------------------
 *
 * Sleeper: asleep = 1; fence; look once more; poll.      Ringer: store; fence; if asleep, take the flag and write the
 * eventfd. With both fences sequentially consistent, either the sleeper sees the store or the ringer sees that it
 * sleeps. Only one of several ringers gets the flag, so a sleeper that is slow to wake costs one system call. A write
 * that comes late, when the sleeper is up again, ends its next sleep early, which is harmless.
 */

void near_wake(const struct near_peer *peer)
{
    struct near_page *page = peer->page;
    if (!atomic_load_explicit(&page->asleep, memory_order_relaxed) || !atomic_exchange(&page->asleep, 0))
        return;
    uint64_t one = 1;
    while (write(peer->doorbell, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void near_ring(struct near *near, uint32_t rank)
{
    if (!near_reaches(near, rank))
        return;
    near_fence();
    near_wake(near->peers[rank]);
}

void near_ring_all(struct near *near, const uint32_t *ranks, uint32_t count)
{
    near_fence();
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] != near->rank && near_reaches(near, ranks[i]))
            near_wake(near->peers[ranks[i]]);
}

int near_doorbell(const struct near *near)
{
    return near->doorbell;
}

void near_fall_asleep(struct near *near)
{
    atomic_store_explicit(&near->page->asleep, 1, memory_order_relaxed);
    near_fence();
}

void near_wake_up(struct near *near)
{
    atomic_store_explicit(&near->page->asleep, 0, memory_order_relaxed);
    uint64_t count;
    while (read(near->doorbell, &count, sizeof count) < 0 && errno == EINTR)
        ; /* EAGAIN: nobody rang */
}

struct transport *near_transport(struct near *near)
{
    return near_messages_transport(near->messages);
}
