/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A pipe carries records from one rank to one local peer, through a ring of cache lines in the writer's mailbox.
 *
 * One writer, one reader, no locks: the writer fills the lines of a record, then stores the stamp (position + 1, which
 * only grows) into the first with release; the reader polls that word alone, so a record of one line costs one line's
 * crossing. The reader publishes how far it has read after every quarter of the ring; the writer checks only when it
 * needs space.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_INTERNAL_PIPE_H
#define WEFT_CORE_TRANSPORT_SHM_INTERNAL_PIPE_H

#include "core/transport/shm/internal/state.h"

#include <string.h>

enum record_kind {
    RECORD_EAGER = 1, /**< a whole message: the payload follows */
    RECORD_OFFER,     /**< a message that is still with its sender: its handle, and its place (or HEAP_NOWHERE)
                     */
    RECORD_TAKEN,     /**< receiver: I have read the offered message */
    RECORD_REFUSED,   /**< receiver: tag or size of the offered message differ from mine (in `tag` and `bytes`) */
    RECORD_PULL,      /**< receiver: send the offered message into my buffer here (or HEAP_NOWHERE: through staging) */
    RECORD_WRITTEN,   /**< sender: it is in your buffer */
    RECORD_STAGED,    /**< sender: it comes through the stage at this place, from this chunk count on */
};

/** The first line of a record. */
struct record {
    _Atomic uint64_t stamp;
    uint64_t tag;
    uint64_t bytes; /**< of the message */
    uint32_t communicator;
    uint8_t channel;
    uint8_t kind;
    uint16_t reserved;
    union {
        char payload[32]; /**< RECORD_EAGER: the first bytes */
        struct {
            uint64_t to;    /**< handle at the reader of this record */
            uint64_t from;  /**< handle at its writer */
            uint64_t place; /**< offset in the writer's heap */
            uint64_t count;
        };
    };
};
_Static_assert(sizeof(struct record) == SHM_LINE_BYTES, "a record begins with one line");

#define PIPE_FIRST_BYTES 32u
#define PIPE_REST_BYTES  56u

struct pipe_writer {
    struct shm_pipe_line *lines;
    const _Atomic uint64_t *consumed; /**< the reader's word */
    uint64_t position, consumed_seen;
};

struct pipe_reader {
    struct shm_pipe_line *lines;
    _Atomic uint64_t *consumed;
    uint64_t position, published;
};

/** Lines of an eager message. */
static inline uint32_t pipe_lines(uint64_t payload)
{
    return payload <= PIPE_FIRST_BYTES
               ? 1
               : (uint32_t)(1 + (payload - PIPE_FIRST_BYTES + PIPE_REST_BYTES - 1) / PIPE_REST_BYTES);
}

static inline struct shm_pipe_line *pipe_line(struct shm_pipe_line *lines, uint64_t position)
{
    return &lines[position % SHM_PIPE_LINES];
}

/** Whether a record of this many lines fits now. */
static inline bool pipe_has_room(struct pipe_writer *writer, uint32_t lines)
{
    if (writer->position + lines - writer->consumed_seen <= SHM_PIPE_LINES)
        return true;
    writer->consumed_seen = atomic_load_explicit(writer->consumed, memory_order_acquire);
    return writer->position + lines - writer->consumed_seen <= SHM_PIPE_LINES;
}

/** The first line of the next record, to be filled except for the stamp; there must be space. */
static inline struct record *pipe_next(struct pipe_writer *writer)
{
    return (struct record *)pipe_line(writer->lines, writer->position);
}

/** Store an eager record's payload. */
static inline void pipe_fill(struct pipe_writer *writer, const char *data, uint64_t bytes)
{
    struct record *record = pipe_next(writer);
    uint64_t first = bytes < PIPE_FIRST_BYTES ? bytes : PIPE_FIRST_BYTES;
    if (first)
        memcpy(record->payload, data, first);
    for (uint64_t done = first, position = writer->position + 1; done < bytes; done += PIPE_REST_BYTES, position++) {
        char *rest = pipe_line(writer->lines, position)->rest;
        if (bytes - done >= PIPE_REST_BYTES)
            memcpy(rest, data + done, PIPE_REST_BYTES);
        else
            memcpy(rest, data + done, bytes - done);
    }
}

/** Make the record visible. */
static inline void pipe_publish(struct pipe_writer *writer, uint32_t lines)
{
    atomic_store_explicit(&pipe_next(writer)->stamp, writer->position + 1, memory_order_release);
    writer->position += lines;
}

/** The next record, or NULL if none has arrived. */
static inline struct record *pipe_peek(const struct pipe_reader *reader)
{
    struct record *record = (struct record *)pipe_line(reader->lines, reader->position);
    return atomic_load_explicit(&record->stamp, memory_order_acquire) == reader->position + 1 ? record : NULL;
}

/** Copy an eager record's payload out. */
static inline void pipe_empty(const struct pipe_reader *reader, char *data, uint64_t bytes)
{
    const struct record *record = (const struct record *)pipe_line(reader->lines, reader->position);
    uint64_t first = bytes < PIPE_FIRST_BYTES ? bytes : PIPE_FIRST_BYTES;
    if (first)
        memcpy(data, record->payload, first);
    for (uint64_t done = first, position = reader->position + 1; done < bytes; done += PIPE_REST_BYTES, position++) {
        const char *rest = pipe_line(reader->lines, position)->rest;
        if (bytes - done >= PIPE_REST_BYTES)
            memcpy(data + done, rest, PIPE_REST_BYTES);
        else
            memcpy(data + done, rest, bytes - done);
    }
}

/** Release a record; true when the writer was notified that there is space again (and should be woken). */
static inline bool pipe_take(struct pipe_reader *reader, uint32_t lines)
{
    reader->position += lines;
    if (reader->position - reader->published < SHM_PIPE_LINES / 4)
        return false;
    reader->published = reader->position;
    atomic_store_explicit(reader->consumed, reader->position, memory_order_release);
    return true;
}

#endif
