/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rank's parent: a rank of the same node, the server, or another leader. */
#include "base/clock.h"
#include "core/control/rendezvous/internal/client_state.h"
#include "core/control/rendezvous/internal/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPT_SECONDS 3.0   /* one address is tried for so long before the next */
#define LOCAL_SECONDS   3.0   /* limit for the parent in this node to appear */
#define LOCAL_NAP       0.005 /* longest interval between connection attempts; the first is a fifth of it */
#define AGAIN_NAP       0.05

static double rendezvous_seconds_until(uint64_t deadline)
{
    uint64_t now = clock_now();
    return deadline > now ? (double)(deadline - now) / 1e9 : 0;
}

/* Sleep, unless stopped. */
static bool connect_sleep(int stop, double seconds)
{
    struct pollfd wait = {stop, POLLIN, 0};
    return poll(&wait, 1, (int)(seconds * 1e3)) <= 0;
}

static weft_status connect_parent_begin(struct rendezvous *rendezvous, int descriptor, enum rendezvous_parent above,
                                        struct error *error)
{
    const struct rendezvous_client *client = &rendezvous->client;
    const struct stream_identity identity = {client->secret, STREAM_RENDEZVOUS, client->rank, client->ranks};
    joiners_count(&rendezvous->counts, &rendezvous->up.counts);
    stream_end(&rendezvous->up);
    rendezvous->above = above;
    weft_status status = stream_begin(&rendezvous->up, descriptor, false, &identity, error);
    if (rendezvous->size)
        rendezvous->up.frame_most = joiners_frame_most(client->ranks, rendezvous->size);
    return status;
}

/* ---- the server, and leaders ---- */

/* Try the addresses in turn, once each. */
static weft_status connect_any(const char *addresses, uint64_t deadline, int *descriptor, struct error *error)
{
    char list[1024], *rest = NULL;
    weft_status status = WEFT_ERROR_RENDEZVOUS;
    if (snprintf(list, sizeof list, "%s", addresses) >= (int)sizeof list)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the list of rendezvous addresses '%.60s...' is too long", list);
    for (char *entry = strtok_r(list, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest)) {
        char host[ADDRESS_TEXT_BYTES];
        uint16_t port = 0;
        error_clear(error);
        status = address_parse(entry, host, &port, error);
        if (status != WEFT_OK)
            return status;
        double left = rendezvous_seconds_until(deadline);
        status = address_connect(host, port, left < ATTEMPT_SECONDS ? left : ATTEMPT_SECONDS, descriptor, NULL, error);
        if (status == WEFT_OK)
            return status;
    }
    return status;
}

/* Connect, and retry until a server answers. */
static weft_status connect_retry(const struct rendezvous *rendezvous, const char *addresses, int *descriptor,
                                 struct error *error)
{
    const struct rendezvous_client *client = &rendezvous->client;
    const uint64_t reach = client->reach_seconds > 0 ? clock_after(client->reach_seconds) : rendezvous->deadline;
    const uint64_t deadline = reach < rendezvous->deadline ? reach : rendezvous->deadline;
    for (double nap = 0.02;; nap = nap < 0.25 ? nap * 1.5 : nap) {
        struct error reason = {0};
        weft_status status = connect_any(addresses, deadline, descriptor, &reason);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (status != WEFT_ERROR_RENDEZVOUS)
            return error_set(error, status, "%s", reason.text);
        if (rendezvous_seconds_until(deadline) == 0 || !connect_sleep(client->stop, nap))
            return error_set(error, status, "rank %u of %u cannot reach the rendezvous within %g s: %s", client->rank,
                             client->ranks, client->limit_seconds, reason.text);
    }
}

static weft_status rendezvous_find_server(struct rendezvous *rendezvous, struct error *error)
{
    int descriptor = -1;
    weft_status status = connect_retry(rendezvous, rendezvous->client.addresses, &descriptor, error);
    if (status == WEFT_OK)
        status = address_local(descriptor, rendezvous->address, sizeof rendezvous->address, error);
    return status == WEFT_OK ? connect_parent_begin(rendezvous, descriptor, PARENT_SERVER, error) : status;
}

weft_status rendezvous_find_parent(struct rendezvous *rendezvous, struct error *error)
{
    int descriptor = -1;
    weft_status status = connect_retry(rendezvous, rendezvous->parent, &descriptor, error);
    return status == WEFT_OK ? connect_parent_begin(rendezvous, descriptor, PARENT_LEADER, error) : status;
}

weft_status rendezvous_find_again(struct rendezvous *rendezvous, struct error *error)
{
    struct error reason = {0};
    if (rendezvous->above == PARENT_LOCAL)
        return rendezvous_find_server(rendezvous, error);
    if (rendezvous_seconds_until(rendezvous->deadline) == 0 || !connect_sleep(rendezvous->client.stop, AGAIN_NAP))
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "rank %u of %u cannot reach the rendezvous within %g s: the listener there closes the "
                         "connection",
                         rendezvous->client.rank, rendezvous->client.ranks, rendezvous->client.limit_seconds);
    weft_status status = rendezvous->above == PARENT_LEADER ? rendezvous_find_parent(rendezvous, &reason)
                                                            : rendezvous_find_server(rendezvous, &reason);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", reason.text);
}

/* ---- ranks of the same node ---- */

/* The socket name of a local rank. It is derived from the secret, so others cannot predict it. */
static bool connect_local_name(const struct rendezvous_client *client, uint32_t place, char *name, size_t room)
{
    char text[1200];
    uint8_t proof[SECRET_BYTES];
    uint64_t digits;
    snprintf(text, sizeof text, "near %u at %s", client->node, client->addresses);
    if (!secret_sign(client->secret, text, strlen(text), proof))
        return false;
    memcpy(&digits, proof, sizeof digits);
    snprintf(name, room, "weft-rendezvous-%016llx-%u", (unsigned long long)digits, place);
    return true;
}

weft_status rendezvous_read_failure(const struct frame *frame, struct error *error)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t status = reader_u32(&reader);
    reader_text(&reader, message, sizeof message);
    return error_set(error, stream_failure(status), "%s", *message ? message : "the rendezvous failed");
}

/* Authenticate with the parent on this node and wait for this host's address. *found: it has arrived. */
static weft_status connect_address_receive(struct rendezvous *rendezvous, bool *found, struct error *error)
{
    struct stream *up = &rendezvous->up;
    for (;;) {
        struct frame frame;
        struct pollfd waits[2] = {{up->descriptor, POLLIN, 0}, {rendezvous->client.stop, POLLIN, 0}};
        if (stream_write(up, NULL) != WEFT_OK)
            return WEFT_OK;
        int left = (int)(rendezvous_seconds_until(rendezvous->deadline) * 1e3) + 1;
        if (poll(waits, 2, left) < 0 && errno != EINTR)
            return error_system(error, "cannot wait for a rank of the same host");
        if (waits[1].revents || rendezvous_seconds_until(rendezvous->deadline) == 0)
            return WEFT_OK;
        weft_status status = waits[0].revents ? stream_read(up, NULL) : WEFT_OK;
        if (stream_peek(up, &frame) == 1) {
            if (frame.kind == RENDEZVOUS_FAILURE)
                return rendezvous_read_failure(&frame, error);
            struct reader reader = {frame.payload, frame.size, false};
            reader_text(&reader, rendezvous->address, sizeof rendezvous->address);
            *found = frame.kind == RENDEZVOUS_ADDRESS && !reader.bad;
            stream_drop(up, &frame);
            return WEFT_OK;
        }
        if (status != WEFT_OK)
            return WEFT_OK;
    }
}

/* Connect to the parent in this node. *found: it answered, and this host's address is known. */
static weft_status connect_local_parent(struct rendezvous *rendezvous, bool *found, struct error *error)
{
    const struct rendezvous_client *client = &rendezvous->client;
    double seconds = client->limit_seconds / 4 < LOCAL_SECONDS ? client->limit_seconds / 4 : LOCAL_SECONDS;
    uint64_t deadline = clock_after(seconds);
    double nap = LOCAL_NAP / 5;
    char name[64];
    if (!connect_local_name(client, tree_place_parent(client->local_rank), name, sizeof name))
        return WEFT_OK;
    while (!*found && rendezvous_seconds_until(deadline) > 0) {
        int descriptor = address_connect_unix(name);
        weft_status status = WEFT_OK;
        if (descriptor >= 0 && !address_is_of_same_user(descriptor)) {
            close(descriptor);
            return WEFT_OK; /* another user's process squats the name */
        }
        if (descriptor >= 0)
            status = connect_parent_begin(rendezvous, descriptor, PARENT_LOCAL, error);
        if (descriptor >= 0 && status == WEFT_OK)
            status = connect_address_receive(rendezvous, found, error);
        if (status != WEFT_OK)
            return status;
        if (descriptor >= 0 && !*found && rendezvous->up.state != STREAM_ENDED)
            return WEFT_OK; /* the name is squatted by another process */
        if (!*found && !connect_sleep(client->stop, nap))
            return WEFT_OK;
        nap = nap * 1.5 < LOCAL_NAP ? nap * 1.5 : LOCAL_NAP;
    }
    return WEFT_OK;
}

/* Listen for this rank's children on the node, if it can have any. */
static void connect_local_listen(struct rendezvous *rendezvous)
{
    const struct rendezvous_client *client = &rendezvous->client;
    char name[64];
    if (tree_place_child(client->local_rank, 0) >= client->local_ranks ||
        !connect_local_name(client, client->local_rank, name, sizeof name))
        return;
    rendezvous->local = address_listen_unix(name);
    if (rendezvous->local >= 0)
        rendezvous->expected = tree_places_below(client->local_rank, client->local_ranks);
}

static struct rendezvous *connect_state_new(const struct rendezvous_client *client, struct error *error)
{
    struct rendezvous *rendezvous = calloc(1, sizeof *rendezvous);
    if (!rendezvous) {
        error_memory(error, sizeof *rendezvous, "the rendezvous");
        return NULL;
    }
    rendezvous->client = *client;
    rendezvous->local = rendezvous->far = rendezvous->up.descriptor = -1;
    rendezvous->expected = 1;
    rendezvous->deadline = clock_after(client->limit_seconds);
    for (uint32_t i = 0; i < TREE_ARITY; i++)
        rendezvous->child[i] = TREE_NONE;
    return rendezvous;
}

weft_status rendezvous_open(const struct rendezvous_client *client, struct rendezvous **result, struct error *error)
{
    struct rendezvous *rendezvous = connect_state_new(client, error);
    bool found = false;
    if (!rendezvous)
        return WEFT_ERROR_MEMORY;
    weft_status status = WEFT_OK;
    bool place_known = client->local_rank < client->local_ranks && client->local_ranks <= client->ranks;
    if (place_known)
        connect_local_listen(rendezvous);
    if (place_known && client->local_rank > 0)
        status = connect_local_parent(rendezvous, &found, error);
    if (status == WEFT_OK && !found)
        status = rendezvous_find_server(rendezvous, error);
    if (status != WEFT_OK) {
        rendezvous_close(rendezvous);
        return status;
    }
    (void)stream_write(&rendezvous->up, NULL); /* the handshake continues while the endpoint info is made */
    *result = rendezvous;
    return WEFT_OK;
}

weft_status rendezvous_listen(const struct rendezvous_client *client, const char *host, struct rendezvous **result,
                              struct error *error)
{
    struct rendezvous *rendezvous = connect_state_new(client, error);
    if (!rendezvous)
        return WEFT_ERROR_MEMORY;
    weft_status status = WEFT_OK;
    rendezvous->placed = true;
    rendezvous->expected = tree_places_below(client->rank, client->ranks);
    for (uint32_t i = 0; i < TREE_ARITY && tree_place_child(client->rank, i) < client->ranks; i++)
        rendezvous->child[i] = tree_place_child(client->rank, i);
    if (rendezvous->expected > 1)
        status = rendezvous_listen_far(rendezvous, host, error);
    if (status != WEFT_OK) {
        rendezvous_close(rendezvous);
        return status;
    }
    *result = rendezvous;
    return WEFT_OK;
}

weft_status rendezvous_listen_far(struct rendezvous *rendezvous, const char *host, struct error *error)
{
    uint16_t port = 0;
    weft_status status = address_listen(host, 0, &rendezvous->far, &port, error);
    if (status == WEFT_OK)
        snprintf(rendezvous->here, sizeof rendezvous->here, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    return status;
}

const char *rendezvous_place(const struct rendezvous *rendezvous)
{
    return rendezvous->here;
}

const char *rendezvous_address(const struct rendezvous *rendezvous)
{
    return rendezvous->address;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    joiners_close(&rendezvous->joiners);
    stream_end(&rendezvous->up);
    if (rendezvous->local >= 0)
        close(rendezvous->local);
    if (rendezvous->far >= 0)
        close(rendezvous->far);
    free(rendezvous->endpoints);
    free(rendezvous->passed);
    free(rendezvous);
}
