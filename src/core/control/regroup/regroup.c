/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/regroup/internal/table.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MILLISECONDS 10           /* between checks while there are ranks to check */
#define WINDOW            4            /* lower ranks that are called at a time */
#define GRACE             30000000u    /* ns that a leader lets others join by themselves before it calls them */
#define QUIET_LIMIT       5000000000u  /* ns beyond the limit for a rank that is left out to come to rest */
#define AFTERLIFE         2000000000u  /* ns that connections stay open after a decision, for peers that still read */
#define LOWER_INTERVAL    1000000000u  /* ns between calls to members below the one that a newcomer follows */
#define LOST_LIMIT        30000000000u /* ns that a newcomer looks for members that may be alive */
#define ABSENCE           200000000u   /* ns without regroup_progress() */
#define EVENTS            64

/* ---- opening ---- */

bool regroup_make_room(struct regroup *regroup, uint32_t ranks)
{
    if (ranks <= regroup->ranks)
        return true;
    if (ranks > REGROUP_RANKS_MOST)
        return false;
    struct endpoint_info *endpoints = realloc(regroup->endpoints, ranks * sizeof *endpoints);
    regroup->endpoints = endpoints ? endpoints : regroup->endpoints;
    struct regroup_peer *peers = realloc(regroup->peers, ranks * sizeof *peers);
    regroup->peers = peers ? peers : regroup->peers;
    if (!endpoints || !peers)
        return false;
    memset(endpoints + regroup->ranks, 0, (ranks - regroup->ranks) * sizeof *endpoints);
    memset(peers + regroup->ranks, 0, (ranks - regroup->ranks) * sizeof *peers);
    regroup->ranks = ranks;
    return true;
}

/* With room for `ranks` ranks; none is a member. */
static weft_status regroup_new(uint32_t rank, uint32_t ranks, const uint8_t *secret, int listener,
                               struct regroup **result, struct error *error)
{
    struct regroup *regroup = calloc(1, sizeof *regroup);
    if (!regroup) {
        close(listener);
        return error_memory(error, sizeof *regroup, "what survives a failure");
    }
    *regroup = (struct regroup){.rank = rank, .listener = listener, .bound = REGROUP_NONE};
    pthread_mutex_init(&regroup->lock, NULL);
    memcpy(regroup->secret, secret, sizeof regroup->secret);
    regroup->epoll = epoll_create1(EPOLL_CLOEXEC);
    regroup->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_status status = WEFT_OK;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (!regroup_make_room(regroup, ranks))
        status = error_memory(error, ranks * (sizeof *regroup->endpoints + sizeof *regroup->peers),
                              "what survives a failure");
    else if (regroup->epoll < 0 || regroup->wake < 0 ||
             epoll_ctl(regroup->epoll, EPOLL_CTL_ADD, regroup->wake, &event) != 0 ||
             epoll_ctl(regroup->epoll, EPOLL_CTL_ADD, listener, &event) != 0)
        status = error_system(error, "cannot open the descriptors for regrouping after a failure");
    if (status != WEFT_OK) {
        regroup_close(regroup);
        return status;
    }
    *result = regroup;
    return WEFT_OK;
}

weft_status regroup_open(uint32_t rank, uint32_t ranks, const struct endpoint_info *endpoints, const uint8_t *secret,
                         int listener, struct regroup **result, struct error *error)
{
    struct regroup *regroup;
    weft_status status = regroup_new(rank, ranks, secret, listener, &regroup, error);
    if (status != WEFT_OK)
        return status;
    memcpy(regroup->endpoints, endpoints, ranks * sizeof *endpoints);
    for (uint32_t r = 0; r < ranks; r++)
        regroup->peers[r].member = true;
    *result = regroup;
    return WEFT_OK;
}

weft_status regroup_open_newcomer(const struct regroup_member *own, const struct regroup_member *members,
                                  uint32_t count, const uint8_t *secret, int listener, struct regroup **result,
                                  struct error *error)
{
    struct regroup *regroup;
    uint32_t ranks = own->rank + 1;
    for (uint32_t i = 0; i < count; i++)
        ranks = members[i].rank + 1 > ranks ? members[i].rank + 1 : ranks;
    weft_status status = regroup_new(own->rank, ranks, secret, listener, &regroup, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        regroup->endpoints[members[i].rank] = members[i].endpoint;
        regroup->peers[members[i].rank].member = true;
    }
    regroup->endpoints[own->rank] = own->endpoint;
    regroup->peers[own->rank].member = false; /* of a list that was damaged */
    regroup->is_new = true;
    *result = regroup;
    return WEFT_OK;
}

weft_status regroup_members(struct regroup *regroup, struct regroup_member **result, uint32_t *result_count,
                            struct error *error)
{
    pthread_mutex_lock(&regroup->lock);
    const uint32_t ranks = regroup->ranks;
    struct regroup_member *members = calloc(ranks, sizeof *members);
    uint32_t count = 0;
    for (uint32_t r = 0; members && r < ranks; r++)
        if (regroup->peers[r].member)
            members[count++] = (struct regroup_member){r, regroup->endpoints[r]};
    pthread_mutex_unlock(&regroup->lock);
    if (!members)
        return error_memory(error, ranks * sizeof *members, "the members of the job");
    *result = members;
    *result_count = count;
    return WEFT_OK;
}

bool regroup_was_overtaken(struct regroup *regroup)
{
    pthread_mutex_lock(&regroup->lock);
    const bool overtaken = regroup->overtaken;
    pthread_mutex_unlock(&regroup->lock);
    return overtaken;
}

uint32_t regroup_waiting(struct regroup *regroup)
{
    uint32_t count = 0;
    pthread_mutex_lock(&regroup->lock);
    for (uint32_t r = 0; r < regroup->ranks; r++)
        count += regroup_waits_here(regroup, r) || (regroup->peers[r].member && regroup->peers[r].leaving);
    pthread_mutex_unlock(&regroup->lock);
    return count;
}

void regroup_close(struct regroup *regroup)
{
    if (!regroup)
        return;
    regroup_connection_sweep(regroup, true);
    close(regroup->listener);
    if (regroup->wake >= 0)
        close(regroup->wake);
    if (regroup->epoll >= 0)
        close(regroup->epoll);
    buffer_free(&regroup->table);
    pthread_mutex_destroy(&regroup->lock);
    free(regroup->endpoints);
    free(regroup->peers);
    free(regroup);
}

int regroup_descriptor(const struct regroup *regroup)
{
    return regroup->epoll;
}

/* ---- deciding ---- */

void regroup_decide(struct regroup *regroup, weft_status status, const char *message)
{
    if (!regroup->agreeing || regroup->decided)
        return;
    regroup->decided = true;
    error_clear(&regroup->outcome);
    if (status != WEFT_OK)
        error_set(&regroup->outcome, status, "%s", message);
}

bool regroup_adopt(struct regroup *regroup, const uint8_t *bytes, size_t size)
{
    struct regroup_layout table;
    if (!regroup_read_table(bytes, size, &table))
        return false;
    const bool included = regroup_lists(table.first, table.count, regroup->rank) ||
                          regroup_lists(table.released, table.released_count, regroup->rank);
    if (table.epoch <= regroup->epoch || !included || !regroup->agreeing || regroup->decided)
        return true;
    if (!regroup_make_room(regroup, table.ranks)) {
        regroup_decide(regroup, WEFT_ERROR_MEMORY, "there is no memory for the members of the job");
        return true;
    }
    regroup->epoch = table.epoch;
    regroup->is_new = false;
    buffer_consume(&regroup->table, buffer_size(&regroup->table));
    buffer_put(&regroup->table, bytes, size);
    regroup_take_members(regroup, &table);
    regroup_decide(regroup, regroup->table.failed ? WEFT_ERROR_MEMORY : WEFT_OK,
                   "there is no memory for the table of the surviving ranks");
    return true;
}

/* ---- following ---- */

void regroup_follow(struct regroup *regroup, uint32_t leader)
{
    /*
     * Do not follow a rank known to be gone because another rank points to it: that one will find out, or send the
     * result.
     */
    if (regroup->bound == leader || regroup->decided || regroup->peers[leader].state != REGROUP_PEER_UNKNOWN)
        return;
    regroup->bound = leader;
    regroup->led_since = 0;
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        if (connection->rank == leader)
            connection->joined = false; /* it may have sent this rank elsewhere meanwhile */
    struct buffer payload = {0};
    buffer_put_u32(&payload, leader);
    for (uint32_t r = 0; r < regroup->ranks; r++) {
        struct regroup_connection *connection =
            regroup_peer_has_joined(regroup, r) ? regroup_connection_to(regroup, r) : NULL;
        if (connection && r != leader)
            regroup_connection_send(connection, REGROUP_FOLLOW, buffer_begin(&payload), buffer_size(&payload));
    }
    buffer_free(&payload);
}

/* Join the rank that this one follows; false: it cannot be joined. */
static bool regroup_join(struct regroup *regroup, uint32_t leader, uint64_t now)
{
    struct regroup_peer *peer = &regroup->peers[leader];
    struct regroup_connection *connection = regroup_connection_to(regroup, leader);
    if (!connection && peer->state == REGROUP_PEER_UNKNOWN)
        regroup_connection_begin(regroup, leader);
    if (peer->state != REGROUP_PEER_UNKNOWN)
        return false;
    if (connection && connection->open && !connection->willing && !regroup->is_new &&
        now > regroup->began + (uint64_t)(regroup->wait.limit_seconds * 1e9)) {
        peer->state = REGROUP_PEER_LATE;
        return false;
    }
    if (!connection || !connection->open || connection->joined)
        return true;
    struct buffer payload = {0};
    if (regroup->is_new)
        buffer_put(&payload, &regroup->endpoints[regroup->rank], sizeof *regroup->endpoints);
    else
        buffer_put_u32(&payload, regroup->epoch);
    buffer_put(&payload, &regroup->endpoint, sizeof regroup->endpoint);
    connection->joined = true;
    regroup_connection_send(connection, regroup->is_new ? REGROUP_NEWCOMER : REGROUP_JOIN, buffer_begin(&payload),
                            buffer_size(&payload));
    buffer_free(&payload);
    return true;
}

/* ---- leading ---- */

/* Whether the leader must still wait for this rank. */
static bool regroup_rank_is_awaited(struct regroup *regroup, uint32_t rank, uint64_t now)
{
    struct regroup_peer *peer = &regroup->peers[rank];
    if (!peer->member || rank == regroup->rank || regroup_peer_has_joined(regroup, rank) ||
        peer->state != REGROUP_PEER_UNKNOWN)
        return false;
    struct regroup_connection *connection = regroup_connection_to(regroup, rank);
    uint64_t limit = regroup->led_since + (uint64_t)(regroup->wait.limit_seconds * 1e9);
    if (!connection && now >= regroup->led_since + GRACE)
        regroup_connection_begin(regroup, rank);
    if (connection && connection->open && !connection->probed) {
        connection->probed = true;
        regroup_connection_send(connection, REGROUP_PROBE, NULL, 0);
    }
    if (connection && connection->open && now > limit && (connection->quiet || now > limit + QUIET_LIMIT))
        peer->state = REGROUP_PEER_LATE;
    return peer->state == REGROUP_PEER_UNKNOWN;
}

/* Whether those that have joined may continue without those that may be alive beyond a partition. */
static bool regroup_is_larger_side(const struct regroup *regroup, uint32_t *here, uint32_t *beyond)
{
    uint32_t lowest_beyond = REGROUP_NONE, lowest_here = REGROUP_NONE;
    *here = *beyond = 0;
    for (uint32_t r = regroup->ranks; r-- > 0;) {
        const struct regroup_peer *peer = &regroup->peers[r];
        if (r == regroup->rank || regroup_peer_has_joined(regroup, r)) {
            lowest_here = r;
            ++*here;
        } else if (peer->member && peer->state == REGROUP_PEER_CUT) {
            lowest_beyond = r;
            ++*beyond;
        }
    }
    return *here > *beyond || (*here == *beyond && lowest_here < lowest_beyond);
}

static void regroup_give_up_smaller_side(struct regroup *regroup, uint32_t here, uint32_t beyond)
{
    char message[512];
    snprintf(
        message, sizeof message,
        "rank %u on host %s and %u others cannot reach %u ranks, which may live on beyond a broken network; only the "
        "larger side continues, so that there are never two",
        regroup->rank, regroup->endpoints[regroup->rank].host, here - 1, beyond);
    struct buffer payload = {0};
    buffer_put_text(&payload, message);
    for (uint32_t r = 0; r < regroup->ranks; r++) {
        struct regroup_connection *connection =
            regroup_peer_has_joined(regroup, r) ? regroup_connection_to(regroup, r) : NULL;
        if (connection)
            regroup_connection_send(connection, REGROUP_LEFT_OUT, buffer_begin(&payload), buffer_size(&payload));
    }
    buffer_free(&payload);
    regroup_decide(regroup, WEFT_ERROR_PEER, message);
}

static void regroup_send_table(struct regroup *regroup, bool to_members, struct buffer *table)
{
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next) {
        const uint32_t rank = connection->rank;
        if (!connection->open || rank == REGROUP_NONE || regroup->peers[rank].member != to_members ||
            (!regroup_takes(regroup, rank) && !regroup_releases(regroup, rank)))
            continue;
        connection->told = true;
        regroup_connection_send(connection, REGROUP_TABLE, buffer_begin(table), buffer_size(table));
    }
}

/* No rank is missing: write the table, send it to all. */
static void regroup_conclude(struct regroup *regroup)
{
    uint32_t here, beyond;
    uint8_t draw[SECRET_BYTES];
    struct buffer payload = {0};
    if (!regroup_is_larger_side(regroup, &here, &beyond)) {
        regroup_give_up_smaller_side(regroup, here, beyond);
        return;
    }
    if (secret_random(draw, sizeof draw, NULL) != WEFT_OK) {
        regroup_decide(regroup, WEFT_ERROR_SYSTEM, "regrouping got no random bytes from the operating system");
        return;
    }
    regroup_write_table(regroup, draw, &payload);
    regroup_send_table(regroup, true,
                       &payload); /* members first: they agree without newcomers, not the other way round */
    regroup_send_table(regroup, false, &payload);
    regroup_adopt(regroup, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* ---- newcomers ---- */

/* This newcomer follows a member although a lower one may be alive, which leads: it did not answer for a while. */
static void regroup_look_lower(struct regroup *regroup, uint64_t now)
{
    const bool calls = now >= regroup->looked_lower + LOWER_INTERVAL;
    for (uint32_t r = 0; r < regroup->bound; r++) {
        struct regroup_peer *peer = &regroup->peers[r];
        struct regroup_connection *connection = regroup_connection_to(regroup, r);
        if (!peer->member || peer->state == REGROUP_PEER_DEAD)
            continue;
        if (connection && connection->open) {
            struct regroup_connection *former = regroup_connection_to(regroup, regroup->bound);
            if (former) /* it must not admit this rank, too */
                former->ended = true;
            peer->state = REGROUP_PEER_UNKNOWN;
            regroup_follow(regroup, r);
            return;
        }
        if (calls && !connection) {
            peer->state = REGROUP_PEER_UNKNOWN;
            regroup_connection_begin(regroup, r);
        }
    }
    if (calls)
        regroup->looked_lower = now;
}

/* This newcomer reaches no member: they have ended, or do not answer while they regroup. */
static void regroup_look_again(struct regroup *regroup, uint64_t now)
{
    bool may_answer = false;
    if (!regroup->lost_since)
        regroup->lost_since = now;
    for (uint32_t r = 0; r < regroup->ranks; r++)
        may_answer |= regroup->peers[r].member && regroup->peers[r].state != REGROUP_PEER_DEAD;
    if (!may_answer || now >= regroup->lost_since + LOST_LIMIT)
        regroup_decide(regroup, WEFT_ERROR_PEER,
                       "the job that this rank was to join has ended, or none of its ranks can be reached");
    for (uint32_t r = 0; r < regroup->ranks; r++)
        if (regroup->peers[r].state != REGROUP_PEER_DEAD)
            regroup->peers[r].state = REGROUP_PEER_UNKNOWN;
}

/* ---- progress ---- */

/* Continue the rendezvous: follow the lowest living rank, or lead. */
static void regroup_seek(struct regroup *regroup, uint64_t now)
{
    if (regroup->bound != REGROUP_NONE) {
        if (regroup->is_new)
            regroup_look_lower(regroup, now);
        if (regroup_join(regroup, regroup->bound, now))
            return;
        regroup->bound = REGROUP_NONE;
    }
    uint32_t looked_at = 0;
    for (uint32_t r = 0; r < regroup->rank && looked_at < WINDOW; r++) {
        struct regroup_peer *peer = &regroup->peers[r];
        if (!peer->member || peer->state != REGROUP_PEER_UNKNOWN)
            continue;
        const struct regroup_connection *connection = regroup_connection_to(regroup, r);
        if (!connection)
            regroup_connection_begin(regroup, r);
        if (peer->state != REGROUP_PEER_UNKNOWN)
            continue;
        if (connection && connection->open && looked_at == 0) { /* no lower rank is alive */
            regroup->lost_since = 0;
            regroup_follow(regroup, r);
            (void)regroup_join(regroup, r, now);
            return;
        }
        looked_at++;
    }
    if (looked_at > 0)
        return;
    if (regroup->is_new) {
        regroup_look_again(regroup, now);
        return;
    }
    if (!regroup->led_since)
        regroup->led_since = now;
    bool waits = false;
    for (uint32_t r = 0; r < regroup->ranks; r++)
        waits |= regroup_rank_is_awaited(regroup, r, now);
    if (!waits)
        regroup_conclude(regroup);
}

int regroup_progress(struct regroup *regroup, bool quiet)
{
    struct epoll_event events[EVENTS];
    eventfd_t ignored;
    pthread_mutex_lock(&regroup->lock);
    regroup->quiet = quiet;
    (void)epoll_wait(regroup->epoll, events, EVENTS, 0);
    eventfd_read(regroup->wake, &ignored);
    uint64_t now = clock_now();
    if (now > regroup->looked + ABSENCE) /* this rank was away: their silence says nothing */
        for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
            connection->heard = now;
    regroup->looked = now;
    regroup_connection_accept_all(regroup);
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        if (!connection->ended)
            regroup_connection_advance(regroup, connection, now);
    if (regroup->agreeing && !regroup->decided)
        regroup_seek(regroup, now);
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        if (!regroup->agreeing && regroup->began && now > regroup->began + AFTERLIFE && !connection->stream.server)
            connection->ended = true; /* of a rendezvous that is over */
    regroup_connection_sweep(regroup, false);
    bool active = regroup->connections || (regroup->agreeing && !regroup->decided);
    pthread_mutex_unlock(&regroup->lock);
    return active ? TICK_MILLISECONDS : -1;
}

/* ---- rendezvous ---- */

/* List the missing ranks, for messages; false if there are none. */
static bool regroup_missing_describe(const struct regroup *regroup, char *text, size_t size)
{
    for (uint32_t r = 0; r < regroup->ranks; r++) {
        const struct regroup_peer *peer = &regroup->peers[r];
        bool here = r == regroup->rank || regroup_peer_has_joined(regroup, r);
        for (const struct regroup_connection *connection = regroup->connections; connection && !here;
             connection = connection->next)
            here = connection->open && connection->rank == r && connection->willing;
        if (!peer->member || here || peer->state != REGROUP_PEER_UNKNOWN)
            continue;
        snprintf(text, size, "rank %u on host %s (process %d)", r, regroup->endpoints[r].host,
                 regroup->endpoints[r].process);
        return true;
    }
    return false;
}

static void regroup_rendezvous_begin(struct regroup *regroup, const struct endpoint_info *endpoint,
                                     const struct regroup_wait *wait)
{
    regroup->endpoint = *endpoint;
    regroup->wait = *wait;
    regroup->began = clock_now();
    regroup->led_since = 0;
    regroup->bound = REGROUP_NONE;
    regroup->decided = false;
    error_clear(&regroup->outcome);
    for (uint32_t r = 0; r < regroup->ranks; r++)
        regroup->peers[r].state = REGROUP_PEER_UNKNOWN;
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        connection->joined = connection->probed = false;
    regroup->agreeing = true;
    eventfd_write(regroup->wake, 1);
}

weft_status regroup_agree(struct regroup *regroup, const struct endpoint_info *endpoint,
                          const struct regroup_wait *wait, struct regroup_table *table, struct error *error)
{
    char missing[256], message[512];
    uint64_t began = clock_now(), warn_at = began + (uint64_t)(wait->late_seconds * 1e9);
    /* A follower waits for the leader, the leader for the others: each up to its limit. */
    uint64_t end = began + (uint64_t)(2 * wait->limit_seconds * 1e9) + 2 * QUIET_LIMIT;
    pthread_mutex_lock(&regroup->lock);
    regroup_rendezvous_begin(regroup, endpoint, wait);
    while (!regroup->decided && clock_now() < end) {
        struct pollfd wait_for = {regroup->epoll, POLLIN, 0};
        pthread_mutex_unlock(&regroup->lock);
        poll(&wait_for, 1, TICK_MILLISECONDS);
        (void)regroup_progress(regroup, true);
        pthread_mutex_lock(&regroup->lock);
        if (regroup->decided || clock_now() < warn_at)
            continue;
        warn_at = UINT64_MAX;
        if (wait->late && regroup_missing_describe(regroup, missing, sizeof missing)) {
            snprintf(message, sizeof message,
                     "%s has not called weft_shrink() or weft_grow() within %g s; it will be left out", missing,
                     wait->late_seconds);
            wait->late(wait->context, message);
        }
    }
    regroup->agreeing = false;
    weft_status status = WEFT_OK;
    if (!regroup->decided)
        status =
            error_set(error, WEFT_ERROR_TIMEOUT, "the ranks have not agreed on a membership; missing: %s",
                      regroup_missing_describe(regroup, missing, sizeof missing) ? missing : "none, but their table");
    else if (regroup->outcome.status != WEFT_OK)
        status = error_set(error, regroup->outcome.status, "%s", regroup->outcome.text);
    else
        status = regroup_result_read(regroup, table, error);
    regroup->began = clock_now();
    eventfd_write(regroup->wake, 1);
    pthread_mutex_unlock(&regroup->lock);
    return status;
}
