/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Threads for what requests ask for that takes longer than the HTTP server's thread may wait, and changes nothing that
 * the writer owns: files that are read and written.
 *
 *     HTTP thread ──background_do()──► queue ──► work() on one of the threads ──► done() on the HTTP thread
 *
 * What a work needs of the registry its handler looks up before, and keeps in call->kept.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_BACKGROUND_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_BACKGROUND_H

#include "platform/http/route/route.h"

#define BACKGROUND_THREADS_MOST 8

struct background;

/** `waiting_most` works may wait; more are refused with 503. Errors: MEMORY, SYSTEM. */
weft_status background_open(struct http_server *server, unsigned threads, unsigned waiting_most,
                            struct background **background, struct error *error);

/** Wait for what is under way; what waits, and what comes from then on, is answered with an error. Before http_stop().
 * NULL is allowed. */
void background_stop(struct background *background);

/** After http_stop(), for until then requests come that ask for something. NULL is allowed. */
void background_close(struct background *background);

/** Have `work` done for a call on one of the threads and answer it with what the work writes; with `done`, that answers.
 * The work uses the call's request only to read its body. On the HTTP server's thread. */
void background_do(struct background *background, struct route_call *call, route_work *work, route_done *done);

/** Have one of the threads call `function`, which nobody waits for. From any thread. False: there is no room. */
bool background_run(struct background *background, void (*function)(void *context), void *context);

#endif
