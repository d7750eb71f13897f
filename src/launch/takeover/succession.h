/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a helper that has lost its launcher comes to another one: it listens at an abstract UNIX socket, where a proxy on its
 * host connects that forwards the new launcher's bytes (`weft run --node --attach NAME`, started as helpers are: agent.h).
 *
 * Both are of the same user. The helper greets as at its start (ORDER_GREETING), with a word of random digits added; the
 * launcher answers with a proof that it has the job's secret, in ORDER_ATTACH. Then the connection is as any other.
 */
#ifndef WEFT_LAUNCH_TAKEOVER_SUCCESSION_H
#define WEFT_LAUNCH_TAKEOVER_SUCCESSION_H

#include "base/error.h"
#include "core/control/wire/frame.h"
#include "core/control/wire/secret.h"

#include <poll.h>
#include <stdint.h>

#define SUCCESSION_NAME_BYTES 64 /**< for the name of a helper's socket */
#define SUCCESSION_DRAW_BYTES 33 /**< for the random digits of a greeting */
#define SUCCESSION_POLLS      2
#define SUCCESSION_LIMIT      5.0 /**< seconds for a launcher to prove itself, and for a proxy to find the helper */

/** The name of the socket of host number `index` of the job `job`. */
char *succession_name(const char *job, uint32_t index, char text[SUCCESSION_NAME_BYTES]);

/** The launcher's answer to the digits `draw`, with the job's secret as in WEFT_SECRET. Errors: SYSTEM. */
weft_status succession_prove(const char *secret, const char *draw, uint8_t proof[SECRET_BYTES], struct error *error);

/** A helper's side. One connection at a time is examined. */
struct succession {
    int listener, candidate;     /**< -1: none */
    uint8_t proof[SECRET_BYTES]; /**< expected of the candidate */
    uint64_t limit;              /**< for it */
    struct buffer in;            /**< received from it */
};

/** Listen. succession_close() ends it. Errors: SYSTEM. */
weft_status succession_open(struct succession *succession, const char *name, struct error *error);
void succession_close(struct succession *succession);

/** Fill in what to poll for; then act on the result: the descriptor of the new launcher's connection, non-blocking, or -1. What
 * it has sent already is appended to `rest`. */
void succession_watch(const struct succession *succession, struct pollfd polls[SUCCESSION_POLLS]);
int succession_turn(struct succession *succession, const struct pollfd polls[SUCCESSION_POLLS], const char *secret,
                    uint32_t cores, struct buffer *rest);

/** The proxy: connect standard input and output with the helper that listens at `name`. Returns the exit code. */
int succession_proxy(const char *name);

#endif
