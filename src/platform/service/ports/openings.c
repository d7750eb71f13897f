/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/port_openings.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECRET_RANDOM 32

_Static_assert(sodium_base64_ENCODED_LEN(SECRET_RANDOM, sodium_base64_VARIANT_URLSAFE_NO_PADDING) == PORT_SECRET_BYTES,
               "a secret fits");

struct port_openings {
    unsigned web_ports;
    uint64_t last_serial;
    struct port_opening list[PORT_OPENINGS_MOST];
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

/* The web port for a target: that of the user's openings of the same target; else one where the user has nothing open;
 * else the one that the user has used least recently, which is then given up. */
static unsigned choose_web_port(struct port_openings *openings, const struct port_target *target, const char *user,
                                uint64_t now)
{
    uint64_t used[WEB_PORTS_MOST] = {0};
    unsigned chosen = 0;
    for (size_t i = 0; i < PORT_OPENINGS_MOST; i++) {
        const struct port_opening *opening = &openings->list[i];
        if (!opening_is_of(opening, user, now))
            continue;
        if (same_target(&opening->target, target))
            return opening->web_port;
        if (used[opening->web_port] <= opening->used)
            used[opening->web_port] = opening->used + 1; /* 0 stands for nothing open */
    }
    for (unsigned i = 1; i < openings->web_ports; i++)
        if (used[i] < used[chosen])
            chosen = i;
    for (size_t i = 0; i < PORT_OPENINGS_MOST && used[chosen]; i++)
        if (opening_is_of(&openings->list[i], user, now) && openings->list[i].web_port == chosen)
            port_opening_end(&openings->list[i]);
    return chosen;
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
    const unsigned web_port = choose_web_port(openings, target, who->user, now);
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
    return opening;
}

struct port_opening *port_openings_find(struct port_openings *openings, unsigned web_port, const char *cookie,
                                        const char *host, int64_t peer, uint64_t now)
{
    struct port_opening *opening = find_by_secret(openings, web_port, cookie, true, peer, now);
    if (!opening || strcasecmp(opening->host, host) != 0)
        return NULL;
    opening->used = now;
    return opening;
}
