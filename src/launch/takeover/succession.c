/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/takeover/succession.h"

#include "base/clock.h"
#include "base/sha256.h"
#include "core/control/wire/address.h"
#include "launch/order.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES 65536
#define PROXY_MOST  (1u << 20) /* bytes on their way through a proxy, in each direction */

char *succession_name(const char *job, uint32_t index, char text[SUCCESSION_NAME_BYTES])
{
    snprintf(text, SUCCESSION_NAME_BYTES, "weft-helper-%s-%u", job, index);
    return text;
}

weft_status succession_prove(const char *secret, const char *draw, uint8_t proof[SECRET_BYTES], struct error *error)
{
    uint8_t key[SECRET_BYTES];
    char text[SUCCESSION_DRAW_BYTES + 16];
    weft_status status = secret_from_text(secret, key, error);
    const int length = snprintf(text, sizeof text, "launcher %s", draw);
    if (status == WEFT_OK && !secret_sign(key, text, (size_t)length, proof))
        status = error_set(error, WEFT_ERROR_SYSTEM, "cannot sign with the job's secret");
    return status;
}

/* ---- a helper's side ---- */

weft_status succession_open(struct succession *succession, const char *name, struct error *error)
{
    *succession = (struct succession){.listener = address_listen_unix(name), .candidate = -1};
    return succession->listener >= 0 ? WEFT_OK : error_system(error, "cannot listen at the socket @%s", name);
}

static void succession_candidate_drop(struct succession *succession)
{
    if (succession->candidate >= 0)
        close(succession->candidate);
    succession->candidate = -1;
    buffer_free(&succession->in);
}

void succession_close(struct succession *succession)
{
    succession_candidate_drop(succession);
    if (succession->listener >= 0)
        close(succession->listener);
    succession->listener = -1;
}

void succession_watch(const struct succession *succession, struct pollfd polls[SUCCESSION_POLLS])
{
    polls[0] = (struct pollfd){succession->candidate < 0 ? succession->listener : -1, POLLIN, 0};
    polls[1] = (struct pollfd){succession->candidate, POLLIN, 0};
}

static void succession_greet(struct succession *succession, const char *secret, uint32_t cores)
{
    uint8_t bytes[SECRET_BYTES];
    char text[SECRET_TEXT_BYTES], line[192];
    succession->candidate = accept4(succession->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (succession->candidate < 0)
        return;
    bool good = address_is_of_same_user(succession->candidate) && secret_random(bytes, sizeof bytes, NULL) == WEFT_OK;
    if (good) {
        sha256_text(bytes, text);
        text[SUCCESSION_DRAW_BYTES - 1] = '\0';
        const int length = snprintf(line, sizeof line, ORDER_GREETING "%s %u %s\n", weft_version(), cores, text);
        good = succession_prove(secret, text, succession->proof, NULL) == WEFT_OK &&
               send(succession->candidate, line, (size_t)length, MSG_NOSIGNAL) == length;
    }
    succession->limit = clock_after(SUCCESSION_LIMIT);
    if (!good)
        succession_candidate_drop(succession);
}

/* 1: the candidate has proved itself; 0: not yet; -1: it has not. */
static int succession_examine(struct succession *succession)
{
    struct frame frame;
    uint8_t *place = buffer_reserve(&succession->in, PIECE_BYTES);
    const ssize_t n = place ? read(succession->candidate, place, PIECE_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    succession->in.end += (size_t)n;
    const int found = frame_peek(&succession->in, ORDER_FRAME_MOST, &frame);
    if (found <= 0)
        return found;
    if (frame.kind != ORDER_ATTACH || frame.size != SECRET_BYTES || !secret_equal(frame.payload, succession->proof))
        return -1;
    frame_drop(&succession->in, &frame);
    return 1;
}

int succession_turn(struct succession *succession, const struct pollfd polls[SUCCESSION_POLLS], const char *secret,
                    uint32_t cores, struct buffer *rest)
{
    int verdict = 0, result = -1;
    if (polls[0].revents)
        succession_greet(succession, secret, cores);
    else if (polls[1].revents)
        verdict = succession_examine(succession);
    if (verdict > 0) {
        result = succession->candidate;
        succession->candidate = -1;
        buffer_put(rest, buffer_begin(&succession->in), buffer_size(&succession->in));
        buffer_free(&succession->in);
    } else if (verdict < 0 || (succession->candidate >= 0 && clock_now() >= succession->limit)) {
        succession_candidate_drop(succession);
    }
    return result;
}

/* ---- the proxy ---- */

/* One direction. Its reader may be slow without holding up the other one. */
struct succession_way {
    int from, to;
    struct buffer bytes;
};

/* False: an end was reached. */
static bool succession_forward(struct succession_way *way, bool readable, bool writable)
{
    if (readable) {
        uint8_t *place = buffer_reserve(&way->bytes, PIECE_BYTES);
        const ssize_t n = place ? read(way->from, place, PIECE_BYTES) : 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        way->bytes.end += n > 0 ? (size_t)n : 0;
    }
    if ((readable || writable) && buffer_size(&way->bytes) > 0) {
        const ssize_t n = write(way->to, buffer_begin(&way->bytes), buffer_size(&way->bytes));
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        buffer_consume(&way->bytes, n > 0 ? (size_t)n : 0);
    }
    return true;
}

/* Bytes that were read before an end are still delivered, if their reader takes them soon. */
static void succession_flush(struct succession_way *way)
{
    struct pollfd wait = {way->to, POLLOUT, 0};
    while (buffer_size(&way->bytes) > 0 && poll(&wait, 1, 1000) > 0 && succession_forward(way, false, true))
        ;
    buffer_free(&way->bytes);
}

int succession_proxy(const char *name)
{
    const uint64_t limit = clock_after(SUCCESSION_LIMIT);
    int descriptor;
    signal(SIGPIPE, SIG_IGN);
    while ((descriptor = address_connect_unix(name)) < 0 &&
           clock_now() < limit) /* it may be about to lose its launcher */
        poll(NULL, 0, 20);
    if (descriptor < 0 || !address_is_of_same_user(descriptor))
        return 1; /* the launcher says what that means */
    struct succession_way ways[2] = {{STDIN_FILENO, descriptor, {0}}, {descriptor, STDOUT_FILENO, {0}}};
    for (int i = 0; i < 2; i++)
        fcntl(i ? STDOUT_FILENO : STDIN_FILENO, F_SETFL, O_NONBLOCK);
    for (bool open = true; open;) {
        struct pollfd polls[4];
        for (int i = 0; i < 2; i++) {
            polls[2 * i] = (struct pollfd){buffer_size(&ways[i].bytes) < PROXY_MOST ? ways[i].from : -1, POLLIN, 0};
            polls[2 * i + 1] = (struct pollfd){buffer_size(&ways[i].bytes) > 0 ? ways[i].to : -1, POLLOUT, 0};
        }
        if (poll(polls, 4, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < 2; i++)
            open = succession_forward(&ways[i], polls[2 * i].revents != 0, polls[2 * i + 1].revents != 0) && open;
    }
    for (int i = 0; i < 2; i++)
        succession_flush(&ways[i]);
    close(descriptor);
    return 0;
}
