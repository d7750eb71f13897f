/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Output of a node's command, on its way into the journal.
 *
 * Consecutive whole lines with the same rank prefix ("[rank 3] ..." or "[rank 3 host] ...", written by `weft run`)
 * become one JOURNAL_OUTPUT, unchanged. A line of standard output that holds metrics or progress
 * (platform/metrics/read/lines.h) becomes a JOURNAL_METRICS instead, without rank, surrounding whitespace and newline.
 * Other JSON stays output; so do metrics whose names are all reserved for measured values. Each line of the file
 * $WEFT_METRICS becomes a JOURNAL_METRICS.
 *
 * An unfinished line is held back for half a second or until it has 64 KiB, and then output in pieces. On standard
 * output, a line that may become metrics is held back for as long as it takes: programs write to a pipe in blocks that
 * end anywhere in a line.
 *
 * Each call reads a bounded amount, and after NODE_OUTPUT_BURST bytes at most NODE_OUTPUT_RATE bytes per second are
 * read. A program that prints faster blocks in write().
 *
 * Values of secrets are replaced before anything is written (redactor.h). Bytes that may be the beginning of such a
 * value are held back until more arrive.
 *
 * Output that the disk does not accept is lost; a note reports how much once writing works again.
 */
#ifndef WEFT_PLATFORM_AGENT_OUTPUT_H
#define WEFT_PLATFORM_AGENT_OUTPUT_H

#include "platform/agent/internal/redactor.h"
#include "platform/agent/journal/file.h"
#include "platform/metrics/read/lines.h"

#define NODE_OUTPUT_RATE  ((uint64_t)4 << 20)  /**< bytes a second */
#define NODE_OUTPUT_BURST ((uint64_t)64 << 20) /**< bytes read without a limit on the rate */

struct node_stream {
    int descriptor;    /**< to read from; -1: ended */
    struct buffer raw; /**< the end of what was read: it may be the beginning of a secret's value */
    struct buffer line;
    uint32_t rank;     /**< of a line whose beginning is in the journal; else JOURNAL_NO_RANK */
    bool continued;    /**< there is such a line */
    uint64_t flush_at; /**< when an unfinished line is written; 0: there is none */
};

struct node_output {
    struct journal_writer *journal;
    struct node_stream streams[2]; /**< standard output, standard error; nonblocking */
    int metrics;                   /**< the file; -1: none */
    uint64_t metrics_read;         /**< bytes of it */
    uint64_t metrics_punched;      /**< whose disk space has been freed */
    bool metrics_more;             /**< the last turn left some unread */
    struct buffer metrics_line;
    uint64_t read_until;      /**< time (clock_now()) by which the rate allows what was read */
    bool hurried;             /**< no limit on the rate */
    uint64_t refused;         /**< bytes that could not be written */
    struct metric_line line;  /**< scratch space for parsing */
    struct redactor redactor; /**< the run's secrets; filled by the caller of open, freed by close */
};

/** Without streams yet. Creates the file of metrics in the node's `directory`; `user` (NULL: this one) owns it. */
void node_output_open(struct node_output *output, struct journal_writer *journal, const char *directory,
                      const char *user);

/** Read from stream 0 or 1; closes the descriptor at its end. Returns whether the journal has grown. */
bool node_output_read(struct node_output *output, int stream);

/** Whether the rate allows reading now. */
bool node_output_is_due(const struct node_output *output);

/** The command has ended: read the rest without a limit on the rate. */
void node_output_hurry(struct node_output *output);

/** Write unfinished lines that are due, and new lines of metrics. Returns whether the journal has grown. */
bool node_output_tick(struct node_output *output);

/** When to call it again (clock_now()). */
uint64_t node_output_next(const struct node_output *output);

/** Read the rest, for some seconds at most, and close. */
void node_output_close(struct node_output *output);

#endif
