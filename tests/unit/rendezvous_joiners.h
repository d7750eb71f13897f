/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of the rendezvous by TCP: a place with its server in a thread, and joined that come to it, each in another.
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
struct rendezvous_point {
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
    struct rendezvous_point *place = context;
    pthread_mutex_lock(&place->lock);
    strncat(place->reports, message, sizeof place->reports - strlen(place->reports) - 2);
    strcat(place->reports, "\n");
    pthread_mutex_unlock(&place->lock);
}

static inline bool reported(struct rendezvous_point *place, const char *words)
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
    struct rendezvous_point *place = argument;
    place->status = rendezvous_serve(place->listener, &place->server, &place->error);
    return NULL;
}

static inline void place_prepare(struct rendezvous_point *place, uint32_t ranks, double limit, bool again)
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

static inline void place_open(struct rendezvous_point *place, uint32_t ranks, double limit, bool again)
{
    place_prepare(place, ranks, limit, again);
    pthread_create(&place->thread, NULL, serve, place);
}

static inline void place_open_counted(struct rendezvous_point *place, uint32_t ranks, double limit,
                                      struct stream_counts *counts)
{
    place_prepare(place, ranks, limit, false);
    place->server.counts = counts;
    pthread_create(&place->thread, NULL, serve, place);
}

static inline void place_close(struct rendezvous_point *place, bool stop)
{
    if (stop)
        eventfd_write(place->server.stop, 1);
    pthread_join(place->thread, NULL);
    close(place->listener);
    close(place->server.stop);
}

/* A rank that comes, in a thread. */
struct joiner {
    struct rendezvous_client client;
    uint8_t secret[SECRET_BYTES];
    uint64_t endpoint;
    pthread_t thread;
    weft_status status;
    struct error error;
    struct rendezvous_result result;
};

static inline void *come(void *argument)
{
    struct joiner *joiner = argument;
    struct rendezvous *rendezvous = NULL;
    joiner->status = rendezvous_open(&joiner->client, &rendezvous, &joiner->error);
    if (joiner->status == WEFT_OK)
        joiner->status = rendezvous_join(rendezvous, NULL, &joiner->endpoint, sizeof joiner->endpoint, &joiner->result,
                                         &joiner->error);
    rendezvous_close(rendezvous);
    return NULL;
}

static inline void guest_prepare(struct joiner *joiner, const struct rendezvous_point *place, uint32_t rank,
                                 uint32_t ranks, const char *secret, double limit)
{
    memset(joiner, 0, sizeof *joiner);
    joiner->endpoint = 100 + rank;
    assert_int_equal(secret_from_text(secret, joiner->secret, NULL), WEFT_OK);
    joiner->client = (struct rendezvous_client){.addresses = place->address,
                                                .rank = rank,
                                                .ranks = ranks,
                                                .secret = joiner->secret,
                                                .limit_seconds = limit,
                                                .stop = -1};
}

static inline void guest_start(struct joiner *joiner, const struct rendezvous_point *place, uint32_t rank,
                               uint32_t ranks, const char *secret, double limit)
{
    guest_prepare(joiner, place, rank, ranks, secret, limit);
    pthread_create(&joiner->thread, NULL, come, joiner);
}

/* A rank that knows its place among those of its node. */
static inline void guest_start_in_node(struct joiner *joiner, const struct rendezvous_point *place, uint32_t rank,
                                       uint32_t ranks, uint32_t per_node, double limit)
{
    guest_prepare(joiner, place, rank, ranks, "right", limit);
    joiner->client.node = rank / per_node;
    joiner->client.local_rank = rank % per_node;
    joiner->client.local_ranks = per_node;
    pthread_create(&joiner->thread, NULL, come, joiner);
}

static inline weft_status guest_end(struct joiner *joiner)
{
    pthread_join(joiner->thread, NULL);
    free(joiner->result.blobs);
    return joiner->status;
}

static inline int raw_connection(const struct rendezvous_point *place)
{
    int descriptor = -1;
    assert_int_equal(address_connect("127.0.0.1", place->port, 5, &descriptor, NULL, NULL), WEFT_OK);
    return descriptor;
}

/* All of them end well, with all endpoint infos and the same session. */
static inline void expect_all(struct joiner *joined, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pthread_join(joined[rank].thread, NULL);
        assert_string_equal(joined[rank].error.text, "");
        for (uint32_t i = 0; i < ranks; i++)
            assert_int_equal(((uint64_t *)joined[rank].result.blobs)[i], 100 + i);
        assert_memory_equal(joined[rank].result.session, joined[0].result.session, SECRET_BYTES);
        free(joined[rank].result.blobs);
    }
}

/* A host for each rank, as a launcher knows it. */
static inline const char *host_of(void *context, uint32_t rank)
{
    return rank < 2 ? "hosta" : "hostb";
}

#endif
