/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/rendezvous/meeting.h"

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

struct meeting {
    const char *launcher;
    uint32_t rank, ranks;
    double limit_seconds;
    uint8_t secret[MEETING_SECRET_BYTES]; /* the job's before the exchange, the round's after it */
    struct kvs *kvs;                      /* one of the two ways to meet; NULL: by TCP, or alone */
    char addresses[ENVIRONMENT_TEXT_BYTES];
    int listener; /* >= 0: this rank serves the others */
    int stop;
    bool serving;
    bool abandoned;
    pthread_t server;
    uint32_t node, local_rank, local_ranks;
    struct rendezvous *rendezvous;
    struct meeting_cost cost;
    char local_address[64];
};

static bool meeting_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

/* Rank 0 listens from the beginning, so that a port in use is told before anything else is done. */
static weft_status listen_here(struct meeting *meeting, struct error *error)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    weft_status status = address_parse(meeting->addresses, host, &port, error);
    if (status != WEFT_OK)
        return status;
    status = address_listen(meeting_is_loopback(host) ? host : NULL, port, &meeting->listener, NULL, error);
    meeting->stop = status == WEFT_OK ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    return status;
}

static weft_status open_tcp(struct meeting *meeting, const struct environment *environment, struct error *error)
{
    meeting->launcher = environment->launcher;
    meeting->rank = environment->rank;
    meeting->ranks = environment->ranks;
    if (environment->ranks == 1)
        return secret_random(meeting->secret, sizeof meeting->secret, error);
    meeting->node = environment->node;
    meeting->local_rank = environment->local_rank;
    meeting->local_ranks = environment->local_ranks;
    snprintf(meeting->addresses, sizeof meeting->addresses, "%s", environment->addresses);
    weft_status status = secret_from_text(environment->secret, meeting->secret, error);
    if (status == WEFT_OK && meeting->rank == 0 && !environment->served)
        status = listen_here(meeting, error);
    if (status != WEFT_OK)
        return status;
    const struct rendezvous_client client = {.addresses = meeting->addresses,
                                             .rank = meeting->rank,
                                             .ranks = meeting->ranks,
                                             .secret = meeting->secret,
                                             .limit_seconds = meeting->limit_seconds,
                                             .stop = -1,
                                             .node = meeting->node,
                                             .local_rank = meeting->local_rank,
                                             .local_ranks = meeting->local_ranks};
    status = rendezvous_open(&client, &meeting->rendezvous, error);
    if (status == WEFT_OK)
        snprintf(meeting->local_address, sizeof meeting->local_address, "%s", rendezvous_address(meeting->rendezvous));
    return status;
}

static weft_status open_configured(struct meeting *meeting, const struct meeting_config *config, struct error *error)
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
                         config->address ? "secret with" : "address (meeting)");
    if (config->ranks > 1 && (strlen(config->address) >= sizeof environment.addresses ||
                              strlen(config->secret) >= sizeof environment.secret))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the configuration's %s is longer than %d characters",
                         strlen(config->secret) >= sizeof environment.secret ? "secret" : "address of the meeting",
                         ENVIRONMENT_TEXT_BYTES - 1);
    if (config->ranks > 1) {
        strcpy(environment.addresses, config->address);
        strcpy(environment.secret, config->secret);
    }
    return open_tcp(meeting, &environment, error);
}

static weft_status open_detected(struct meeting *meeting, struct error *error)
{
    struct environment environment;
    weft_status status = WEFT_OK;
    if (environment_weft(&environment, &status, error))
        return status == WEFT_OK ? open_tcp(meeting, &environment, error) : status;
    if (kvs_pmix_offered())
        status = kvs_open_pmix(&meeting->kvs, error);
    else if (kvs_pmi2_offered())
        status = kvs_open_pmi2(&meeting->kvs, error);
    else if (kvs_pmi1_offered())
        status = kvs_open_pmi1(&meeting->kvs, error);
    else if (environment_slurm(&environment, &status, error) || environment_torchrun(&environment, &status, error))
        return status == WEFT_OK ? open_tcp(meeting, &environment, error) : status;
    else
        environment = (struct environment){.launcher = "alone", .ranks = 1};
    if (status != WEFT_OK)
        return status;
    if (!meeting->kvs)
        return open_tcp(meeting, &environment, error);
    meeting->launcher = meeting->kvs->name;
    meeting->rank = meeting->kvs->rank;
    meeting->ranks = meeting->kvs->ranks;
    return WEFT_OK;
}

weft_status meeting_open(const struct meeting_config *config, struct meeting **result, struct error *error)
{
    struct meeting *meeting = calloc(1, sizeof *meeting);
    if (!meeting)
        return error_memory(error, sizeof *meeting, "the meeting");
    meeting->listener = meeting->stop = -1;
    meeting->limit_seconds = config->limit_seconds > 0 ? config->limit_seconds : DEFAULT_LIMIT_SECONDS;
    weft_status status = config->ranks ? open_configured(meeting, config, error) : open_detected(meeting, error);
    if (status != WEFT_OK) {
        meeting_close(meeting);
        return status;
    }
    *result = meeting;
    return WEFT_OK;
}

/* Let the serving thread end. `given_up`: do not wait for ranks that have not come. */
static void end_serving(struct meeting *meeting, bool given_up)
{
    if (!meeting->serving)
        return;
    if (given_up)
        eventfd_write(meeting->stop, 1);
    pthread_join(meeting->server, NULL);
    meeting->serving = false;
}

void meeting_close(struct meeting *meeting)
{
    if (!meeting)
        return;
    rendezvous_close(meeting->rendezvous);
    end_serving(meeting, true);
    if (meeting->listener >= 0)
        close(meeting->listener);
    if (meeting->stop >= 0)
        close(meeting->stop);
    if (meeting->kvs)
        meeting->kvs->close(meeting->kvs, !meeting->abandoned);
    free(meeting);
}

void meeting_abandon(struct meeting *meeting)
{
    meeting->abandoned = true;
}

uint32_t meeting_rank(const struct meeting *meeting)
{
    return meeting->rank;
}

uint32_t meeting_ranks(const struct meeting *meeting)
{
    return meeting->ranks;
}

const char *meeting_launcher(const struct meeting *meeting)
{
    return meeting->launcher;
}

const char *meeting_interface_hint(const struct meeting *meeting)
{
    /* This host may know the meeting's host name, its own, as a loopback address: no other host can use that. */
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    if (!*meeting->local_address)
        return NULL;
    if (meeting_is_loopback(meeting->local_address) &&
        (address_parse(meeting->addresses, host, &port, NULL) != WEFT_OK || !meeting_is_loopback(host)))
        return NULL;
    return meeting->local_address;
}

const uint8_t *meeting_secret(const struct meeting *meeting)
{
    return meeting->secret;
}

struct meeting_cost meeting_cost(const struct meeting *meeting)
{
    return meeting->cost;
}

static void *meeting_serve(void *argument)
{
    const struct meeting *meeting = argument;
    const struct rendezvous_server server = {.ranks = meeting->ranks,
                                             .secret = meeting->secret,
                                             .limit_seconds = meeting->limit_seconds,
                                             .stop = meeting->stop};
    /* What goes wrong is told to every rank that has come, this one included: its own visit returns the message. */
    (void)rendezvous_serve(meeting->listener, &server, NULL);
    return NULL;
}

static weft_status take_result(struct meeting *meeting, const struct rendezvous_result *result, struct card **cards)
{
    rendezvous_close(meeting->rendezvous);
    meeting->rendezvous = NULL;
    memcpy(meeting->secret, result->session, sizeof meeting->secret);
    meeting->cost =
        (struct meeting_cost){result->counts.sent + result->counts.received, result->chain, result->counts.bytes};
    *cards = (struct card *)result->blobs;
    return WEFT_OK;
}

static weft_status exchange_tcp(struct meeting *meeting, const struct card *card, struct card **cards,
                                struct error *error)
{
    if (meeting->listener >= 0) {
        int code = pthread_create(&meeting->server, NULL, meeting_serve, meeting);
        if (code != 0)
            return error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that serves the meeting: %s",
                             strerror(code));
        meeting->serving = true;
    }
    struct rendezvous_result result = {0};
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    /* Leaders listen for one another where the control plane does. */
    bool listens = address_parse(card->control, host, &port, NULL) == WEFT_OK;
    weft_status status =
        rendezvous_join(meeting->rendezvous, listens ? host : NULL, card, sizeof *card, &result, error);
    rendezvous_close(meeting->rendezvous);
    meeting->rendezvous = NULL;
    end_serving(meeting, status != WEFT_OK && status != WEFT_ERROR_TIMEOUT);
    if (status != WEFT_OK)
        return status;
    return take_result(meeting, &result, cards);
}

/* The launcher's store tells where the rank above is; the cards travel over the tree. */
static weft_status exchange_kvs(struct meeting *meeting, const struct card *card, struct card **cards,
                                struct error *error)
{
    const struct rendezvous_client client = {.addresses = meeting->kvs->name,
                                             .rank = meeting->rank,
                                             .ranks = meeting->ranks,
                                             .limit_seconds = meeting->limit_seconds,
                                             .stop = -1};
    struct rendezvous_result result = {0};
    char secret[2 * SECRET_TEXT_BYTES] = "", host[ADDRESS_TEXT_BYTES], parent[KVS_PLACE_BYTES] = "";
    uint32_t above = meeting->rank == 0 ? 0 : tree_place_parent(meeting->rank);
    uint16_t port;
    weft_status status = meeting->ranks > 1 ? address_parse(card->control, host, &port, error) : WEFT_OK;
    if (status == WEFT_OK)
        status = rendezvous_listen(&client, host, &meeting->rendezvous, error);
    if (status == WEFT_OK && meeting->rank == 0)
        status = secret_make_text(secret, error);
    if (status == WEFT_OK)
        status = kvs_exchange(meeting->kvs, rendezvous_place(meeting->rendezvous), above, parent, secret,
                              meeting->limit_seconds, error);
    if (status == WEFT_OK)
        status = secret_from_text(secret, meeting->secret, error);
    if (status == WEFT_OK)
        status = rendezvous_gather(meeting->rendezvous, meeting->secret, meeting->rank == 0 ? NULL : parent, card,
                                   sizeof *card, &result, error);
    return status == WEFT_OK ? take_result(meeting, &result, cards) : status;
}

static weft_status exchange_alone(const struct card *card, struct card **cards, struct error *error)
{
    *cards = malloc(sizeof **cards);
    if (!*cards)
        return error_memory(error, sizeof **cards, "the card");
    **cards = *card;
    return WEFT_OK;
}

/* What came from elsewhere is checked once, here: texts end, and each rank is in its place. */
static weft_status check_cards(const struct meeting *meeting, struct card *cards, struct error *error)
{
    for (uint32_t rank = 0; rank < meeting->ranks; rank++) {
        card_end_texts(&cards[rank]);
        if (cards[rank].rank != rank)
            return error_set(error, WEFT_ERROR_RENDEZVOUS, "the card in place %u of the meeting's table is of rank %u",
                             rank, cards[rank].rank);
    }
    return WEFT_OK;
}

weft_status meeting_exchange(struct meeting *meeting, const struct card *card, struct card **result,
                             struct error *error)
{
    struct card *cards = NULL;
    weft_status status = meeting->kvs          ? exchange_kvs(meeting, card, &cards, error)
                         : meeting->ranks == 1 ? exchange_alone(card, &cards, error)
                                               : exchange_tcp(meeting, card, &cards, error);
    if (status == WEFT_OK)
        status = check_cards(meeting, cards, error);
    if (status != WEFT_OK) {
        meeting_abandon(meeting);
        free(cards);
        return status;
    }
    *result = cards;
    return WEFT_OK;
}
