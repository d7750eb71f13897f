/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The protocol between the launcher and its helper on each host (see node.h): a greeting, then frames
 * (core/control/wire/frame.h) over the helper's standard input and output. The first frame is the order, which
 * describes the ranks to start. If the order says that the helper stays, more ranks may follow one by one, until
 * ORDER_FINISH; otherwise the helper ends when the ranks of the order have.
 *
 * If the order says what becomes of the ranks without a launcher, the launcher sends ORDER_ALIVE every
 * ORDER_BEAT_SECONDS. A helper that has heard nothing for ORDER_SILENCE_SECONDS takes it for lost, as after the end of the
 * connection (vacancy.h).
 */
#ifndef WEFT_LAUNCH_ORDER_H
#define WEFT_LAUNCH_ORDER_H

#include "base/error.h"
#include "base/string_list.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/** The helper's first bytes; output of a login shell before them is skipped. Weft's version, the number of cores and a
 * newline follow. */
#define ORDER_GREETING "\001weft-node\002"

#define ORDER_FRAME_MOST (16u << 20)

#define ORDER_BEAT_SECONDS    1.0
#define ORDER_SILENCE_SECONDS 4.0
#define ORDER_SILENCE_TEXT    "4 s"

/** What becomes of the ranks when the launcher is lost. */
enum launcher_loss {
    LAUNCHER_LOSS_END,        /**< they are killed */
    LAUNCHER_LOSS_CHECKPOINT, /**< they get SIGTERM, and SIGKILL after order->stop_ms */
    LAUNCHER_LOSS_CONTINUE,   /**< they go on; the helper waits for another launcher */
};

enum order_frame {
    ORDER_START = 1, /**< to the helper: struct order */
    ORDER_INPUT,     /**< bytes for rank 0's standard input; none: its end */
    ORDER_SIGNAL,    /**< number (4): send it to every rank's process group */
    ORDER_TAKEN,     /**< to the launcher: number (4) of input bytes that rank 0 has taken */
    ORDER_OUTPUT,    /**< rank (4), stream (4: 1 or 2), bytes */
    ORDER_EXIT,      /**< rank (4), wait status (4) */
    ORDER_REFUSED,   /**< message (text): nothing could be started */
    ORDER_DONE,      /**< all ranks have ended, and all output is sent */
    ORDER_ADD,       /**< to the helper: rank (4), place (4): start one more rank, if the helper stays */
    ORDER_FINISH,    /**< to the helper: no more ranks come */
    ORDER_STOPPED,   /**< to the helper: kill ranks that are stopped; the others have ended without them */
    ORDER_ALIVE,     /**< to the helper: the launcher lives */
    ORDER_ATTACH,    /**< to the helper: a proof, from a launcher that takes over (succession.h) */
    ORDER_RANKS,     /**< the answer: each rank that was started here (4), whether it has ended (4), wait status (4) */
};

struct order {
    char *directory;         /**< the working directory */
    char *host;              /**< the host's name as the user wrote it; "" for the launcher's own */
    uint32_t first, count;   /**< the ranks to start here; none: a spare host, which stays */
    uint32_t ranks;          /**< of the whole job, without those that are added later */
    uint32_t places;         /**< ranks that may run here at a time */
    uint32_t stays;          /**< more ranks may come: the helper ends only after ORDER_FINISH */
    uint32_t threads;        /**< compute threads a rank */
    uint32_t threads_chosen; /**< the user has chosen that number: it overrides OMP_NUM_THREADS */
    uint32_t bind;           /**< bind each rank to cores of its own, if there are enough */
    uint32_t input;          /**< rank 0 gets input */
    uint32_t loss;           /**< enum launcher_loss */
    uint32_t stop_ms;        /**< milliseconds for the ranks to end after SIGTERM */
    char *job;               /**< the name of the socket for another launcher (succession.h); "": there is none */
    uint32_t alone;          /**< all ranks of the job are on this host */
    uint32_t min_ranks;      /**< the job has succeeded if so many end with exit code 0; 0: all */
    char *name;              /**< the host's name in messages */
    struct string_list environment; /**< "NAME=VALUE", added to the helper's own */
    struct string_list program;
};

/** The value of a variable of such an environment; NULL: it has none. */
const char *order_variable(const struct string_list *environment, const char *name);

/** Append the order as a frame's payload. */
void order_pack(const struct order *order, struct buffer *buffer);

/** Read it; order_free() frees it. Errors: DATA, MEMORY. */
weft_status order_unpack(const struct frame *frame, struct order *order, struct error *error);
void order_free(struct order *order);

/** Append the strings to `buffer`. */
void order_strings_put(struct buffer *buffer, const struct string_list *strings);

/** Read strings. False: they are damaged or memory ran out; some may be in `strings`, for string_list_free(). */
bool order_strings_take(struct reader *reader, struct string_list *strings);

#endif
