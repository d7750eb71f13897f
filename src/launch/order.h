/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The protocol between the launcher and its helper on each host (see node.h): a greeting, then frames
 * (core/control/wire/frame.h) over the helper's standard input and output. The first frame is the order, which
 * describes the ranks to start. If the order says that the helper stays, more ranks may follow one by one, until
 * ORDER_FINISH; otherwise the helper ends when the ranks of the order have.
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
};

struct order {
    char *directory;                /**< the working directory */
    char *host;                     /**< the host's name as the user wrote it; "" for the launcher's own */
    uint32_t first, count;          /**< the ranks to start here; none: a spare host, which stays */
    uint32_t ranks;                 /**< of the whole job, without those that are added later */
    uint32_t places;                /**< ranks that may run here at a time */
    uint32_t stays;                 /**< more ranks may come: the helper ends only after ORDER_FINISH */
    uint32_t threads;               /**< compute threads a rank */
    uint32_t threads_chosen;        /**< the user has chosen that number: it overrides OMP_NUM_THREADS */
    uint32_t bind;                  /**< bind each rank to cores of its own, if there are enough */
    uint32_t input;                 /**< rank 0 gets input */
    struct string_list environment; /**< "NAME=VALUE", added to the helper's own */
    struct string_list program;
};

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
