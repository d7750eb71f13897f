/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/meeting_server.h"

#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/secret.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ADDRESSES_BYTES 900

struct meeting_server {
    struct rendezvous_server rendezvous;
    uint8_t secret[SECRET_BYTES];
    const struct host_list *hosts;
    int listener;
    pthread_t thread;
    bool running;
};

static const char *meeting_server_host_of(void *context, uint32_t rank)
{
    const struct meeting_server *server = context;
    for (uint32_t i = 0; i < server->hosts->count; i++) {
        const struct host *host = &server->hosts->hosts[i];
        if (rank >= host->first && rank - host->first < host->ranks)
            return host->name;
    }
    return NULL;
}

static void meeting_server_report(void *context, const char *message)
{
    (void)context;
    dprintf(STDERR_FILENO, "weft run: %s\n", message); /* one write: a line of its own */
}

static void *meeting_server_serve(void *argument)
{
    struct meeting_server *server = argument;
    struct error error = {0};
    if (rendezvous_serve(server->listener, &server->rendezvous, &error) != WEFT_OK)
        meeting_server_report(NULL, error.text);
    return NULL;
}

static bool meeting_server_add(struct texts *environment, const char *name, const char *value)
{
    char text[ADDRESSES_BYTES + 64];
    snprintf(text, sizeof text, "%s=%s", name, value);
    return texts_add(environment, text);
}

static weft_status meeting_server_describe(struct meeting_server *server, const struct launch_config *config,
                                           bool remote, uint16_t port, struct texts *environment, struct error *error)
{
    char addresses[ADDRESSES_BYTES], secret[SECRET_TEXT_BYTES], limit[32];
    const char *given = getenv("WEFT_SECRET"), *address = config->meeting_address;
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
    snprintf(limit, sizeof limit, "%g", config->meeting_limit);
    bool added = meeting_server_add(environment, "WEFT_MEETING", addresses) &&
                 meeting_server_add(environment, "WEFT_SECRET", given) &&
                 meeting_server_add(environment, "WEFT_MEETING_LIMIT", limit) &&
                 meeting_server_add(environment, "WEFT_MEETING_SERVED", "1");
    return added ? WEFT_OK : error_memory(error, sizeof addresses, "the ranks' environment");
}

weft_status meeting_server_start(const struct launch_config *config, bool remote, struct texts *environment,
                                 struct meeting_server **result, struct error *error)
{
    struct meeting_server *server = calloc(1, sizeof *server);
    if (!server)
        return error_memory(error, sizeof *server, "the meeting");
    uint16_t port = 0;
    server->listener = -1;
    server->hosts = &config->hosts;
    server->rendezvous = (struct rendezvous_server){.ranks = config->hosts.ranks,
                                                    .secret = server->secret,
                                                    .limit_seconds = config->meeting_limit,
                                                    .again = true,
                                                    .stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                                    .host_of = meeting_server_host_of,
                                                    .report = meeting_server_report,
                                                    .context = server};
    weft_status status = WEFT_OK;
    if (server->rendezvous.stop < 0)
        status = error_system(error, "cannot make a descriptor for the meeting");
    if (status == WEFT_OK)
        status = address_listen(config->meeting_address ? config->meeting_address
                                : remote                ? NULL
                                                        : "127.0.0.1",
                                config->meeting_port, &server->listener, &port, error);
    if (status == WEFT_OK)
        status = meeting_server_describe(server, config, remote, port, environment, error);
    if (status == WEFT_OK) {
        int code = pthread_create(&server->thread, NULL, meeting_server_serve, server);
        server->running = code == 0;
        if (code != 0)
            status = error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that serves the meeting: %s",
                               strerror(code));
    }
    if (status != WEFT_OK) {
        meeting_server_stop(server);
        return status;
    }
    *result = server;
    return WEFT_OK;
}

void meeting_server_stop(struct meeting_server *server)
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
    free(server);
}
