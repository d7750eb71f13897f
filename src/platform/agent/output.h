/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a node's command prints, on its way into the journal.
 *
 * Whole lines that follow each other and name the same rank ("[rank 3] ..." or "[rank 3 host] ...", as `weft run`
 * writes them) become one JOURNAL_OUTPUT, as they are. A line of standard output that is metrics or reports progress
 * (platform/metrics/read/lines.h), with or without a rank or blanks before it, becomes a JOURNAL_METRICS without these and
 * without its newline, and no output; other JSON, as programs log it, stays output, and so do metrics whose names are
 * all kept for what is measured. Each line of the file that WEFT_METRICS names becomes a JOURNAL_METRICS.
 *
 * A line without an end waits for it, half a second after its first bytes or until it has 64 KiB, and is then output in
 * pieces. On standard output one that may become metrics waits for as long as it takes: programs whose output goes to a
 * pipe write it in blocks that end anywhere in a line.
 *
 * A program that prints a lot does not keep the agent or the server busy: each call reads a bounded piece, and after
 * NODE_OUTPUT_BURST bytes only NODE_OUTPUT_RATE bytes a second are read. A program that prints faster waits in its
 * write().
 *
 * Values of secrets are replaced before anything is written (redactor.h). Bytes that may be the beginning of such a
 * value wait for the next ones.
 *
 * Output that the disk does not take is lost, and told of when it takes more.
 */
#ifndef WEFT_PLATFORM_AGENT_OUTPUT_H
#define WEFT_PLATFORM_AGENT_OUTPUT_H

#include "platform/agent/internal/redactor.h"
#include "platform/agent/journal/file.h"
#include "platform/metrics/read/lines.h"

#define NODE_OUTPUT_RATE  ((uint64_t)4 << 20)  /**< bytes a second */
#define NODE_OUTPUT_BURST ((uint64_t)64 << 20) /**< bytes that are read at any rate */

struct node_stream {
    int descriptor;    /**< to read from; -1: ended */
    struct buffer raw; /**< the end of what was read, where it may be the beginning of a secret's value */
    struct buffer line;
    uint32_t rank;     /**< of a line whose beginning is in the journal already; else JOURNAL_NO_RANK */
    bool continued;    /**< there is such a line */
    uint64_t flush_at; /**< when a line without an end is taken as it is; 0: there is none */
};

struct node_output {
    struct journal_writer *journal;
    struct node_stream streams[2]; /**< standard output, standard error; without blocking */
    int metrics;                   /**< the file; -1: none */
    uint64_t metrics_read;         /**< bytes of it */
    uint64_t metrics_punched;      /**< that the disk has back */
    bool metrics_more;             /**< the last turn has not taken all there was */
    struct buffer metrics_line;
    uint64_t read_until;      /**< when what was read so far would have been read at the rate, as clock_now() */
    bool hurried;             /**< read at any rate */
    uint64_t refused;         /**< bytes that the disk has not taken */
    struct metric_line line;  /**< room for reading one */
    struct redactor redactor; /**< of the secrets of the run; filled by the caller of open, freed by close */
};

/** With no streams yet. `directory` is the node's; the file of metrics is made there, for `user` (NULL: this one) too. */
void node_output_open(struct node_output *output, struct journal_writer *journal, const char *directory,
                      const char *user);

/** Read what has come on stream 0 or 1; at its end the descriptor is closed. True if the journal has more now. */
bool node_output_read(struct node_output *output, int stream);

/** Whether the streams may be read now: not while they are ahead of the rate. */
bool node_output_is_due(const struct node_output *output);

/** The command has ended: read the rest without a limit on the rate. */
void node_output_hurry(struct node_output *output);

/** Take lines that have waited long enough, and new lines of metrics. True if the journal has more now. */
bool node_output_tick(struct node_output *output);

/** When to call it again, as clock_now(). */
uint64_t node_output_next(const struct node_output *output);

/** Take what is left, for some seconds at most, and close. */
void node_output_close(struct node_output *output);

#endif
