/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake. Every rank listens on an abstract UNIX socket of random name from shm_create() on. Of two ranks, the
 * higher connects and the lower answers. Each sends one packet, a hello with two descriptors (heap, doorbell). One poll
 * loop makes all connections and takes all answers at once, so no order of arrival can block, and the time limit holds
 * for all together.
 *
 * Trust: a socket's name is known only from the authenticated endpoint info. Both ends check that the other runs under
 * the same user before they send anything. The hello carries a hash of the job's secret. A process that fails a test is
 * dropped without an answer.
 */
#include "core/transport/shm/internal/state.h"

#include "base/clock.h"
#include "core/control/control.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO_MAGIC        UINT64_C(0x657261656e746677) /* "wftnear" and an e */
#define HELLO_VERSION      2u
#define HELLO_DESCRIPTORS  2
#define RETRY_MILLISECONDS 2
#define UNKNOWN_CALLERS    16 /* silent connections allowed beyond the expected ranks: the oldest is dropped first */
#define NAMED              8  /* missing ranks listed in a message */

struct hello {
    uint64_t magic;
    uint32_t version, rank, wanted;
    int32_t process; /* the sender's, filled in by the receiver, because ids differ between namespaces */
    uint64_t secret_hash, heap_identity, heap_bytes, page_offset, mailbox_offset, mailbox_bytes;
};

/* One rank to connect to. */
struct pending_peer {
    struct shm_peer *peer;
    const struct shm_endpoint *endpoint;
    int socket;          /* of a connection that this rank made; -1: none (yet) */
    uint64_t not_before; /* clock_now() from which the next attempt may be made */
};

struct shm_setup {
    struct shm *shm;
    struct pending_peer *pending;
    uint32_t count, missing;
    int *callers;                       /* accepted, not yet heard; -1: free */
    uint32_t caller_slots, caller_next; /* slots, and the one that is reused next */
    struct pollfd *polls;
};

static socklen_t abstract_address(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = strnlen(name, SHM_NAME_BYTES);
    memcpy(address->sun_path + 1, name, length); /* a leading zero byte: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

weft_status shm_listen(struct shm *shm, struct error *error)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_system(error, "cannot get random bits");
    snprintf(shm->endpoint.name, sizeof shm->endpoint.name, "weft-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    shm->endpoint.heap_identity = heap_identity(shm->heap);

    struct sockaddr_un address;
    socklen_t length = abstract_address(shm->endpoint.name, &address);
    shm->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (shm->listener < 0 || bind(shm->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(shm->listener, 1024) != 0)
        return error_system(error, "cannot listen for local ranks on the UNIX socket @%s", shm->endpoint.name);
    return WEFT_OK;
}

static bool socket_credentials(int socket, struct ucred *peer)
{
    socklen_t length = sizeof *peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
}

static bool socket_same_user(int socket)
{
    struct ucred peer;
    return socket_credentials(socket, &peer) && peer.uid == geteuid();
}

/* ---- the packet ---- */

static bool hello_send(const struct shm *shm, const struct shm_peer *peer, int socket)
{
    struct hello hello = {
        .magic = HELLO_MAGIC,
        .version = HELLO_VERSION,
        .rank = shm->rank,
        .wanted = peer->rank,
        .secret_hash = shm->secret_hash,
        .heap_identity = heap_identity(shm->heap),
        .heap_bytes = heap_size(shm->heap),
        .page_offset = heap_offset(shm->heap, shm->page, sizeof *shm->page),
        .mailbox_offset = heap_offset(shm->heap, peer->mine, sizeof(struct shm_mailbox)),
        .mailbox_bytes = sizeof(struct shm_mailbox),
    };
    int descriptors[HELLO_DESCRIPTORS] = {heap_descriptor(shm->heap), shm->doorbell};
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr align;
    } control = {0};
    struct iovec piece = {&hello, sizeof hello};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof hello;
}

enum hello_result { HELLO_VALID, HELLO_PENDING, HELLO_REJECTED };

/* Read a hello that passes all tests. On HELLO_VALID the descriptors are the caller's. */
static enum hello_result hello_receive(const struct shm *shm, int socket, struct hello *hello, int *descriptors)
{
    union {
        char bytes[CMSG_SPACE(HELLO_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec piece = {hello, sizeof *hello};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? HELLO_PENDING : HELLO_REJECTED;
    int count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int carried = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < carried && count < HELLO_DESCRIPTORS; i++)
            memcpy(&descriptors[count++], CMSG_DATA(part) + (size_t)i * sizeof(int), sizeof(int));
    }
    bool well = bytes == (ssize_t)sizeof *hello && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
                count == HELLO_DESCRIPTORS && hello->magic == HELLO_MAGIC && hello->version == HELLO_VERSION &&
                hello->secret_hash == shm->secret_hash && hello->wanted == shm->rank;
    if (well) {
        struct ucred peer;
        hello->process = socket_credentials(socket, &peer) ? peer.pid : 0; /* 0: cannot be known here */
        return HELLO_VALID;
    }
    while (count > 0)
        close(descriptors[--count]);
    return HELLO_REJECTED;
}

/* Whether [offset, offset + bytes) is aligned and inside of a heap of `size` bytes. */
static bool lies_within(uint64_t offset, uint64_t bytes, uint64_t size)
{
    return offset % 64 == 0 && offset < size && bytes <= size - offset;
}

/* Adopt a hello's description of a peer; the descriptors are consumed. */
static weft_status shm_peer_admit(struct shm *shm, struct shm_peer *peer, const struct hello *hello,
                                  const int *descriptors, struct error *error)
{
    weft_status status = WEFT_OK;
    char *base = heap_base(shm->heap);
    bool same_process = hello->heap_identity == heap_identity(shm->heap);
    if (hello->mailbox_bytes != sizeof(struct shm_mailbox) ||
        (same_process && hello->heap_bytes != heap_size(shm->heap)) ||
        !lies_within(hello->page_offset, sizeof(struct shm_page), hello->heap_bytes) ||
        !lies_within(hello->mailbox_offset, hello->mailbox_bytes, hello->heap_bytes))
        status =
            error_set(error, WEFT_ERROR_RENDEZVOUS,
                      "rank %u on this machine describes its shared memory in a form that this rank cannot use: the "
                      "ranks run different builds of Weft",
                      peer->rank);
    else if (!same_process)
        status = heap_attach(shm->heap, descriptors[0], hello->heap_identity, hello->heap_bytes, &base, error);
    close(descriptors[0]);
    if (status != WEFT_OK) {
        close(descriptors[1]);
        return status;
    }
    peer->same_process = same_process;
    peer->process = hello->process;
    shm_peer_hold(peer);
    peer->base = base;
    peer->heap_bytes = hello->heap_bytes;
    peer->heap_identity = hello->heap_identity;
    peer->page = (struct shm_page *)(base + hello->page_offset);
    peer->theirs = (struct shm_mailbox *)(base + hello->mailbox_offset);
    peer->doorbell = descriptors[1];
    shm_connection_begin(peer);
    peer->connected = true;
    return WEFT_OK;
}

/* ---- the two sides ---- */

/* Connect to a lower rank and send the hello. A socket that does not exist (yet), or is full, is tried again. */
static weft_status setup_call(struct shm_setup *setup, struct pending_peer *pending, struct error *error)
{
    struct sockaddr_un address;
    socklen_t length = abstract_address(pending->endpoint->name, &address);
    if (clock_now() < pending->not_before)
        return WEFT_OK;
    pending->not_before = clock_now() + RETRY_MILLISECONDS * 1000000u;
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line < 0)
        return error_system(error, "cannot open a UNIX socket to rank %u", pending->peer->rank);
    if (connect(line, (struct sockaddr *)&address, length) != 0) {
        close(line);
        return WEFT_OK;
    }
    if (!socket_same_user(line)) {
        close(line);
        return error_set(
            error, WEFT_ERROR_RENDEZVOUS,
            "the UNIX socket of rank %u on this machine belongs to another user: start all ranks of a job as the "
            "same user",
            pending->peer->rank);
    }
    if (!hello_send(setup->shm, pending->peer, line)) {
        close(line);
        return WEFT_OK;
    }
    pending->socket = line;
    return WEFT_OK;
}

static void socket_hang_up(int *socket)
{
    if (*socket >= 0)
        close(*socket);
    *socket = -1;
}

/* The answer to a connection of this rank. If it closes without an answer, connect again. */
static weft_status setup_read_answer(struct shm_setup *setup, struct pending_peer *pending, struct error *error)
{
    struct hello hello;
    int descriptors[HELLO_DESCRIPTORS];
    enum hello_result hello_result = hello_receive(setup->shm, pending->socket, &hello, descriptors);
    if (hello_result == HELLO_PENDING)
        return WEFT_OK;
    socket_hang_up(&pending->socket);
    if (hello_result == HELLO_REJECTED)
        return WEFT_OK;
    if (hello.rank != pending->peer->rank) {
        close(descriptors[0]);
        close(descriptors[1]);
        return WEFT_OK;
    }
    setup->missing--;
    return shm_peer_admit(setup->shm, pending->peer, &hello, descriptors, error);
}

/* A connected peer has sent its hello. */
static weft_status setup_read_caller(struct shm_setup *setup, int *caller, struct error *error)
{
    struct hello hello;
    int descriptors[HELLO_DESCRIPTORS];
    enum hello_result hello_result = hello_receive(setup->shm, *caller, &hello, descriptors);
    if (hello_result == HELLO_PENDING)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    if (hello_result == HELLO_VALID) {
        struct pending_peer *pending = setup->pending, *end = pending + setup->count;
        while (pending < end && pending->peer->rank != hello.rank)
            pending++;
        if (pending < end && !pending->peer->connected && hello.rank > setup->shm->rank &&
            hello_send(setup->shm, pending->peer, *caller)) {
            setup->missing--;
            status = shm_peer_admit(setup->shm, pending->peer, &hello, descriptors, error);
        } else {
            close(descriptors[0]);
            close(descriptors[1]);
        }
    }
    socket_hang_up(caller);
    return status;
}

/*
 * At most UNKNOWN_CALLERS at once. Each gets time for its hello before others can take its place, and a rank that loses
 * its connection connects again.
 */
static void setup_accept_callers(struct shm_setup *setup)
{
    for (int i = 0; i < UNKNOWN_CALLERS; i++) {
        int caller = accept4(setup->shm->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0)
            return;
        if (!socket_same_user(caller)) {
            close(caller);
            continue;
        }
        socket_hang_up(&setup->callers[setup->caller_next]);
        setup->callers[setup->caller_next] = caller;
        setup->caller_next = (setup->caller_next + 1) % setup->caller_slots;
    }
}

/* One round: connect to ranks not reached yet, wait a little for any event, handle what has arrived. */
static weft_status setup_round(struct shm_setup *setup, struct error *error)
{
    weft_status status = WEFT_OK;
    bool again = false;
    nfds_t polled = 0;
    setup->polls[polled++] = (struct pollfd){.fd = setup->shm->listener, .events = POLLIN};
    for (uint32_t i = 0; i < setup->count; i++) {
        struct pending_peer *pending = &setup->pending[i];
        if (pending->peer->connected || pending->peer->rank > setup->shm->rank)
            continue;
        if (pending->socket < 0)
            status = setup_call(setup, pending, error);
        if (status != WEFT_OK)
            return status;
        if (pending->socket >= 0)
            setup->polls[polled++] = (struct pollfd){.fd = pending->socket, .events = POLLIN};
        else
            again = true;
    }
    for (uint32_t i = 0; i < setup->caller_slots; i++)
        if (setup->callers[i] >= 0)
            setup->polls[polled++] = (struct pollfd){.fd = setup->callers[i], .events = POLLIN};
    if (poll(setup->polls, polled, again ? RETRY_MILLISECONDS : 100) < 0 && errno != EINTR)
        return error_system(error, "cannot wait for local ranks (poll)");

    setup_accept_callers(setup);
    for (uint32_t i = 0; i < setup->count && status == WEFT_OK; i++)
        if (setup->pending[i].socket >= 0)
            status = setup_read_answer(setup, &setup->pending[i], error);
    for (uint32_t i = 0; i < setup->caller_slots && status == WEFT_OK; i++)
        if (setup->callers[i] >= 0)
            status = setup_read_caller(setup, &setup->callers[i], error);
    return status;
}

static weft_status setup_timed_out(const struct shm_setup *setup, double seconds, struct error *error)
{
    char list[NAMED * 12 + 16] = "";
    size_t length = 0;
    uint32_t named = 0;
    for (uint32_t i = 0; i < setup->count && length < sizeof list; i++)
        if (!setup->pending[i].peer->connected && named++ < NAMED)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%u", length ? ", " : "",
                                       setup->pending[i].peer->rank);
    return error_set(error, WEFT_ERROR_TIMEOUT,
                     "rank %u waited %.3g s to share memory with %u rank%s of this machine: %s%s; they have not "
                     "answered on their UNIX sockets (still starting, dead, or of another job)",
                     setup->shm->rank, seconds, setup->missing, setup->missing == 1 ? "" : "s", list,
                     named > NAMED ? ", ..." : "");
}

weft_status shm_connect(struct shm *shm, const uint32_t *ranks_list, const struct shm_endpoint *endpoints,
                        uint32_t count, double limit_seconds, struct error *error)
{
    struct shm_setup setup = {.shm = shm, .caller_slots = count + UNKNOWN_CALLERS};
    weft_status status = WEFT_OK;
    uint64_t limit = clock_after(limit_seconds);
    setup.pending = calloc(count ? count : 1, sizeof *setup.pending);
    setup.callers = calloc(setup.caller_slots, sizeof *setup.callers);
    setup.polls = calloc(1 + count + setup.caller_slots, sizeof *setup.polls);
    if (!setup.pending || !setup.callers || !setup.polls) {
        status = error_memory(error, count * sizeof *setup.pending, "setup the local ranks");
        setup.caller_slots = 0;
    }
    for (uint32_t i = 0; i < setup.caller_slots; i++)
        setup.callers[i] = -1;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        if (ranks_list[i] == shm->rank || shm_reaches(shm, ranks_list[i]))
            continue;
        struct pending_peer *pending = &setup.pending[setup.count];
        *pending = (struct pending_peer){.peer = shm->peers[ranks_list[i]], .endpoint = &endpoints[i], .socket = -1};
        if (!pending->peer)
            status = shm_peer_add(shm, ranks_list[i], &pending->peer, error);
        if (status == WEFT_OK) {
            setup.count++;
            setup.missing++;
        }
    }
    while (status == WEFT_OK && setup.missing > 0) {
        status = shm->control ? control_failure(shm->control, error) : WEFT_OK;
        if (status == WEFT_OK)
            status = setup_round(&setup, error);
        if (status == WEFT_OK && setup.missing > 0 && clock_now() > limit)
            status = setup_timed_out(&setup, limit_seconds, error);
    }
    for (uint32_t i = 0; i < setup.count; i++)
        socket_hang_up(&setup.pending[i].socket);
    for (uint32_t i = 0; i < setup.caller_slots; i++)
        socket_hang_up(&setup.callers[i]);
    free(setup.pending);
    free(setup.callers);
    free(setup.polls);
    return status;
}
