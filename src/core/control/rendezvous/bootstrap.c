/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/rendezvous/bootstrap.h"

#include "base/text.h"
#include "core/control/rendezvous/internal/kvs.h"
#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/environment.h"
#include "core/control/wire/tree.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_LIMIT_SECONDS 60.0
#define LEAVE_SECONDS         5.0 /* for the launcher to take the members: without it nobody joins anyway */
#define REACH_SECONDS         1.0 /* of these, for its port to be reached */

struct bootstrap {
    const char *launcher;
    uint32_t rank, ranks;
    double limit_seconds;
    uint8_t job_secret[BOOTSTRAP_SECRET_BYTES];
    uint8_t draw[BOOTSTRAP_SECRET_BYTES];   /* the round's random bytes */
    uint8_t secret[BOOTSTRAP_SECRET_BYTES]; /* the job's before the exchange, the round's after it */
    struct kvs *kvs;                        /* one of the two kinds of rendezvous; NULL: by TCP, or alone */
    char addresses[ENVIRONMENT_TEXT_BYTES];
    int listener; /* >= 0: this rank serves the others */
    int stop;
    bool serving;
    bool abandoned;
    bool grows;
    pthread_t server;
    uint32_t node, local_rank, local_ranks;
    struct rendezvous *rendezvous;
    struct bootstrap_cost cost;
    char local_address[64];
};

static bool rendezvous_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

/* Rank 0 listens from the beginning, so that a port in use is reported before anything else is done. */
static weft_status bootstrap_listen(struct bootstrap *bootstrap, struct error *error)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    weft_status status = address_parse(bootstrap->addresses, host, &port, error);
    if (status != WEFT_OK)
        return status;
    status = address_listen(rendezvous_is_loopback(host) ? host : NULL, port, &bootstrap->listener, NULL, error);
    bootstrap->stop = status == WEFT_OK ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    return status;
}

/* A client of the server, which does not know which ranks share a node. */
static struct rendezvous_client bootstrap_client(const struct bootstrap *bootstrap)
{
    return (struct rendezvous_client){.addresses = bootstrap->addresses,
                                      .rank = bootstrap->rank,
                                      .ranks = bootstrap->ranks,
                                      .secret = bootstrap->job_secret,
                                      .limit_seconds = bootstrap->limit_seconds,
                                      .stop = -1};
}

static weft_status bootstrap_open_tcp(struct bootstrap *bootstrap, const struct environment *environment,
                                      struct error *error)
{
    bootstrap->launcher = environment->launcher;
    bootstrap->rank = environment->rank;
    bootstrap->ranks = environment->ranks;
    bootstrap->grows = environment->grows;
    if (environment->ranks == 1 && environment->rank == 0 && !environment->grows)
        return secret_random(bootstrap->secret, sizeof bootstrap->secret, error);
    bootstrap->node = environment->node;
    bootstrap->local_rank = environment->local_rank;
    bootstrap->local_ranks = environment->local_ranks;
    snprintf(bootstrap->addresses, sizeof bootstrap->addresses, "%s", environment->addresses);
    weft_status status = secret_from_text(environment->secret, bootstrap->secret, error);
    memcpy(bootstrap->job_secret, bootstrap->secret, sizeof bootstrap->job_secret);
    if (status == WEFT_OK && bootstrap->rank == 0 && !environment->served)
        status = bootstrap_listen(bootstrap, error);
    if (status != WEFT_OK || bootstrap_joins(bootstrap))
        return status;
    struct rendezvous_client client = bootstrap_client(bootstrap);
    client.node = bootstrap->node;
    client.local_rank = bootstrap->local_rank;
    client.local_ranks = bootstrap->local_ranks;
    status = rendezvous_open(&client, &bootstrap->rendezvous, error);
    if (status == WEFT_OK)
        snprintf(bootstrap->local_address, sizeof bootstrap->local_address, "%s",
                 rendezvous_address(bootstrap->rendezvous));
    return status;
}

static weft_status bootstrap_open_configured(struct bootstrap *bootstrap, const struct bootstrap_config *config,
                                             struct error *error)
{
    struct environment environment = {.launcher = "configuration",
                                      .rank = (uint32_t)config->rank,
                                      .ranks = (uint32_t)config->ranks,
                                      .node = (uint32_t)config->node,
                                      .local_rank = (uint32_t)config->local_rank,
                                      .local_ranks = (uint32_t)config->local_ranks};
    if (config->ranks < 1 || config->rank < 0 || config->rank >= config->ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the configuration says rank %d of %d ranks; ranks count from 0",
                         config->rank, config->ranks);
    if (config->ranks > 1 && (!config->address || !config->secret))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the configuration says %d ranks but not the %s at which they meet", config->ranks,
                         config->address ? "secret with" : "address (rendezvous)");
    if (config->ranks > 1 && (strlen(config->address) >= sizeof environment.addresses ||
                              strlen(config->secret) >= sizeof environment.secret))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the configuration's %s is longer than %d characters",
                         strlen(config->secret) >= sizeof environment.secret ? "secret" : "address of the rendezvous",
                         ENVIRONMENT_TEXT_BYTES - 1);
    if (config->ranks > 1) {
        strcpy(environment.addresses, config->address);
        strcpy(environment.secret, config->secret);
    }
    return bootstrap_open_tcp(bootstrap, &environment, error);
}

static weft_status bootstrap_open_detected(struct bootstrap *bootstrap, struct error *error)
{
    struct environment environment;
    const enum launcher launcher = launcher_detect();
    weft_status status = launcher == LAUNCHER_PMIX   ? kvs_open_pmix(&bootstrap->kvs, error)
                         : launcher == LAUNCHER_PMI2 ? kvs_open_pmi2(&bootstrap->kvs, error)
                         : launcher == LAUNCHER_PMI1 ? kvs_open_pmi1(&bootstrap->kvs, error)
                                                     : environment_read(launcher, &environment, error);
    if (status != WEFT_OK)
        return status;
    if (!bootstrap->kvs)
        return bootstrap_open_tcp(bootstrap, &environment, error);
    bootstrap->launcher = bootstrap->kvs->name;
    bootstrap->rank = bootstrap->kvs->rank;
    bootstrap->ranks = bootstrap->kvs->ranks;
    return WEFT_OK;
}

weft_status bootstrap_open(const struct bootstrap_config *config, struct bootstrap **result, struct error *error)
{
    struct bootstrap *bootstrap = calloc(1, sizeof *bootstrap);
    if (!bootstrap)
        return error_memory(error, sizeof *bootstrap, "the rendezvous");
    bootstrap->listener = bootstrap->stop = -1;
    bootstrap->limit_seconds = config->limit_seconds > 0 ? config->limit_seconds : DEFAULT_LIMIT_SECONDS;
    weft_status status =
        config->ranks ? bootstrap_open_configured(bootstrap, config, error) : bootstrap_open_detected(bootstrap, error);
    if (status != WEFT_OK) {
        bootstrap_close(bootstrap);
        return status;
    }
    *result = bootstrap;
    return WEFT_OK;
}

/* Let the serving thread end. `given_up`: do not wait for ranks that have not come. */
static void bootstrap_serving_end(struct bootstrap *bootstrap, bool given_up)
{
    if (!bootstrap->serving)
        return;
    if (given_up)
        eventfd_write(bootstrap->stop, 1);
    pthread_join(bootstrap->server, NULL);
    bootstrap->serving = false;
}

void bootstrap_close(struct bootstrap *bootstrap)
{
    if (!bootstrap)
        return;
    rendezvous_close(bootstrap->rendezvous);
    bootstrap_serving_end(bootstrap, true);
    if (bootstrap->listener >= 0)
        close(bootstrap->listener);
    if (bootstrap->stop >= 0)
        close(bootstrap->stop);
    if (bootstrap->kvs)
        bootstrap->kvs->close(bootstrap->kvs, !bootstrap->abandoned);
    free(bootstrap);
}

void bootstrap_abandon(struct bootstrap *bootstrap)
{
    bootstrap->abandoned = true;
}

bool bootstrap_joins(const struct bootstrap *bootstrap)
{
    return bootstrap->rank >= bootstrap->ranks;
}

bool bootstrap_grows(const struct bootstrap *bootstrap)
{
    return bootstrap->grows;
}

uint32_t bootstrap_rank(const struct bootstrap *bootstrap)
{
    return bootstrap->rank;
}

uint32_t bootstrap_ranks(const struct bootstrap *bootstrap)
{
    return bootstrap->ranks;
}

const char *bootstrap_launcher(const struct bootstrap *bootstrap)
{
    return bootstrap->launcher;
}

const char *bootstrap_interface_hint(const struct bootstrap *bootstrap)
{
    /*
     * On the server's own host, the rendezvous's host name may resolve to a loopback address, which no other host can
     * use.
     */
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    if (!*bootstrap->local_address)
        return NULL;
    if (rendezvous_is_loopback(bootstrap->local_address) &&
        (address_parse(bootstrap->addresses, host, &port, NULL) != WEFT_OK || !rendezvous_is_loopback(host)))
        return NULL;
    return bootstrap->local_address;
}

const uint8_t *bootstrap_secret(const struct bootstrap *bootstrap)
{
    return bootstrap->secret;
}

struct bootstrap_cost bootstrap_cost(const struct bootstrap *bootstrap)
{
    return bootstrap->cost;
}

static void *bootstrap_serve(void *argument)
{
    const struct bootstrap *bootstrap = argument;
    const struct rendezvous_server server = {.ranks = bootstrap->ranks,
                                             .secret = bootstrap->secret,
                                             .limit_seconds = bootstrap->limit_seconds,
                                             .stop = bootstrap->stop};
    /*
     * The server reports an error to every rank that has joined, this one included: its own join returns the message.
     */
    (void)rendezvous_serve(bootstrap->listener, &server, NULL);
    return NULL;
}

static weft_status bootstrap_result_take(struct bootstrap *bootstrap, const struct rendezvous_result *result,
                                         struct endpoint_info **endpoints)
{
    rendezvous_close(bootstrap->rendezvous);
    bootstrap->rendezvous = NULL;
    memcpy(bootstrap->secret, result->session, sizeof bootstrap->secret);
    memcpy(bootstrap->draw, result->draw, sizeof bootstrap->draw);
    bootstrap->cost =
        (struct bootstrap_cost){result->counts.sent + result->counts.received, result->chain, result->counts.bytes};
    *endpoints = (struct endpoint_info *)result->blobs;
    return WEFT_OK;
}

static weft_status bootstrap_exchange_tcp(struct bootstrap *bootstrap, const struct endpoint_info *endpoint,
                                          struct endpoint_info **endpoints, struct error *error)
{
    if (bootstrap->listener >= 0) {
        int code = pthread_create(&bootstrap->server, NULL, bootstrap_serve, bootstrap);
        if (code != 0)
            return error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that serves the rendezvous: %s",
                             strerror(code));
        bootstrap->serving = true;
    }
    struct rendezvous_result result = {0};
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    /* Leaders listen for one another at the control plane's host address. */
    bool listens = address_parse(endpoint->control, host, &port, NULL) == WEFT_OK;
    weft_status status =
        rendezvous_join(bootstrap->rendezvous, listens ? host : NULL, endpoint, sizeof *endpoint, &result, error);
    rendezvous_close(bootstrap->rendezvous);
    bootstrap->rendezvous = NULL;
    bootstrap_serving_end(bootstrap, status != WEFT_OK && status != WEFT_ERROR_TIMEOUT);
    if (status != WEFT_OK)
        return status;
    return bootstrap_result_take(bootstrap, &result, endpoints);
}

/* The launcher's store holds the parent's address; the endpoint info travels over the tree. */
static weft_status bootstrap_exchange_kvs(struct bootstrap *bootstrap, const struct endpoint_info *endpoint,
                                          struct endpoint_info **endpoints, struct error *error)
{
    const struct rendezvous_client client = {.addresses = bootstrap->kvs->name,
                                             .rank = bootstrap->rank,
                                             .ranks = bootstrap->ranks,
                                             .limit_seconds = bootstrap->limit_seconds,
                                             .stop = -1};
    struct rendezvous_result result = {0};
    char secret[2 * SECRET_TEXT_BYTES] = "", host[ADDRESS_TEXT_BYTES], parent[KVS_PLACE_BYTES] = "";
    uint32_t above = bootstrap->rank == 0 ? 0 : tree_place_parent(bootstrap->rank);
    uint16_t port;
    weft_status status = bootstrap->ranks > 1 ? address_parse(endpoint->control, host, &port, error) : WEFT_OK;
    if (status == WEFT_OK)
        status = rendezvous_listen(&client, host, &bootstrap->rendezvous, error);
    if (status == WEFT_OK && bootstrap->rank == 0)
        status = secret_make_text(secret, error);
    if (status == WEFT_OK)
        status = kvs_exchange(bootstrap->kvs, rendezvous_place(bootstrap->rendezvous), above, parent, secret,
                              bootstrap->limit_seconds, error);
    if (status == WEFT_OK)
        status = secret_from_text(secret, bootstrap->secret, error);
    if (status == WEFT_OK)
        status = rendezvous_gather(bootstrap->rendezvous, bootstrap->secret, bootstrap->rank == 0 ? NULL : parent,
                                   endpoint, sizeof *endpoint, &result, error);
    return status == WEFT_OK ? bootstrap_result_take(bootstrap, &result, endpoints) : status;
}

static weft_status bootstrap_exchange_alone(const struct endpoint_info *endpoint, struct endpoint_info **endpoints,
                                            struct error *error)
{
    *endpoints = malloc(sizeof **endpoints);
    if (!*endpoints)
        return error_memory(error, sizeof **endpoints, "the endpoint info");
    **endpoints = *endpoint;
    return WEFT_OK;
}

/* Input from other processes is checked once, here: strings end, and each rank is at its index. */
static weft_status bootstrap_endpoints_check(const struct bootstrap *bootstrap, struct endpoint_info *endpoints,
                                             struct error *error)
{
    for (uint32_t rank = 0; rank < bootstrap->ranks; rank++) {
        endpoint_info_end_texts(&endpoints[rank]);
        if (endpoints[rank].rank != rank)
            return error_set(error, WEFT_ERROR_RENDEZVOUS,
                             "entry %u of the rendezvous's table has the endpoint info of rank %u", rank,
                             endpoints[rank].rank);
    }
    return WEFT_OK;
}

weft_status bootstrap_exchange(struct bootstrap *bootstrap, const struct endpoint_info *endpoint,
                               struct endpoint_info **result, struct error *error)
{
    struct endpoint_info *endpoints = NULL;
    weft_status status = bootstrap->kvs           ? bootstrap_exchange_kvs(bootstrap, endpoint, &endpoints, error)
                         : !bootstrap->rendezvous ? bootstrap_exchange_alone(endpoint, &endpoints, error)
                                                  : bootstrap_exchange_tcp(bootstrap, endpoint, &endpoints, error);
    if (status == WEFT_OK)
        status = bootstrap_endpoints_check(bootstrap, endpoints, error);
    if (status != WEFT_OK) {
        bootstrap_abandon(bootstrap);
        free(endpoints);
        return status;
    }
    *result = endpoints;
    return WEFT_OK;
}

/* ---- ranks that join later ---- */

/* The round's random bytes, from which a newcomer derives its secret, then the caller's bytes. */
weft_status bootstrap_leave_members(const struct bootstrap *bootstrap, const void *bytes, size_t size,
                                    struct error *error)
{
    struct rendezvous_client client = bootstrap_client(bootstrap);
    struct buffer record = {0};
    client.limit_seconds = LEAVE_SECONDS;
    client.reach_seconds = REACH_SECONDS; /* a launcher that is lost must not delay the training */
    buffer_put(&record, bootstrap->draw, sizeof bootstrap->draw);
    buffer_put(&record, bytes, size);
    const weft_status status =
        record.failed ? error_memory(error, size, "the members of the job")
                      : rendezvous_put_members(&client, buffer_begin(&record), buffer_size(&record), error);
    buffer_free(&record);
    return status;
}

weft_status bootstrap_say_overtaken(const struct bootstrap *bootstrap, struct error *error)
{
    struct rendezvous_client client = bootstrap_client(bootstrap);
    client.limit_seconds = LEAVE_SECONDS;
    return rendezvous_say_overtaken(&client, error);
}

weft_status bootstrap_find_members(struct bootstrap *bootstrap, uint8_t **result, size_t *result_size,
                                   struct error *error)
{
    const struct rendezvous_client client = bootstrap_client(bootstrap);
    uint8_t *bytes = NULL;
    size_t size = 0;
    weft_status status = rendezvous_get_members(&client, bootstrap->local_address, &bytes, &size, error);
    if (status == WEFT_OK && size < sizeof bootstrap->draw)
        status = error_set(error, WEFT_ERROR_DATA, "the launcher at %s has no members of the job", client.addresses);
    if (status != WEFT_OK) {
        free(bytes);
        return status;
    }
    memcpy(bootstrap->draw, bytes, sizeof bootstrap->draw);
    rendezvous_session(bootstrap->job_secret, bootstrap->draw, bootstrap->secret);
    *result_size = size - sizeof bootstrap->draw;
    memmove(bytes, bytes + sizeof bootstrap->draw, *result_size);
    *result = bytes;
    return WEFT_OK;
}
