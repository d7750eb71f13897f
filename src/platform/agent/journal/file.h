/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A node's journal on disk: a directory of segments. A segment is a file of consecutive records (journal.h), named for
 * the sequence of its first one ("00000000000000000001.journal"). One process writes; any number read concurrently.
 *
 * journal_append() returns after the write to the file, so the end of the process loses nothing. A crash of the host
 * loses what came after the last journal_sync().
 *
 * If output exceeds its limit, the output of the oldest segment is dropped: a JOURNAL_DROPPED record is appended, then
 * the segment is replaced by one with its other records. Records of other kinds are never dropped.
 *
 * On a full disk, appending output fails. Other records use a reserve of JOURNAL_RESERVE_BYTES.
 *
 * A writer killed during a write, or a power cut, leaves a torn tail. Readers stop before it, and the next writer
 * truncates the last segment there. Invalid bytes anywhere else are damage: DATA, naming segment and offset.
 */
#ifndef WEFT_PLATFORM_AGENT_JOURNAL_FILE_H
#define WEFT_PLATFORM_AGENT_JOURNAL_FILE_H

#include "base/file/file.h"
#include "platform/agent/journal/journal.h"

#define JOURNAL_RESERVE_BYTES ((size_t)64 << 10)

/** Zero means the default in parentheses. */
struct journal_limits {
    uint64_t segment_bytes; /**< size at which the next segment begins (4 MiB) */
    uint64_t output_bytes;  /**< output kept in closed segments (256 MiB) */
};

/* ---- writing ---- */

struct journal_segment {
    uint64_t first;          /**< its first sequence, and its name */
    uint64_t output_bytes;   /**< of text of JOURNAL_OUTPUT in it */
    uint64_t output_records; /**< and how many; their sequences are in [output_first, output_last] */
    uint64_t output_first, output_last;
};

struct journal_writer {
    char directory[FILE_PATH_BYTES];
    struct journal_limits limits;
    struct journal_segment *segments; /**< the last one is written to */
    size_t count, room;
    int file;             /**< the last segment */
    uint64_t bytes;       /**< good ones in it */
    uint64_t next;        /**< sequence of the next record */
    uint64_t kept;        /**< bytes of output in all segments */
    bool ended;           /**< a node's last record is in it */
    uint64_t time;        /**< of the last record; 0: there is none */
    bool reserve;         /**< there is a reserve */
    struct buffer record; /**< reused */
};

/**
 * Open the journal in `directory`, created if missing, for appending, and truncate a torn tail. The caller ensures that
 * there is one writer. Errors: SYSTEM; DATA for a damaged journal.
 */
weft_status journal_writer_open(struct journal_writer *writer, const char *directory,
                                const struct journal_limits *limits, struct error *error);

/**
 * Append `record`. Sets its sequence, and its time to now unless it is in the past. Errors: SYSTEM (nothing was
 * appended; another attempt may succeed); STATE after a node's last record.
 */
weft_status journal_append(struct journal_writer *writer, struct journal_record *record, struct error *error);

/**
 * Append a record of another journal of the same node, with its sequence and time: what came before is here or was dropped
 * there, so sequences may be missing. One that is here already is left out. JOURNAL_DROPPED drops the output of the same
 * segments here. Errors: as journal_append().
 */
weft_status journal_append_copy(struct journal_writer *writer, const struct journal_record *record,
                                struct error *error);

/** Sync what was appended to disk. */
weft_status journal_sync(struct journal_writer *writer, struct error *error);

/** Harmless on a zeroed struct, and twice. */
void journal_writer_close(struct journal_writer *writer);

/* ---- reading ---- */

/** The first sequences of all segments in `directory`, increasing. The caller frees `*firsts`. No directory: none. */
weft_status journal_segments(const char *directory, uint64_t **firsts, size_t *count, struct error *error);
weft_status journal_segment_path(char path[FILE_PATH_BYTES], const char *directory, uint64_t first,
                                 struct error *error);

struct journal_reader {
    char directory[FILE_PATH_BYTES];
    uint64_t after; /**< sequence of the last record returned */
    uint64_t first; /**< the current segment; 0: none yet */
    int file;
    uint64_t offset; /**< of the next record in it */
    uint8_t *bytes;  /**< part of it, from `begin` on */
    uint64_t begin;
    size_t size;
    size_t room; /**< allocated for `bytes` */
};

/** Begin to read after the record `after` (0: from the first). The journal need not exist yet. Errors: MEMORY, ARGUMENT.
 */
weft_status journal_reader_open(struct journal_reader *reader, const char *directory, uint64_t after,
                                struct error *error);

/**
 * The next record, if there is one (`*found`); valid until the next call on `reader`. Sequences of dropped records are
 * missing. Errors: SYSTEM; DATA if the journal is damaged.
 */
weft_status journal_reader_next(struct journal_reader *reader, struct journal_record *record, bool *found,
                                struct error *error);

/** Harmless on a zeroed struct, and twice. */
void journal_reader_close(struct journal_reader *reader);

#endif
