/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/port_openings.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECRET_RANDOM 32
#define OPEN_RANK     (UINT64_MAX / 2) /* web ports where something is open come after all others */

_Static_assert(sodium_base64_ENCODED_LEN(SECRET_RANDOM, sodium_base64_VARIANT_URLSAFE_NO_PADDING) == PORT_SECRET_BYTES,
               "a secret fits");

/* What a user's browsers have seen last at a web port. Also after the opening has ended: its pages may still be there. */
struct port_origin {
    char user[PLATFORM_NAME_BYTES];
    unsigned web_port;
    struct port_target target;
    uint64_t used; /* clock_now(); 0: this one is not used */
};

struct port_openings {
    unsigned web_ports;
    uint64_t last_serial;
    struct port_opening list[PORT_OPENINGS_MOST];
    struct port_origin origins[PORT_ORIGINS_MOST];
};

weft_status port_openings_new(unsigned web_ports, struct port_openings **openings, struct error *error)
{
    struct port_openings *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the ports of runs");
    made->web_ports = web_ports;
    *openings = made;
    return WEFT_OK;
}

void port_openings_free(struct port_openings *openings)
{
    free(openings);
}

/* ---- secrets ---- */

static void opening_hash_secret(const char *secret, uint8_t hash[PORT_SECRET_HASH])
{
    crypto_generichash(hash, PORT_SECRET_HASH, (const uint8_t *)secret, strlen(secret), NULL, 0);
}

static void opening_draw_secret(char secret[PORT_SECRET_BYTES], uint8_t hash[PORT_SECRET_HASH])
{
    uint8_t random[SECRET_RANDOM];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(secret, PORT_SECRET_BYTES, random, sizeof random, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(random, sizeof random);
    opening_hash_secret(secret, hash);
}

/* ---- which there are ---- */

static bool opening_is_valid(const struct port_opening *opening, uint64_t now)
{
    return opening->serial && now < opening->ends;
}

static bool opening_is_of(const struct port_opening *opening, const char *user, uint64_t now)
{
    return opening_is_valid(opening, now) && strcmp(opening->who.user, user) == 0;
}

static bool same_target(const struct port_target *one, const struct port_target *other)
{
    return one->run == other->run && one->node == other->node && one->port == other->port;
}

void port_opening_end(struct port_opening *opening)
{
    *opening = (struct port_opening){0};
}

struct port_opening *port_openings_same(struct port_opening *opening, uint64_t serial, uint64_t now)
{
    return opening->serial == serial && opening_is_valid(opening, now) ? opening : NULL;
}

void port_openings_list(struct port_openings *openings, const char *user, uint64_t now,
                        void (*each)(void *context, const struct port_opening *opening), void *context)
{
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++)
        if (opening_is_of(&openings->list[i], user, now))
            each(context, &openings->list[i]);
}

/* ---- adding ---- */

/* What the browsers of a user have seen last at a web port; NULL: nothing that is remembered. */
static struct port_origin *find_origin(struct port_openings *openings, const char *user, unsigned web_port)
{
    for (size_t i = 0; i < PORT_ORIGINS_MOST; i++) {
        struct port_origin *origin = &openings->origins[i];
        if (origin->used && origin->web_port == web_port && strcmp(origin->user, user) == 0)
            return origin;
    }
    return NULL;
}

/* An opening is used: remember it, in place of what was remembered longest ago if there is no room. */
static void remember_origin(struct port_openings *openings, const struct port_opening *opening)
{
    struct port_origin *origin = find_origin(openings, opening->who.user, opening->web_port);
    for (size_t i = 0, oldest = 0; !origin && i < PORT_ORIGINS_MOST; i++) {
        if (openings->origins[i].used < openings->origins[oldest].used)
            oldest = i;
        if (i + 1 == PORT_ORIGINS_MOST)
            origin = &openings->origins[oldest];
    }
    snprintf(origin->user, sizeof origin->user, "%s", opening->who.user);
    origin->web_port = opening->web_port;
    origin->target = opening->target;
    origin->used = opening->used;
}

/*
 * The web port for a target: that of the user's openings of the same target, or where it was the last one; else one that
 * the user has never used; else the one that was used least recently, of those where nothing is open if there are any.
 * `earlier`: the other target that its pages in the user's browsers may be of; NULL: there are none.
 */
static unsigned choose_web_port(struct port_openings *openings, const struct port_target *target, const char *user,
                                uint64_t now, const struct port_target **earlier)
{
    const struct port_target *last[WEB_PORTS_MOST] = {0};
    uint64_t used[WEB_PORTS_MOST] = {0};
    unsigned chosen = WEB_PORTS_MOST;
    for (unsigned i = 0; i < openings->web_ports; i++) {
        const struct port_origin *origin = find_origin(openings, user, i);
        last[i] = origin ? &origin->target : NULL;
        used[i] = origin ? origin->used : 0;
        if (origin && same_target(&origin->target, target))
            chosen = i;
    }
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++) {
        const struct port_opening *opening = &openings->list[i];
        if (!opening_is_of(opening, user, now))
            continue;
        const uint64_t rank = OPEN_RANK + opening->used;
        used[opening->web_port] = rank > used[opening->web_port] ? rank : used[opening->web_port];
        if (same_target(&opening->target, target) && chosen == WEB_PORTS_MOST)
            chosen = opening->web_port;
        else if (!last[opening->web_port])
            last[opening->web_port] = &opening->target;
    }
    if (chosen == WEB_PORTS_MOST) {
        chosen = 0;
        for (unsigned i = 1; i < openings->web_ports; i++)
            if (used[i] < used[chosen])
                chosen = i;
    }
    *earlier = last[chosen] && !same_target(last[chosen], target) ? last[chosen] : NULL;
    return chosen;
}

bool port_openings_reuse(struct port_openings *openings, const struct port_target *target, const char *user,
                         uint64_t now, unsigned *web_port, struct port_target *earlier)
{
    const struct port_target *found;
    *web_port = choose_web_port(openings, target, user, now, &found);
    if (found)
        *earlier = *found;
    return found;
}

/* A place for one more opening of a user; NULL: there is none. */
static struct port_opening *find_place(struct port_openings *openings, const char *user, uint64_t now)
{
    struct port_opening *unused = NULL, *oldest = NULL;
    unsigned count = 0;
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++) {
        struct port_opening *opening = &openings->list[i];
        if (!opening_is_valid(opening, now))
            unused = unused ? unused : opening;
        else if (strcmp(opening->who.user, user) == 0 && ++count && (!oldest || opening->used < oldest->used))
            oldest = opening;
    }
    return count < PORT_OF_USER_MOST && unused ? unused : oldest;
}

weft_status port_openings_add(struct port_openings *openings, const struct port_target *target,
                              const struct identity *who, int64_t peer, uint64_t now, struct port_opening **opening,
                              char secret[PORT_SECRET_BYTES], struct error *error)
{
    if (sodium_init() < 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    const struct port_target *earlier;
    const unsigned web_port = choose_web_port(openings, target, who->user, now, &earlier);
    struct port_opening *made = find_place(openings, who->user, now);
    if (!made)
        return error_set(error, WEFT_ERROR_STATE,
                         "%d ports of runs are open, the maximum: use 'weft forward', or try again later",
                         PORT_OPENINGS_MOST);
    *made = (struct port_opening){.serial = ++openings->last_serial,
                                  .target = *target,
                                  .who = *who,
                                  .peer = peer,
                                  .web_port = web_port,
                                  .used = now,
                                  .ends = now + PORT_NANOSECONDS(PORT_LINK_SECONDS)};
    opening_draw_secret(secret, made->hash);
    *opening = made;
    return WEFT_OK;
}

/* ---- getting in ---- */

/* By the secret that it waits for: that of the link, or of the cookie. */
static struct port_opening *find_by_secret(struct port_openings *openings, unsigned web_port, const char *secret,
                                           bool entered, int64_t peer, uint64_t now)
{
    uint8_t hash[PORT_SECRET_HASH];
    opening_hash_secret(secret, hash);
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++) {
        struct port_opening *opening = &openings->list[i];
        if (opening_is_valid(opening, now) && opening->entered == entered && opening->web_port == web_port &&
            opening->peer == peer && sodium_memcmp(opening->hash, hash, sizeof hash) == 0)
            return opening;
    }
    return NULL;
}

struct port_opening *port_openings_waiting(struct port_openings *openings, unsigned web_port, const char *secret,
                                           int64_t peer, uint64_t now)
{
    return find_by_secret(openings, web_port, secret, false, peer, now);
}

/* The user's openings of other targets at the same web port give way. */
static void end_others(struct port_openings *openings, const struct port_opening *opening, uint64_t now)
{
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++) {
        struct port_opening *other = &openings->list[i];
        if (opening_is_of(other, opening->who.user, now) && other->web_port == opening->web_port &&
            !same_target(&other->target, &opening->target))
            port_opening_end(other);
    }
}

struct port_opening *port_openings_enter(struct port_openings *openings, unsigned web_port, const char *secret,
                                         const char *host, int64_t peer, uint64_t now, char cookie[PORT_SECRET_BYTES])
{
    struct port_opening *opening = find_by_secret(openings, web_port, secret, false, peer, now);
    if (!opening || strlen(host) >= sizeof opening->host)
        return NULL;
    snprintf(opening->host, sizeof opening->host, "%s", host);
    opening->entered = true;
    opening->used = now;
    opening->ends = now + PORT_NANOSECONDS(PORT_SECONDS);
    opening_draw_secret(cookie, opening->hash);
    end_others(openings, opening, now);
    remember_origin(openings, opening);
    return opening;
}

struct port_opening *port_openings_find(struct port_openings *openings, unsigned web_port, const char *cookie,
                                        const char *host, int64_t peer, uint64_t now)
{
    struct port_opening *opening = find_by_secret(openings, web_port, cookie, true, peer, now);
    if (!opening || strcasecmp(opening->host, host) != 0)
        return NULL;
    opening->used = now;
    remember_origin(openings, opening);
    return opening;
}
