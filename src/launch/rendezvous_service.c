/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/rendezvous_service.h"

#include "core/control/regroup/regroup.h"
#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/secret.h"
#include "launch/internal/job_record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ADDRESSES_BYTES 900
#define RELEASE_SECONDS 1.0

struct rendezvous_service {
    struct rendezvous_server rendezvous;
    uint8_t secret[SECRET_BYTES];
    const struct host_list *hosts;
    int listener;
    pthread_t thread;
    bool running;
    atomic_bool met;
    int changed; /* readable after a change of the members */
    pthread_mutex_t lock;
    struct buffer members; /* the round's random bytes, then struct regroup_member: as the lowest rank has left them */
    bool is_new;           /* nobody has looked at them */
    struct buffer overtaken; /* ranks (4 bytes each) that nobody has asked for */
};

static const char *rendezvous_service_host_of(void *context, uint32_t rank)
{
    const struct rendezvous_service *server = context;
    for (uint32_t i = 0; i < server->hosts->count; i++) {
        const struct host *host = &server->hosts->hosts[i];
        if (rank >= host->first && rank - host->first < host->ranks)
            return host->name;
    }
    return NULL;
}

static void rendezvous_service_report(void *context, const char *message)
{
    (void)context;
    dprintf(STDERR_FILENO, "weft run: %s\n", message); /* one write: a line of its own */
}

static void rendezvous_service_complete(void *context)
{
    struct rendezvous_service *server = context;
    atomic_store(&server->met, true);
}

static void rendezvous_service_take(void *context, const void *bytes, size_t size)
{
    struct rendezvous_service *server = context;
    pthread_mutex_lock(&server->lock);
    buffer_free(&server->members);
    buffer_put(&server->members, bytes, size);
    server->is_new = true;
    pthread_mutex_unlock(&server->lock);
    atomic_store(&server->met, true);
    eventfd_write(server->changed, 1);
}

static void rendezvous_service_note_overtaken(void *context, uint32_t rank)
{
    struct rendezvous_service *server = context;
    pthread_mutex_lock(&server->lock);
    buffer_put_u32(&server->overtaken, rank);
    pthread_mutex_unlock(&server->lock);
}

bool rendezvous_service_overtaken(struct rendezvous_service *server, uint32_t *rank)
{
    pthread_mutex_lock(&server->lock);
    struct reader reader = {buffer_begin(&server->overtaken), buffer_size(&server->overtaken), false};
    const bool is_there = reader.left > 0;
    if (is_there) {
        *rank = reader_u32(&reader);
        buffer_consume(&server->overtaken, sizeof *rank);
    }
    pthread_mutex_unlock(&server->lock);
    return is_there;
}

int rendezvous_service_descriptor(const struct rendezvous_service *server)
{
    return server->changed;
}

/* Under the lock. They may not be aligned. */
static uint32_t rendezvous_service_count(const struct rendezvous_service *server)
{
    const size_t size = buffer_size(&server->members);
    return size < SECRET_BYTES ? 0 : (uint32_t)((size - SECRET_BYTES) / sizeof(struct regroup_member));
}

static struct regroup_member rendezvous_service_member(const struct rendezvous_service *server, uint32_t index)
{
    struct regroup_member member;
    memcpy(&member, buffer_begin(&server->members) + SECRET_BYTES + index * sizeof member, sizeof member);
    endpoint_info_end_texts(&member.endpoint);
    return member;
}

bool rendezvous_service_members(struct rendezvous_service *server, uint32_t **ranks, uint32_t *count)
{
    eventfd_t ignored;
    eventfd_read(server->changed, &ignored);
    pthread_mutex_lock(&server->lock);
    *count = rendezvous_service_count(server);
    *ranks = server->is_new ? malloc((*count + (size_t)1) * sizeof **ranks) : NULL;
    for (uint32_t i = 0; *ranks && i < *count; i++)
        (*ranks)[i] = rendezvous_service_member(server, i).rank;
    server->is_new = server->is_new && !*ranks;
    pthread_mutex_unlock(&server->lock);
    return *ranks != NULL;
}

void rendezvous_service_record(struct rendezvous_service *server, struct buffer *members)
{
    pthread_mutex_lock(&server->lock);
    buffer_put(members, buffer_begin(&server->members), buffer_size(&server->members));
    pthread_mutex_unlock(&server->lock);
}

weft_status rendezvous_service_release(struct rendezvous_service *server, uint32_t lowest, uint32_t rank,
                                       struct error *error)
{
    uint8_t secret[SECRET_BYTES];
    struct regroup_member leader;
    pthread_mutex_lock(&server->lock);
    const bool known = rendezvous_service_count(server) > 0;
    if (known) {
        leader = rendezvous_service_member(server, 0);
        /* The members may be older than the launcher, and the first of them may have been lost meanwhile. */
        for (uint32_t i = 1; leader.rank < lowest && i < rendezvous_service_count(server); i++)
            leader = rendezvous_service_member(server, i);
        rendezvous_session(server->secret, buffer_begin(&server->members), secret);
    }
    pthread_mutex_unlock(&server->lock);
    if (!known)
        return error_set(error, WEFT_ERROR_STATE, "the ranks of the job have not met yet");
    return regroup_ask_to_leave(&leader.endpoint, secret, &rank, 1, RELEASE_SECONDS, error);
}

bool rendezvous_service_met(const struct rendezvous_service *server)
{
    return atomic_load(&server->met);
}

static void *rendezvous_service_serve(void *argument)
{
    struct rendezvous_service *server = argument;
    struct error error = {0};
    if (rendezvous_serve(server->listener, &server->rendezvous, &error) != WEFT_OK)
        rendezvous_service_report(NULL, error.text);
    return NULL;
}

/* What another launcher has left. */
static weft_status rendezvous_service_restore(struct rendezvous_service *server, const struct launch_config *config,
                                              const struct string_list *environment, struct error *error)
{
    const struct job_record *record = config->record;
    const char *secret = order_variable(environment, "WEFT_SECRET");
    buffer_put(&server->members, record->members, record->members_size);
    server->rendezvous.members = record->members;
    server->rendezvous.members_size = record->members_size;
    atomic_store(&server->met, record->met);
    return secret_from_text(secret ? secret : "", server->secret, error);
}

static weft_status rendezvous_service_describe(struct rendezvous_service *server, const struct launch_config *config,
                                               bool remote, uint16_t port, struct string_list *environment,
                                               struct error *error)
{
    char addresses[ADDRESSES_BYTES], secret[SECRET_TEXT_BYTES], limit[32];
    const char *given = getenv("WEFT_SECRET"), *address = config->bootstrap_address;
    weft_status status = WEFT_OK;
    if (remote && !address)
        address_list(port, addresses, sizeof addresses);
    else
        snprintf(addresses, sizeof addresses, address && strchr(address, ':') ? "[%s]:%u" : "%s:%u",
                 address ? address : "127.0.0.1", port);
    if (!given || !*given) {
        status = secret_make_text(secret, error);
        given = secret;
    }
    if (status == WEFT_OK)
        status = secret_from_text(given, server->secret, error);
    if (status != WEFT_OK)
        return status;
    snprintf(limit, sizeof limit, "%g", config->rendezvous_limit);
    const char *const variables[][2] = {{"WEFT_RENDEZVOUS", addresses},
                                        {"WEFT_SECRET", given},
                                        {"WEFT_RENDEZVOUS_LIMIT", limit},
                                        {"WEFT_RENDEZVOUS_SERVED", "1"}};
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(variables); i++) {
        char text[ADDRESSES_BYTES + 64];
        snprintf(text, sizeof text, "%s=%s", variables[i][0], variables[i][1]);
        status = string_list_add(environment, text, error);
    }
    return status;
}

weft_status rendezvous_service_start(const struct launch_config *config, bool remote, struct string_list *environment,
                                     struct rendezvous_service **result, struct error *error)
{
    struct rendezvous_service *server = calloc(1, sizeof *server);
    if (!server)
        return error_memory(error, sizeof *server, "the rendezvous");
    uint16_t port = 0;
    server->listener = -1;
    server->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&server->lock, NULL);
    server->hosts = &config->hosts;
    server->rendezvous = (struct rendezvous_server){.ranks = config->hosts.ranks,
                                                    .secret = server->secret,
                                                    .limit_seconds = config->rendezvous_limit,
                                                    .again = true,
                                                    .stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                                    .host_of = rendezvous_service_host_of,
                                                    .report = rendezvous_service_report,
                                                    .complete = config->additions ? NULL : rendezvous_service_complete,
                                                    .members_left = rendezvous_service_take,
                                                    .overtaken = rendezvous_service_note_overtaken,
                                                    .context = server};
    weft_status status = WEFT_OK;
    if (server->rendezvous.stop < 0 || server->changed < 0)
        status = error_system(error, "cannot make a descriptor for the rendezvous");
    if (status == WEFT_OK)
        status = address_listen(config->bootstrap_address ? config->bootstrap_address
                                : remote                  ? NULL
                                                          : "127.0.0.1",
                                config->bootstrap_port, &server->listener, &port, error);
    if (status == WEFT_OK)
        status = config->record ? rendezvous_service_restore(server, config, environment, error)
                                : rendezvous_service_describe(server, config, remote, port, environment, error);
    if (status == WEFT_OK) {
        int code = pthread_create(&server->thread, NULL, rendezvous_service_serve, server);
        server->running = code == 0;
        if (code != 0)
            status = error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that serves the rendezvous: %s",
                               strerror(code));
    }
    if (status != WEFT_OK) {
        rendezvous_service_stop(server);
        return status;
    }
    *result = server;
    return WEFT_OK;
}

void rendezvous_service_stop(struct rendezvous_service *server)
{
    if (!server)
        return;
    if (server->running) {
        eventfd_write(server->rendezvous.stop, 1);
        pthread_join(server->thread, NULL);
    }
    if (server->listener >= 0)
        close(server->listener);
    if (server->rendezvous.stop >= 0)
        close(server->rendezvous.stop);
    if (server->changed >= 0)
        close(server->changed);
    buffer_free(&server->members);
    buffer_free(&server->overtaken);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
