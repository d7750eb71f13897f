/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: ranks of a control plane that are threads, each with its helper thread, met by TCP. */
#ifndef WEFT_TESTS_CONTROL_RANKS_H
#define WEFT_TESTS_CONTROL_RANKS_H

#include "core/control/control.h"
#include "core/control/internal/plane.h"
#include "core/control/wire/address.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CONTROL_RANKS_SECONDS 60 /* to meet */

struct rank {
    int number, ranks, per_node;
    char address[64];
    struct control *control;
    struct endpoint_info *endpoints;
    atomic_bool stop;
    pthread_t thread, helper;
    void (*body)(struct rank *rank);
    char message[ERROR_TEXT_BYTES]; /* what went wrong; "": nothing */
    struct operation_log log;       /* for the body */
    atomic_int told;                /* for its callbacks */
    uint64_t frames;                /* that the body has cost */
};

static inline void *rank_help(void *argument)
{
    struct rank *rank = argument;
    while (!atomic_load(&rank->stop)) {
        int milliseconds = control_progress(rank->control);
        struct pollfd wait = {control_descriptor(rank->control), POLLIN, 0};
        poll(&wait, 1, milliseconds < 0 || milliseconds > 20 ? 20 : milliseconds);
    }
    return NULL;
}

static inline weft_status rank_meet(struct rank *rank, struct error *error)
{
    int first = rank->number / rank->per_node * rank->per_node;
    const struct bootstrap_config config = {
        .rank = rank->number,
        .ranks = rank->ranks,
        .address = rank->address,
        .secret = "a secret",
        .limit_seconds = CONTROL_RANKS_SECONDS,
        .node = first,
        .local_rank = rank->number - first,
        .local_ranks = first + rank->per_node < rank->ranks ? rank->per_node : rank->ranks - first,
    };
    const struct control_config settings = {
        .rank = (uint32_t)rank->number, .ranks = (uint32_t)rank->ranks, .connect_limit = CONTROL_RANKS_SECONDS};
    struct bootstrap *bootstrap = NULL;
    struct endpoint_info endpoint;
    char node[16];
    snprintf(node, sizeof node, "n%d", rank->number / rank->per_node);
    weft_status status = bootstrap_open(&config, &bootstrap, error);
    if (status == WEFT_OK)
        status = endpoint_info_begin(&endpoint, (uint32_t)rank->number, node, error);
    if (status == WEFT_OK)
        status = control_open(&settings, bootstrap_interface_hint(bootstrap), &rank->control, &endpoint, error);
    if (status == WEFT_OK)
        status = bootstrap_exchange(bootstrap, &endpoint, &rank->endpoints, error);
    if (status == WEFT_OK)
        status = control_connect(rank->control, rank->endpoints, bootstrap_secret(bootstrap), error);
    bootstrap_close(bootstrap);
    return status;
}

static inline void *rank_live(void *argument)
{
    struct rank *rank = argument;
    struct error error = {0};
    if (rank_meet(rank, &error) == WEFT_OK) {
        pthread_create(&rank->helper, NULL, rank_help, rank);
        rank->body(rank);
        rank->frames = control_exchange_frames(rank->control);
        atomic_store(&rank->stop, true);
        pthread_join(rank->helper, NULL);
    } else {
        snprintf(rank->message, sizeof rank->message, "%s", error.text);
    }
    control_close(rank->control);
    free(rank->endpoints);
    return NULL;
}

/* Run `body` on every one of `all`, `per_node` to a node. */
static inline void ranks_run(struct rank *all, int ranks, int per_node, void (*body)(struct rank *rank))
{
    int listener = -1;
    uint16_t port = 0;
    memset(all, 0, (size_t)ranks * sizeof *all);
    assert_int_equal(address_listen("127.0.0.1", 0, &listener, &port, NULL), WEFT_OK);
    close(listener);
    for (int i = 0; i < ranks; i++) {
        all[i].number = i;
        all[i].ranks = ranks;
        all[i].per_node = per_node;
        all[i].body = body;
        snprintf(all[i].address, sizeof all[i].address, "127.0.0.1:%u", port);
        assert_int_equal(pthread_create(&all[i].thread, NULL, rank_live, &all[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(all[i].thread, NULL);
}

#endif
