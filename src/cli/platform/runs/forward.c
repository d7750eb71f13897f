/* SPDX-License-Identifier: Apache-2.0 */
/* `weft forward`: a port of a node, on this machine. Each connection is a command in the node (platform/agent/tunnel.h). */
#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "cli/frame/command.h"
#include "cli/platform/client/run_reference.h"
#include "cli/platform/runs/node_session.h"
#include "platform/registry/run/state.h"
#include "platform/registry/run_specification.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_MOST      65535
#define CARRIED_MOST   24 /* connections at once: an agent takes 64, the server's and those between nodes among them */
#define WAITING_MOST   64 /* connections that are not accepted yet */
#define REST_MS        100
#define LOOK_SECONDS   5.0 /* between two looks at the state of the run */
#define SERVER_SECONDS 60  /* a server that does not answer so long is gone */

struct forwarding {
    char place[RUN_NAME_BYTES + 32]; /* RUN/node-N */
    int64_t run, node;
    char port[8], local[8]; /* there, and here */
    atomic_uint carried;    /* connections */
};

/* A connection, and the command that carries it. */
struct forwarded {
    struct forwarding *forwarding;
    int connection;
};

/* PORT or HERE:PORT. */
static weft_status read_ports(const char *text, struct forwarding *forwarding, struct error *error)
{
    const char *colon = strchr(text, ':');
    char here[8] = "";
    int64_t local = 0, port = 0;
    if (colon && (size_t)(colon - text) < sizeof here)
        memcpy(here, text, (size_t)(colon - text));
    weft_status status =
        text_parse_integer(colon ? colon + 1 : text, "the port of the node", 1, PORT_MOST, &port, error);
    local = port;
    if (status == WEFT_OK && colon)
        status = text_parse_integer(here, "the port of this machine", 0, PORT_MOST, &local, error);
    snprintf(forwarding->port, sizeof forwarding->port, "%" PRId64, port);
    snprintf(forwarding->local, sizeof forwarding->local, "%" PRId64, local);
    return status;
}

/* ---- connections ---- */

static void *carry_connection(void *context)
{
    struct forwarded *forwarded = context;
    struct forwarding *forwarding = forwarded->forwarding;
    struct error error = {0};
    char program[] = "weft", tunnel[] = "node-tunnel", port[sizeof forwarding->port];
    char *command[] = {program, tunnel, port, NULL};
    int code;
    memcpy(port, forwarding->port, sizeof port);
    const struct node_session_config config = {.place = forwarding->place,
                                               .command = command,
                                               .input = forwarded->connection,
                                               .output = forwarded->connection};
    if (node_session_run(&config, &code, &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
    shutdown(forwarded->connection, SHUT_RDWR); /* a sender that still has it reads no more */
    close(forwarded->connection);
    free(forwarded);
    atomic_fetch_sub(&forwarding->carried, 1);
    return NULL;
}

static void take_connection(struct forwarding *forwarding, int connection)
{
    pthread_t thread;
    struct forwarded *forwarded = malloc(sizeof *forwarded);
    if (forwarded)
        *forwarded = (struct forwarded){.forwarding = forwarding, .connection = connection};
    atomic_fetch_add(&forwarding->carried, 1);
    if (!forwarded || thread_start(&thread, carry_connection, forwarded) != 0) {
        fprintf(stderr, "weft: a connection is refused: this machine is out of memory or threads\n");
        atomic_fetch_sub(&forwarding->carried, 1);
        free(forwarded);
        close(connection);
        return;
    }
    pthread_detach(thread);
}

/* On the loopback only: everybody who reaches this machine could use the node otherwise. */
static weft_status open_port(struct forwarding *forwarding, int *listener, struct error *error)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(forwarding->local)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int one = 1;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0 || setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(*listener, (const struct sockaddr *)&address, size) != 0 || listen(*listener, WAITING_MOST) != 0 ||
        getsockname(*listener, (struct sockaddr *)&address, &size) != 0)
        return error_system(error,
                            "cannot use port %s of this machine; name another one: weft forward RUN HERE:PORT, or 0 "
                            "for any that is free",
                            forwarding->local);
    snprintf(forwarding->local, sizeof forwarding->local, "%u", ntohs(address.sin_port));
    return WEFT_OK;
}

/* ---- the run ---- */

/* `*state`: of the run; errors: the run is unknown, or the server is gone. */
static weft_status look_at_run(struct platform *platform, int64_t run, enum run_state *state, int64_t *nodes,
                               struct error *error)
{
    struct platform_path path;
    cJSON *object;
    platform_path_run(&path, run, NULL);
    weft_status status = platform_get(platform, &path, &object, error);
    if (status != WEFT_OK)
        return platform_run_unknown(platform, run, error);
    if (!run_state_find(field_text(object, "state"), state))
        status =
            error_set(error, WEFT_ERROR_NETWORK, "run %" PRId64 " has a state that this version does not know", run);
    *nodes = field_integer(object, "nodes");
    cJSON_Delete(object);
    return status;
}

static weft_status find_node(struct platform *platform, const char *place, struct forwarding *forwarding,
                             struct error *error)
{
    char name[RUN_NAME_BYTES];
    int64_t nodes = 0;
    enum run_state state = RUN_PLACED;
    weft_status status = run_reference_divide(place, name, sizeof name, &forwarding->node, error);
    if (status == WEFT_OK)
        status = run_reference_find(platform, name, &forwarding->run, error);
    if (status == WEFT_OK)
        status = look_at_run(platform, forwarding->run, &state, &nodes, error);
    if (status != WEFT_OK)
        return status;
    if (forwarding->node == RUN_NODE_NONE)
        forwarding->node = 0;
    if (run_state_is_final(state))
        return error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " is over: %s", forwarding->run,
                         run_state_name(state));
    if (forwarding->node >= nodes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %" PRId64 " has no node %" PRId64 ": its last one is %" PRId64, forwarding->run,
                         forwarding->node, nodes - 1);
    snprintf(forwarding->place, sizeof forwarding->place, "%" PRId64 "/node-%" PRId64, forwarding->run,
             forwarding->node);
    return WEFT_OK;
}

/* Until the run is over or a signal comes. A run that is started again goes on. */
static weft_status serve_connections(struct platform *platform, struct forwarding *forwarding, int listener,
                                     const volatile sig_atomic_t *stop, FILE *output, struct error *error)
{
    uint64_t look = clock_after(LOOK_SECONDS), gone = clock_after(SERVER_SECONDS);
    while (!*stop) {
        struct pollfd polled = {listener, POLLIN, 0};
        if (atomic_load(&forwarding->carried) >= CARRIED_MOST) {
            poll(NULL, 0, REST_MS);
        } else if (poll(&polled, 1, (int)(LOOK_SECONDS * 1e3)) > 0) {
            const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (connection >= 0)
                take_connection(forwarding, connection);
            else
                poll(NULL, 0, REST_MS); /* too many open files, for now */
        }
        if (clock_now() < look || *stop)
            continue;
        enum run_state state = RUN_PLACED;
        int64_t nodes;
        const weft_status status = look_at_run(platform, forwarding->run, &state, &nodes, error);
        if (status != WEFT_OK && clock_now() > gone)
            return status;
        if (status == WEFT_OK && run_state_is_final(state)) {
            fprintf(output, "run %" PRId64 " is over: %s\n", forwarding->run, run_state_name(state));
            return WEFT_OK;
        }
        if (status == WEFT_OK)
            gone = clock_after(SERVER_SECONDS);
        error_clear(error);
        look = clock_after(LOOK_SECONDS);
    }
    return WEFT_OK;
}

static weft_status forward_run(struct command_call *call, struct error *error)
{
    static struct forwarding forwarding; /* threads of connections may outlive this call */
    struct platform platform;
    int listener = -1;
    weft_status status = read_ports(call->words[1], &forwarding, error);
    if (status != WEFT_OK)
        return command_misused(call, status);
    const volatile sig_atomic_t *stop = interrupts_catch();
    signal(SIGPIPE, SIG_IGN); /* a client may go at any time */
    status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = find_node(&platform, call->words[0], &forwarding, error);
    if (status == WEFT_OK)
        status = open_port(&forwarding, &listener, error);
    if (status == WEFT_OK) {
        fprintf(call->output,
                "127.0.0.1:%s is port %s of node %" PRId64 " of run %" PRId64
                " (http://127.0.0.1:%s); Ctrl-C ends it\n",
                forwarding.local, forwarding.port, forwarding.node, forwarding.run, forwarding.local);
        fflush(call->output);
        status = serve_connections(&platform, &forwarding, listener, stop, call->output, error);
    }
    if (status == WEFT_OK) { /* without exit(), which would take away what the threads of connections use */
        fflush(call->output);
        _exit(0);
    }
    if (listener >= 0)
        close(listener);
    platform_close(&platform);
    return status;
}

const struct command command_forward = {
    .name = "forward",
    .group = COMMAND_PLATFORM,
    .summary = "make a port of a run's node reachable on this machine",
    .description =
        "Connections to a port of this machine's loopback are carried to a port of the loopback of a run's node, where "
        "TensorBoard, Jupyter or a debugger listens, through the server and with your token. All users of this machine "
        "can connect to a port of its loopback, so what listens in the node should ask for a password. Ends with "
        "Ctrl-C, and when the run does; if the run is started again meanwhile, new connections go to its new "
        "processes.\n\n"
        "The port is the same on both sides, or HERE:PORT; HERE may be 0: any free port.\n\n"
        "A node is written RUN/node-N, with N counted from 0; RUN alone means its first node. The owner of a run and "
        "managers of its project may do this.",
    .examples = "weft forward 12 6006\nweft forward 12/node-1 8888\nweft forward 12 9000:6006\n",
    .words = "RUN[/node-N] PORT",
    .run = forward_run,
};
