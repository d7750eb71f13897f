/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher tests start: meets the other ranks, checks every endpoint info, prints "rank R of N by LAUNCHER ...".
 *
 *     --absent R   rank R goes away without rendezvous anybody
 *     --limit S    the time limit of the rendezvous (WEFT_RENDEZVOUS_LIMIT, or 20)
 *     --stay S     then connect the control plane and stay, until it fails: prints "learned MESSAGE" and exits with 5;
 * or until S seconds have passed: says goodbye and exits with 0
 *     --liveness S the control plane's limit of silence
 *     --leave R    rank R says goodbye at once
 */
#include "base/clock.h"
#include "core/control/control.h"
#include "core/control/rendezvous/bootstrap.h"
#include "core/control/wire/endpoint_info.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int absent, leave;
    double limit, stay, liveness;
} wanted = {-1, -1, 20, 0, 0};

static int complain(const struct error *error)
{
    fprintf(stderr, "meet: %s\n", error->text);
    return 3;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--absent") == 0)
            wanted.absent = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--limit") == 0)
            wanted.limit = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--stay") == 0)
            wanted.stay = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--liveness") == 0)
            wanted.liveness = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--leave") == 0)
            wanted.leave = atoi(argv[i + 1]);
    }
}

static int check_cards(const struct endpoint_info *endpoints, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "extra of %u", i);
        if (endpoints[i].rank != i || strcmp((const char *)endpoints[i].extra, expected) != 0)
            return fprintf(stderr, "meet: endpoint info %u is wrong\n", i), 4;
    }
    return 0;
}

/* Drive the control plane until it fails or the time is over. */
static int stay(struct control *control, uint32_t rank)
{
    struct error error = {0};
    uint64_t end = clock_now() + (uint64_t)(wanted.stay * 1e9);
    if ((int)rank == wanted.leave)
        end = 0;
    while (!control_failed(control) && clock_now() < end) {
        int milliseconds = control_progress(control);
        struct pollfd wait = {control_descriptor(control), POLLIN, 0};
        poll(&wait, 1, milliseconds < 0 || milliseconds > 50 ? 50 : milliseconds);
    }
    if (!control_failed(control))
        return 0;
    control_failure(control, &error);
    printf("learned %s\n", error.text);
    fflush(stdout);
    return 5;
}

/* Go away without a farewell to anybody. */
static int vanish(struct bootstrap *bootstrap, struct control *control, struct endpoint_info *endpoints, int code)
{
    control_abandon(control);
    bootstrap_abandon(bootstrap);
    bootstrap_close(bootstrap);
    free(endpoints);
    return code;
}

int main(int argc, char **argv)
{
    const char *limit = getenv("WEFT_RENDEZVOUS_LIMIT");
    wanted.limit = limit ? atof(limit) : wanted.limit;
    read_arguments(argc, argv);
    struct bootstrap_config config = {.limit_seconds = wanted.limit};
    struct error error = {0};
    struct bootstrap *bootstrap = NULL;
    if (bootstrap_open(&config, &bootstrap, &error) != WEFT_OK)
        return complain(&error);
    uint32_t rank = bootstrap_rank(bootstrap), ranks = bootstrap_ranks(bootstrap);
    if ((int)rank == wanted.absent)
        return vanish(bootstrap, NULL, NULL, 0);
    struct endpoint_info endpoint, *endpoints = NULL;
    struct control *control = NULL;
    const struct control_config settings = {.rank = rank, .ranks = ranks, .liveness_limit = wanted.liveness};
    const char *hint = bootstrap_interface_hint(bootstrap);
    if (endpoint_info_begin(&endpoint, rank, NULL, &error) != WEFT_OK)
        return vanish(bootstrap, NULL, NULL, complain(&error));
    snprintf((char *)endpoint.extra, sizeof endpoint.extra, "extra of %u", rank);
    if (control_open(&settings, hint, &control, &endpoint, &error) != WEFT_OK ||
        bootstrap_exchange(bootstrap, &endpoint, &endpoints, &error) != WEFT_OK)
        return vanish(bootstrap, control, NULL, complain(&error));
    int code = check_cards(endpoints, ranks);
    printf("rank %u of %u by %s on %s at %s process %d key %02x%02x%02x\n", rank, ranks, bootstrap_launcher(bootstrap),
           endpoints[rank].host, hint ? hint : "-", (int)getpid(), bootstrap_secret(bootstrap)[0],
           bootstrap_secret(bootstrap)[1], bootstrap_secret(bootstrap)[2]);
    fflush(stdout);
    if (code == 0 && wanted.stay > 0) {
        if (control_connect(control, endpoints, bootstrap_secret(bootstrap), &error) != WEFT_OK)
            return vanish(bootstrap, control, endpoints, complain(&error));
        code = stay(control, rank);
    }
    control_close(control);
    bootstrap_close(bootstrap);
    free(endpoints);
    return code;
}
