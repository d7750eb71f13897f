/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A node's journal on disk: a directory of segments, each a file of records (journal.h) one behind the other, named for
 * the sequence of its first one ("00000000000000000001.journal"). One process writes; any number read meanwhile.
 *
 * What is appended is in the file when journal_append() returns: the end of the process loses nothing. An end of the
 * machine loses what came after the last journal_sync().
 *
 * The journal stays small: where the output in it exceeds its limit, that of the oldest segment is dropped. The segment
 * is then replaced by one of its other records, after a JOURNAL_DROPPED at the journal's end has told of it. Records of
 * other kinds are never dropped.
 *
 * A full disk: output is refused with an error, other records have a reserve of JOURNAL_RESERVE_BYTES that is given up
 * for them.
 *
 * A writer that was killed within a write, or a power cut, leaves a torn tail: a reader stops before it, and the next
 * writer cuts off the last segment where its records end. Bytes before that which are no record are damage: DATA,
 * naming segment and offset.
 */
#ifndef WEFT_PLATFORM_AGENT_JOURNAL_FILE_H
#define WEFT_PLATFORM_AGENT_JOURNAL_FILE_H

#include "base/file/file.h"
#include "platform/agent/journal/journal.h"

#define JOURNAL_RESERVE_BYTES ((size_t)64 << 10)

/** All zero: the values in brackets. */
struct journal_limits {
    uint64_t segment_bytes; /**< after which another segment is begun (4 MiB) */
    uint64_t output_bytes;  /**< of output in closed segments that are kept (256 MiB) */
};

/* ---- writing ---- */

struct journal_segment {
    uint64_t first;          /**< sequence that it is named for */
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
 * Open the journal in `directory`, which is made if it is missing, for appending; a torn tail is cut off. That nobody else
 * writes is the caller's to see to. Errors: SYSTEM; DATA for a damaged journal. journal_writer_close() ends it.
 */
weft_status journal_writer_open(struct journal_writer *writer, const char *directory,
                                const struct journal_limits *limits, struct error *error);

/**
 * Append `record`: its sequence is set to the next one, and its time to now, or kept where it is in the past. Errors:
 * SYSTEM (nothing was appended, another try may succeed); STATE behind a node's last record.
 */
weft_status journal_append(struct journal_writer *writer, struct journal_record *record, struct error *error);

/** Have the disk keep what was appended. */
weft_status journal_sync(struct journal_writer *writer, struct error *error);

/** Harmless on a zeroed struct, and twice. */
void journal_writer_close(struct journal_writer *writer);

/* ---- reading ---- */

/** The first sequences of all segments in `directory`, rising: by them they are named; `*firsts` is to be freed. No
 * directory: none. */
weft_status journal_segments(const char *directory, uint64_t **firsts, size_t *count, struct error *error);
weft_status journal_segment_path(char path[FILE_PATH_BYTES], const char *directory, uint64_t first,
                                 struct error *error);

struct journal_reader {
    char directory[FILE_PATH_BYTES];
    uint64_t after; /**< sequence of the last record that was given out */
    uint64_t first; /**< the segment that is read; 0: none yet */
    int file;
    uint64_t offset; /**< of the next record in it */
    uint8_t *bytes;  /**< some of it, from `begin` on */
    uint64_t begin;
    size_t size;
    size_t room; /**< that `bytes` has */
};

/** Begin to read behind the record `after` (0: from the first on). Nothing need be there yet. Errors: MEMORY, ARGUMENT.
 */
weft_status journal_reader_open(struct journal_reader *reader, const char *directory, uint64_t after,
                                struct error *error);

/**
 * The next record, if there is one by now (`*found`): valid until the next call on `reader`. The sequences of dropped
 * records are missing. Errors: SYSTEM; DATA where the journal is damaged.
 */
weft_status journal_reader_next(struct journal_reader *reader, struct journal_record *record, bool *found,
                                struct error *error);

/** Harmless on a zeroed struct, and twice. */
void journal_reader_close(struct journal_reader *reader);

#endif
