/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of the meeting by TCP: a place with its server in a thread, and guests that come to it, each in another.
 */
#ifndef WEFT_TESTS_MEETING_GUESTS_H
#define WEFT_TESTS_MEETING_GUESTS_H

#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/stream.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define GUESTS_MOST 40

/* A server in a thread, and what it said. */
struct meeting_place {
    struct rendezvous_server server;
    uint8_t secret[SECRET_BYTES];
    int listener;
    uint16_t port;
    char address[64];
    pthread_t thread;
    weft_status status;
    struct error error;
    pthread_mutex_t lock;
    char reports[4096];
};

static inline void report(void *context, const char *message)
{
    struct meeting_place *place = context;
    pthread_mutex_lock(&place->lock);
    strncat(place->reports, message, sizeof place->reports - strlen(place->reports) - 2);
    strcat(place->reports, "\n");
    pthread_mutex_unlock(&place->lock);
}

static inline bool reported(struct meeting_place *place, const char *words)
{
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&place->lock);
        bool found = strstr(place->reports, words) != NULL;
        pthread_mutex_unlock(&place->lock);
        if (found)
            return true;
        usleep(10000);
    }
    return false;
}

static inline void *serve(void *argument)
{
    struct meeting_place *place = argument;
    place->status = rendezvous_serve(place->listener, &place->server, &place->error);
    return NULL;
}

static inline void place_prepare(struct meeting_place *place, uint32_t ranks, double limit, bool again)
{
    memset(place, 0, sizeof *place);
    pthread_mutex_init(&place->lock, NULL);
    assert_int_equal(secret_from_text("right", place->secret, NULL), WEFT_OK);
    assert_int_equal(address_listen("127.0.0.1", 0, &place->listener, &place->port, NULL), WEFT_OK);
    snprintf(place->address, sizeof place->address, "127.0.0.1:%u", place->port);
    place->server = (struct rendezvous_server){.ranks = ranks,
                                               .secret = place->secret,
                                               .limit_seconds = limit,
                                               .again = again,
                                               .stop = eventfd(0, EFD_CLOEXEC),
                                               .report = report,
                                               .context = place};
}

static inline void place_open(struct meeting_place *place, uint32_t ranks, double limit, bool again)
{
    place_prepare(place, ranks, limit, again);
    pthread_create(&place->thread, NULL, serve, place);
}

static inline void place_open_counted(struct meeting_place *place, uint32_t ranks, double limit,
                                      struct stream_counts *counts)
{
    place_prepare(place, ranks, limit, false);
    place->server.counts = counts;
    pthread_create(&place->thread, NULL, serve, place);
}

static inline void place_close(struct meeting_place *place, bool stop)
{
    if (stop)
        eventfd_write(place->server.stop, 1);
    pthread_join(place->thread, NULL);
    close(place->listener);
    close(place->server.stop);
}

/* A rank that comes, in a thread. */
struct guest {
    struct rendezvous_client client;
    uint8_t secret[SECRET_BYTES];
    uint64_t card;
    pthread_t thread;
    weft_status status;
    struct error error;
    struct rendezvous_result result;
};

static inline void *come(void *argument)
{
    struct guest *guest = argument;
    struct rendezvous *rendezvous = NULL;
    guest->status = rendezvous_open(&guest->client, &rendezvous, &guest->error);
    if (guest->status == WEFT_OK)
        guest->status =
            rendezvous_join(rendezvous, NULL, &guest->card, sizeof guest->card, &guest->result, &guest->error);
    rendezvous_close(rendezvous);
    return NULL;
}

static inline void guest_prepare(struct guest *guest, const struct meeting_place *place, uint32_t rank, uint32_t ranks,
                                 const char *secret, double limit)
{
    memset(guest, 0, sizeof *guest);
    guest->card = 100 + rank;
    assert_int_equal(secret_from_text(secret, guest->secret, NULL), WEFT_OK);
    guest->client = (struct rendezvous_client){.addresses = place->address,
                                               .rank = rank,
                                               .ranks = ranks,
                                               .secret = guest->secret,
                                               .limit_seconds = limit,
                                               .stop = -1};
}

static inline void guest_start(struct guest *guest, const struct meeting_place *place, uint32_t rank, uint32_t ranks,
                               const char *secret, double limit)
{
    guest_prepare(guest, place, rank, ranks, secret, limit);
    pthread_create(&guest->thread, NULL, come, guest);
}

/* A rank that knows its place among those of its node. */
static inline void guest_start_in_node(struct guest *guest, const struct meeting_place *place, uint32_t rank,
                                       uint32_t ranks, uint32_t per_node, double limit)
{
    guest_prepare(guest, place, rank, ranks, "right", limit);
    guest->client.node = rank / per_node;
    guest->client.local_rank = rank % per_node;
    guest->client.local_ranks = per_node;
    pthread_create(&guest->thread, NULL, come, guest);
}

static inline weft_status guest_end(struct guest *guest)
{
    pthread_join(guest->thread, NULL);
    free(guest->result.blobs);
    return guest->status;
}

static inline int raw_connection(const struct meeting_place *place)
{
    int descriptor = -1;
    assert_int_equal(address_connect("127.0.0.1", place->port, 5, &descriptor, NULL, NULL), WEFT_OK);
    return descriptor;
}

/* All of them end well, with all cards and the same session. */
static inline void expect_all(struct guest *guests, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pthread_join(guests[rank].thread, NULL);
        assert_string_equal(guests[rank].error.text, "");
        for (uint32_t i = 0; i < ranks; i++)
            assert_int_equal(((uint64_t *)guests[rank].result.blobs)[i], 100 + i);
        assert_memory_equal(guests[rank].result.session, guests[0].result.session, SECRET_BYTES);
        free(guests[rank].result.blobs);
    }
}

/* A host for each rank, as a launcher knows it. */
static inline const char *host_of(void *context, uint32_t rank)
{
    return rank < 2 ? "hosta" : "hostb";
}

#endif
