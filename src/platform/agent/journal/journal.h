/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What happens on a node of an attempt, as records: the same bytes in the journal's files (platform/agent/journal/file.h) and on a
 * wire.
 *
 * The records of a node are numbered from 1 on without gaps. They are delivered at least once: who receives them
 * remembers the sequence of the last one it has dealt with, asks for what is behind it, and drops what it knows. The
 * last record of a node is JOURNAL_EXITED or JOURNAL_LOST; nothing follows it.
 *
 * A record is a header of 32 bytes, all little-endian, and its payload:
 *
 *     size of the payload (4), kind (4), sequence (8), time in microseconds since 1970 (8), check (8)
 *
 * The check is XXH3 (base/hash.h) of the first 24 bytes and of the payload: against torn writes and bad disks, not
 * against forgers. Texts are bytes as a program has written them: they may hold anything but are never longer than
 * JOURNAL_TEXT_MOST. A kind that is not known is passed over with its payload, so that newer agents can be read.
 *
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_AGENT_JOURNAL_JOURNAL_H
#define WEFT_PLATFORM_AGENT_JOURNAL_JOURNAL_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_HEADER_BYTES  32
#define JOURNAL_TEXT_MOST     ((size_t)256 << 10)        /**< bytes of a text */
#define JOURNAL_PAYLOAD_MOST  (JOURNAL_TEXT_MOST + 256u) /**< bytes of a payload */
#define JOURNAL_NO_RANK       UINT32_MAX                 /**< a line that names no rank */
#define JOURNAL_FILE          3                          /**< the stream of lines from the file of metrics */
#define JOURNAL_MEASURED      4                          /**< and of those that the agent has measured */
#define JOURNAL_EVENTS        5                          /**< and of those that it found in TensorBoard's files */
#define JOURNAL_SENTENCE_MOST 1000                       /**< bytes of a message; longer ones are cut */

enum journal_kind {
    JOURNAL_STARTED = 1, /**< the command runs: `started` */
    JOURNAL_HEARTBEAT,   /**< the agent lives; nothing else */
    JOURNAL_OUTPUT,      /**< lines that the command has printed: `output`. The only kind that may be dropped */
    JOURNAL_METRICS,     /**< a line of metrics, as text: `output` */
    JOURNAL_USAGE,       /**< what the node uses: `usage` */
    JOURNAL_NOTE,        /**< something a person may want to know, as a stop that was ordered: `message` */
    JOURNAL_DROPPED,     /**< old output was dropped to keep the journal small: `dropped` */
    JOURNAL_EXITED,      /**< the end, seen by the agent, or that of an agent that the run has killed: `exited` */
    JOURNAL_LOST,        /**< the end of the agent, seen by others; how the command ended is not known: `message` */
};

/** Who wanted the end of a node's command. */
enum journal_cause {
    JOURNAL_BY_ITSELF = 0,
    JOURNAL_STOPPED,      /**< a stop was ordered */
    JOURNAL_CHECKPOINTED, /**< a checkpoint and an end were ordered */
    JOURNAL_FENCED,       /**< a newer attempt of the run exists */
    JOURNAL_TIME_LIMIT,   /**< the attempt's time was over */
    JOURNAL_LEASE,        /**< nobody has renewed the lease */
    JOURNAL_HOST,         /**< the host is shutting down */
    JOURNAL_NOT_STARTED,  /**< the host could not start it; the message says why */
    JOURNAL_AGENT_KILLED, /**< a process of the run, or of its user, has killed the agent, or told it to end */
    JOURNAL_CAUSES,       /**< how many there are */
};

struct journal_record {
    uint32_t kind; /**< an enum journal_kind, or a number that is not known */
    uint64_t sequence;
    uint64_t time; /**< microseconds since 1970, by the clock of the node */
    union {
        struct {
            int64_t process; /**< of the command, on its host */
        } started;
        struct {
            uint32_t stream; /**< 1: standard output, 2: standard error; of metrics 3 to 5 too, see above */
            uint32_t rank;   /**< that the line names, or JOURNAL_NO_RANK */
        } output;
        struct {
            uint64_t processor_time; /**< microseconds that the node's processes have used so far */
            uint64_t memory;         /**< bytes in use: private ones, and each shared page once or more */
            uint32_t processes;
        } usage;
        struct {
            uint64_t bytes; /**< of text */
            uint64_t records;
            uint64_t first, last; /**< sequences of the first and the last one that are missing */
        } dropped;
        struct {
            uint32_t code;   /**< exit code; 0 if a signal has ended the command */
            uint32_t signal; /**< 0: it has exited */
            uint32_t cause;  /**< an enum journal_cause */
            uint32_t killed; /**< 1: the grace period was over before it ended */
        } exited;
    };
    const char *text; /**< of output, a line of metrics, or a message; not ended by NUL. In the bytes read from */
    uint32_t size;    /**< of the text */
};

/** "started", "output" and so on, "unknown" for any other number; a static string. */
const char *journal_kind_name(uint32_t kind);

/** "by itself", "stopped" and so on; a static string. */
const char *journal_cause_name(uint32_t cause);

/** Whether a record of this kind is a node's last one. */
static inline bool journal_is_end(uint32_t kind)
{
    return kind == JOURNAL_EXITED || kind == JOURNAL_LOST;
}

/** Append `record` as bytes. A text that is too long is cut. `buffer->failed` tells if memory ran out. */
void journal_put(struct buffer *buffer, const struct journal_record *record);

enum journal_found {
    JOURNAL_FOUND,
    JOURNAL_MORE,    /**< these bytes begin a record, and more are needed */
    JOURNAL_DAMAGED, /**< these bytes are no record */
};

/**
 * Read the record at `bytes`. `*record` is set if it is whole, `*used` to the bytes it takes; its text points into
 * `bytes`. A known kind whose payload does not fit it is damaged too.
 */
enum journal_found journal_get(const uint8_t *bytes, size_t size, struct journal_record *record, size_t *used);

#endif
