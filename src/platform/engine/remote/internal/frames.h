/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the server and the hosts of its attempts say to each other, as frames (core/control/wire/frame.h) over TLS
 * (tls_stream.h). A host's process connects to the server and stays connected; all frames of a connection are about one node
 * of one attempt.
 *
 *     from the host   REMOTE_HELLO     version (4), run (text), epoch (8), host, token, instance (texts)
 *                     REMOTE_HELD      the node is there; the answer to REMOTE_ORDER
 *                     REMOTE_FAILED    it cannot be started: asked to stop (4: 0 or 1), message (text); the other answer
 *                     REMOTE_WANT      offset (8), SHA-256 of an object (text; "": the list of the snapshot)
 *                     REMOTE_RECORDS   records of the journal (journal.h), one after the other
 *                     REMOTE_ALIVE     every REMOTE_BEAT_SECONDS
 *     to the host     REMOTE_ORDER     size (4) and the node's order (node_order_pack()), the values of its secrets (texts),
 *                                      enum remote_storage (4), text
 *                     REMOTE_PART      the answer to REMOTE_WANT, in the same order: message (text; "": it is there), bytes of
 *                                      the whole (8), and at most REMOTE_FILE_PIECE from the offset on
 *                     REMOTE_REFUSED   message (text): there is nothing to do here; the host kills what it has of the node
 *                     REMOTE_TAKEN     all records up to this sequence (8) are kept; send what follows
 *                     REMOTE_STOP      signal (4), grace in milliseconds (8)
 *                     REMOTE_REMARK    message (text) for the journal
 *                     REMOTE_FORGET    the end of the node is kept: remove its files, and exit
 *                     REMOTE_ALIVE     every REMOTE_BEAT_SECONDS
 *
 * Commands in the node, each with a number that the server has chosen (4, first in the payload):
 *
 *     to the host     REMOTE_EXEC      terminal (4), rows (4), columns (4), command (texts), environment (texts)
 *                     REMOTE_INPUT     bytes; none: the end
 *                     REMOTE_SIZE      rows (4), columns (4)
 *                     REMOTE_SIGNAL    number (4)
 *                     REMOTE_MORE      stream (4), bytes (4): so many more may be sent
 *                     REMOTE_CLOSE     the one who watched has gone
 *     from the host   REMOTE_OUTPUT    stream (4), bytes; none: the end
 *                     REMOTE_MORE      stream (4: 0), bytes (4): so many more may be sent
 *                     REMOTE_TOLD      a frame of the agent, as in platform/agent/link.h: kind (4), payload
 *
 * Each of the three streams of a command may have REMOTE_WINDOW bytes on their way, and REMOTE_WANT REMOTE_PIECES_MOST without
 * an answer: so heartbeats wait for no more than these.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_FRAMES_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_FRAMES_H

#define REMOTE_VERSION      1u
#define REMOTE_FRAME_MOST   ((size_t)8 << 20) /**< an order has up to 4 MiB, and secrets come with it */
#define REMOTE_BEAT_SECONDS 1.0
#define REMOTE_WINDOW       (256u << 10)
#define REMOTE_PIECE        (32u << 10) /**< bytes of a stream in one frame, at most */

#define REMOTE_PRINT_BYTES 65 /**< of a certificate's SHA-256, likewise */

#define REMOTE_FILE_PIECE  (128u << 10) /**< bytes of a file in one frame, at most */
#define REMOTE_PIECES_MOST 16u

/** Where a run's files are, and what the text of an order is. */
enum remote_storage {
    REMOTE_OWN,    /**< where the order says; "" */
    REMOTE_SHARED, /**< likewise; the directory that has to be shared */
    REMOTE_SENT,   /**< in the server's store; the id of the snapshot, "": none */
};

enum remote_frame {
    REMOTE_HELLO = 1,
    REMOTE_HELD,
    REMOTE_RECORDS,
    REMOTE_ALIVE,
    REMOTE_ORDER,
    REMOTE_REFUSED,
    REMOTE_TAKEN,
    REMOTE_STOP,
    REMOTE_REMARK,
    REMOTE_FORGET,
    REMOTE_FAILED,
    REMOTE_WANT,
    REMOTE_PART,
    REMOTE_EXEC,
    REMOTE_INPUT,
    REMOTE_SIZE,
    REMOTE_SIGNAL,
    REMOTE_MORE,
    REMOTE_CLOSE,
    REMOTE_OUTPUT,
    REMOTE_TOLD,
};

#endif
