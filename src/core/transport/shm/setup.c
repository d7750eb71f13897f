/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake. Every rank listens on an abstract UNIX socket of random name from near_open() on. Of two ranks the
 * higher calls and the lower answers; each sends one packet, a hello with two descriptors (heap, doorbell). One poll
 * loop makes all calls and takes all answers at once, so no order of arrival can block, and the time limit holds for
 * all together.
 *
 * Trust: a name is known only from the authenticated card; both ends check that the other runs under the same user,
 * before they say anything; the hello carries the hash of the job's secret. Who fails a test is dropped without an
 * answer.
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
#define STRANGERS          16 /* callers who may be silent at one time beyond the ranks expected: the oldest goes first */
#define NAMED              8 /* missing ranks listed in a message */

struct hello {
    uint64_t magic;
    uint32_t version, rank, wanted;
    int32_t process; /* the sender's, filled in by whoever receives it, as numbers differ between namespaces */
    uint64_t secret_hash, heap_identity, heap_bytes, page_offset, porch_offset, porch_bytes;
};

/* One rank to come near to. */
struct guest {
    struct near_peer *peer;
    const struct near_card *card;
    int socket;          /* of a call that we made; -1: none (yet) */
    uint64_t not_before; /* when the next call may be made (clock_now) */
};

struct meeting {
    struct near *near;
    struct guest *guests;
    uint32_t count, missing;
    int *callers;                       /* accepted, not yet heard; -1: free */
    uint32_t caller_slots, caller_next; /* slots, and the one that is taken next, whoever is in it */
    struct pollfd *polls;
};

static socklen_t abstract_address(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = strnlen(name, NEAR_NAME_BYTES);
    memcpy(address->sun_path + 1, name, length); /* a leading zero byte: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

weft_status near_listen(struct near *near, struct error *error)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_system(error, "cannot get random bits");
    snprintf(near->card.name, sizeof near->card.name, "weft-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    near->card.heap_identity = heap_identity(near->heap);

    struct sockaddr_un address;
    socklen_t length = abstract_address(near->card.name, &address);
    near->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (near->listener < 0 || bind(near->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(near->listener, 1024) != 0)
        return error_system(error, "cannot listen for local ranks on the UNIX socket @%s", near->card.name);
    return WEFT_OK;
}

static bool credentials(int socket, struct ucred *peer)
{
    socklen_t length = sizeof *peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
}

static bool same_user(int socket)
{
    struct ucred peer;
    return credentials(socket, &peer) && peer.uid == geteuid();
}

/* The number of the process at the other end; 0 when it cannot be known here. */
static int process_of(int socket)
{
    struct ucred peer;
    return credentials(socket, &peer) ? peer.pid : 0;
}

/* ---- the packet ------------------------------------------------------------------------------------------------- */

static bool hello_send(const struct near *near, const struct near_peer *peer, int socket)
{
    struct hello hello = {
        .magic = HELLO_MAGIC,
        .version = HELLO_VERSION,
        .rank = near->rank,
        .wanted = peer->rank,
        .secret_hash = near->secret_hash,
        .heap_identity = heap_identity(near->heap),
        .heap_bytes = heap_size(near->heap),
        .page_offset = heap_offset(near->heap, near->page, sizeof *near->page),
        .porch_offset = heap_offset(near->heap, peer->mine, sizeof(struct near_porch)),
        .porch_bytes = sizeof(struct near_porch),
    };
    int descriptors[HELLO_DESCRIPTORS] = {heap_descriptor(near->heap), near->doorbell};
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

enum hearing { HEARD, SILENT, STRANGE };

/* Read a hello that passes all tests. On HEARD the descriptors are the caller's. */
static enum hearing hello_receive(const struct near *near, int socket, struct hello *hello, int *descriptors)
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
        return errno == EAGAIN || errno == EINTR ? SILENT : STRANGE;
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
                hello->secret_hash == near->secret_hash && hello->wanted == near->rank;
    if (well) {
        hello->process = process_of(socket);
        return HEARD;
    }
    while (count > 0)
        close(descriptors[--count]);
    return STRANGE;
}

/* Whether [offset, offset + bytes) is aligned and inside of a heap of `size` bytes. */
static bool lies_within(uint64_t offset, uint64_t bytes, uint64_t size)
{
    return offset % 64 == 0 && offset < size && bytes <= size - offset;
}

/* Take over what a hello told about a peer; the descriptors are used up. */
static weft_status admit(struct near *near, struct near_peer *peer, const struct hello *hello, const int *descriptors,
                         struct error *error)
{
    weft_status status = WEFT_OK;
    char *base = heap_base(near->heap);
    bool same_process = hello->heap_identity == heap_identity(near->heap);
    if (hello->porch_bytes != sizeof(struct near_porch) ||
        (same_process && hello->heap_bytes != heap_size(near->heap)) ||
        !lies_within(hello->page_offset, sizeof(struct near_page), hello->heap_bytes) ||
        !lies_within(hello->porch_offset, hello->porch_bytes, hello->heap_bytes))
        status =
            error_set(error, WEFT_ERROR_RENDEZVOUS,
                      "rank %u on this machine describes its shared memory in a way that this rank cannot use: the "
                      "ranks run different builds of Weft",
                      peer->rank);
    else if (!same_process)
        status = heap_attach(near->heap, descriptors[0], hello->heap_identity, hello->heap_bytes, &base, error);
    close(descriptors[0]);
    if (status != WEFT_OK) {
        close(descriptors[1]);
        return status;
    }
    peer->same_process = same_process;
    peer->process = hello->process;
    near_peer_hold(peer);
    peer->base = base;
    peer->heap_bytes = hello->heap_bytes;
    peer->heap_identity = hello->heap_identity;
    peer->page = (struct near_page *)(base + hello->page_offset);
    peer->theirs = (struct near_porch *)(base + hello->porch_offset);
    peer->doorbell = descriptors[1];
    near_dialogue_begin(peer);
    peer->connected = true;
    return WEFT_OK;
}

/* ---- the two sides ---------------------------------------------------------------------------------------------- */

/* Call a lower rank and say hello. A socket that is not there (yet), or is full, is tried again. */
static weft_status call(struct meeting *meeting, struct guest *guest, struct error *error)
{
    struct sockaddr_un address;
    socklen_t length = abstract_address(guest->card->name, &address);
    if (clock_now() < guest->not_before)
        return WEFT_OK;
    guest->not_before = clock_now() + RETRY_MILLISECONDS * 1000000u;
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line < 0)
        return error_system(error, "cannot open a UNIX socket to rank %u", guest->peer->rank);
    if (connect(line, (struct sockaddr *)&address, length) != 0) {
        close(line);
        return WEFT_OK;
    }
    if (!same_user(line)) {
        close(line);
        return error_set(
            error, WEFT_ERROR_RENDEZVOUS,
            "the UNIX socket of rank %u on this machine belongs to another user: start all ranks of a job as the "
            "same user",
            guest->peer->rank);
    }
    if (!hello_send(meeting->near, guest->peer, line)) {
        close(line);
        return WEFT_OK;
    }
    guest->socket = line;
    return WEFT_OK;
}

static void hang_up(int *socket)
{
    if (*socket >= 0)
        close(*socket);
    *socket = -1;
}

/* The answer to a call of ours. A line cut without one is called again. */
static weft_status hear_answer(struct meeting *meeting, struct guest *guest, struct error *error)
{
    struct hello hello;
    int descriptors[HELLO_DESCRIPTORS];
    enum hearing hearing = hello_receive(meeting->near, guest->socket, &hello, descriptors);
    if (hearing == SILENT)
        return WEFT_OK;
    hang_up(&guest->socket);
    if (hearing == STRANGE)
        return WEFT_OK;
    if (hello.rank != guest->peer->rank) {
        close(descriptors[0]);
        close(descriptors[1]);
        return WEFT_OK;
    }
    meeting->missing--;
    return admit(meeting->near, guest->peer, &hello, descriptors, error);
}

/* Somebody who called us has spoken. */
static weft_status hear_caller(struct meeting *meeting, int *caller, struct error *error)
{
    struct hello hello;
    int descriptors[HELLO_DESCRIPTORS];
    enum hearing hearing = hello_receive(meeting->near, *caller, &hello, descriptors);
    if (hearing == SILENT)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    if (hearing == HEARD) {
        struct guest *guest = meeting->guests, *end = guest + meeting->count;
        while (guest < end && guest->peer->rank != hello.rank)
            guest++;
        if (guest < end && !guest->peer->connected && hello.rank > meeting->near->rank &&
            hello_send(meeting->near, guest->peer, *caller)) {
            meeting->missing--;
            status = admit(meeting->near, guest->peer, &hello, descriptors, error);
        } else {
            close(descriptors[0]);
            close(descriptors[1]);
        }
    }
    hang_up(caller);
    return status;
}

/* No more than STRANGERS at once, so that each is heard before others can take its place; a rank that loses it calls
 * again. */
static void take_calls(struct meeting *meeting)
{
    for (int i = 0; i < STRANGERS; i++) {
        int caller = accept4(meeting->near->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0)
            return;
        if (!same_user(caller)) {
            close(caller);
            continue;
        }
        hang_up(&meeting->callers[meeting->caller_next]);
        meeting->callers[meeting->caller_next] = caller;
        meeting->caller_next = (meeting->caller_next + 1) % meeting->caller_slots;
    }
}

/* One round: call whom we have not reached, wait a little for anything, take what has come. */
static weft_status meet_once(struct meeting *meeting, struct error *error)
{
    weft_status status = WEFT_OK;
    bool again = false;
    nfds_t polled = 0;
    meeting->polls[polled++] = (struct pollfd){.fd = meeting->near->listener, .events = POLLIN};
    for (uint32_t i = 0; i < meeting->count; i++) {
        struct guest *guest = &meeting->guests[i];
        if (guest->peer->connected || guest->peer->rank > meeting->near->rank)
            continue;
        if (guest->socket < 0)
            status = call(meeting, guest, error);
        if (status != WEFT_OK)
            return status;
        if (guest->socket >= 0)
            meeting->polls[polled++] = (struct pollfd){.fd = guest->socket, .events = POLLIN};
        else
            again = true;
    }
    for (uint32_t i = 0; i < meeting->caller_slots; i++)
        if (meeting->callers[i] >= 0)
            meeting->polls[polled++] = (struct pollfd){.fd = meeting->callers[i], .events = POLLIN};
    if (poll(meeting->polls, polled, again ? RETRY_MILLISECONDS : 100) < 0 && errno != EINTR)
        return error_system(error, "cannot wait for local ranks (poll)");

    take_calls(meeting);
    for (uint32_t i = 0; i < meeting->count && status == WEFT_OK; i++)
        if (meeting->guests[i].socket >= 0)
            status = hear_answer(meeting, &meeting->guests[i], error);
    for (uint32_t i = 0; i < meeting->caller_slots && status == WEFT_OK; i++)
        if (meeting->callers[i] >= 0)
            status = hear_caller(meeting, &meeting->callers[i], error);
    return status;
}

static weft_status who_is_missing(const struct meeting *meeting, double seconds, struct error *error)
{
    char list[NAMED * 12 + 16] = "";
    size_t length = 0;
    uint32_t named = 0;
    for (uint32_t i = 0; i < meeting->count && length < sizeof list; i++)
        if (!meeting->guests[i].peer->connected && named++ < NAMED)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%u", length ? ", " : "",
                                       meeting->guests[i].peer->rank);
    return error_set(
        error, WEFT_ERROR_TIMEOUT,
        "rank %u waited %.3g s in vain to share memory with %u rank%s of this machine: %s%s; they have not "
        "answered on their UNIX sockets (still starting, dead, or of another job)",
        meeting->near->rank, seconds, meeting->missing, meeting->missing == 1 ? "" : "s", list,
        named > NAMED ? ", ..." : "");
}

weft_status near_connect(struct near *near, const uint32_t *ranks_list, const struct near_card *cards, uint32_t count,
                         double limit_seconds, struct error *error)
{
    struct meeting meeting = {.near = near, .caller_slots = count + STRANGERS};
    weft_status status = WEFT_OK;
    uint64_t limit = clock_after(limit_seconds);
    meeting.guests = calloc(count ? count : 1, sizeof *meeting.guests);
    meeting.callers = calloc(meeting.caller_slots, sizeof *meeting.callers);
    meeting.polls = calloc(1 + count + meeting.caller_slots, sizeof *meeting.polls);
    if (!meeting.guests || !meeting.callers || !meeting.polls) {
        status = error_memory(error, count * sizeof *meeting.guests, "meeting the local ranks");
        meeting.caller_slots = 0;
    }
    for (uint32_t i = 0; i < meeting.caller_slots; i++)
        meeting.callers[i] = -1;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        if (ranks_list[i] == near->rank || near_reaches(near, ranks_list[i]))
            continue;
        struct guest *guest = &meeting.guests[meeting.count];
        *guest = (struct guest){.peer = near->peers[ranks_list[i]], .card = &cards[i], .socket = -1};
        if (!guest->peer)
            status = near_peer_add(near, ranks_list[i], &guest->peer, error);
        if (status == WEFT_OK) {
            meeting.count++;
            meeting.missing++;
        }
    }
    while (status == WEFT_OK && meeting.missing > 0) {
        status = near->control ? control_failure(near->control, error) : WEFT_OK;
        if (status == WEFT_OK)
            status = meet_once(&meeting, error);
        if (status == WEFT_OK && meeting.missing > 0 && clock_now() > limit)
            status = who_is_missing(&meeting, limit_seconds, error);
    }
    for (uint32_t i = 0; i < meeting.count; i++)
        hang_up(&meeting.guests[i].socket);
    for (uint32_t i = 0; i < meeting.caller_slots; i++)
        hang_up(&meeting.callers[i]);
    free(meeting.guests);
    free(meeting.callers);
    free(meeting.polls);
    return status;
}
