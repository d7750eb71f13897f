/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What happens on a node of an attempt, as records. Files (platform/agent/journal/file.h) and connections use the same
 * bytes.
 *
 * Records of a node are numbered from 1 without gaps and delivered at least once: a receiver remembers the sequence of
 * the last one it processed, asks for later ones, and ignores earlier ones. A node's last record is JOURNAL_EXITED or
 * JOURNAL_LOST.
 *
 * A record is a header of 32 bytes, all little-endian, and its payload:
 *
 *     size of the payload (4), kind (4), sequence (8), time in microseconds since 1970 (8), check (8)
 *
 * The check is XXH3 (base/hash.h) of the first 24 bytes and the payload. It detects torn writes and bad disks, not
 * forgery. Texts are the bytes that a program wrote; they may contain anything, up to JOURNAL_TEXT_MOST bytes. Unknown
 * kinds are skipped with their payload, so that journals of newer agents can be read.
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
#define JOURNAL_NO_RANK       UINT32_MAX                 /**< the line has no rank prefix */
#define JOURNAL_FILE          3                          /**< stream of lines from the file of metrics, */
#define JOURNAL_MEASURED      4                          /**< of those that the agent measured, */
#define JOURNAL_EVENTS        5                          /**< and of those from TensorBoard's files */
#define JOURNAL_SENTENCE_MOST 1000                       /**< bytes of a message; longer ones are truncated */

#define ATTEMPT_RUN_BYTES  64
#define ATTEMPT_NODES_MOST 4096

/** An attempt of a run. The epoch grows with every attempt. Only the newest one may act; older ones are fenced: ended
 * wherever they are found. */
struct attempt {
    char run[ATTEMPT_RUN_BYTES]; /**< letters, digits, '-', '_' and, except at the start, '.'; unique */
    uint64_t epoch;              /**< from 1 */
};

bool attempt_is_valid(const struct attempt *attempt);
bool attempt_same(const struct attempt *left, const struct attempt *right);

enum journal_kind {
    JOURNAL_STARTED = 1, /**< the command runs: `started` */
    JOURNAL_HEARTBEAT,   /**< the agent lives */
    JOURNAL_OUTPUT,      /**< lines printed by the command: `output`. The only kind that may be dropped */
    JOURNAL_METRICS,     /**< a line of metrics, as text: `output` */
    JOURNAL_USAGE,       /**< resources used: `usage` */
    JOURNAL_NOTE,        /**< a message for people, such as an ordered stop: text */
    JOURNAL_DROPPED,     /**< old output was dropped to keep the journal small: `dropped` */
    JOURNAL_EXITED,      /**< the end, seen by the agent, or the run killed its agent: `exited` */
    JOURNAL_LOST,        /**< the agent ended, seen by others; how the command ended is unknown: text */
    JOURNAL_UNFIT,       /**< a GPU of the node is ill, once for each: text. Its host should take nothing new */
};

/** Why a node's command ended. */
enum journal_cause {
    JOURNAL_BY_ITSELF = 0,
    JOURNAL_STOPPED,      /**< a stop was ordered */
    JOURNAL_CHECKPOINTED, /**< a checkpoint and an end were ordered */
    JOURNAL_FENCED,       /**< a newer attempt of the run exists */
    JOURNAL_TIME_LIMIT,   /**< the time limit of the attempt */
    JOURNAL_LEASE,        /**< nobody renewed the lease */
    JOURNAL_HOST,         /**< the host is shutting down */
    JOURNAL_NOT_STARTED,  /**< the host could not start it; the message says why */
    JOURNAL_AGENT_KILLED, /**< a process of the run or its user killed the agent or sent it SIGTERM */
    JOURNAL_CAUSES,       /**< how many there are */
};

struct journal_record {
    uint32_t kind; /**< an enum journal_kind, or an unknown number */
    uint64_t sequence;
    uint64_t time; /**< microseconds since 1970 by the node's clock */
    union {
        struct {
            int64_t process; /**< of the command */
        } started;
        struct {
            uint32_t stream; /**< 1: standard output, 2: standard error; of metrics 3 to 5 too, see above */
            uint32_t rank;   /**< of the prefix, or JOURNAL_NO_RANK */
        } output;
        struct {
            uint64_t processor_time; /**< microseconds used so far by the node's processes */
            uint64_t memory;         /**< bytes in use; shared pages count once or more */
            uint32_t processes;
        } usage;
        struct {
            uint64_t bytes; /**< of text */
            uint64_t records;
            uint64_t first, last; /**< sequences of the first and last missing record */
        } dropped;
        struct {
            uint32_t code;   /**< exit code; 0 if a signal ended the command */
            uint32_t signal; /**< 0: it has exited */
            uint32_t cause;  /**< an enum journal_cause */
            uint32_t killed; /**< 1: killed at the end of the grace period */
        } exited;
    };
    const char *text; /**< output, a line of metrics, or a message; without NUL. Points into the bytes read */
    uint32_t size;    /**< of the text */
};

/** "started", "output", ...; "unknown" for other numbers. A static string. */
const char *journal_kind_name(uint32_t kind);

/** "by itself", "stopped", ...; a static string. */
const char *journal_cause_name(uint32_t cause);

/** Whether a record of this kind is a node's last one. */
static inline bool journal_is_end(uint32_t kind)
{
    return kind == JOURNAL_EXITED || kind == JOURNAL_LOST;
}

/** Append `record` as bytes; a long text is truncated. Sets `buffer->failed` if memory runs out. */
void journal_put(struct buffer *buffer, const struct journal_record *record);

enum journal_found {
    JOURNAL_FOUND,
    JOURNAL_MORE,    /**< the record is incomplete */
    JOURNAL_DAMAGED, /**< not a record */
};

/**
 * Parse the record at `bytes`. If it is complete, sets `*record`, whose text points into `bytes`, and `*used`, its size.
 * A payload that does not fit a known kind is damage.
 */
enum journal_found journal_get(const uint8_t *bytes, size_t size, struct journal_record *record, size_t *used);

#endif
