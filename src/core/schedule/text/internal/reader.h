/* SPDX-License-Identifier: Apache-2.0 */
/** A parsed schedule text: read.c makes it, read_schedule.c makes schedules from it. */
#ifndef WEFT_CORE_SCHEDULE_TEXT_INTERNAL_READER_H
#define WEFT_CORE_SCHEDULE_TEXT_INTERNAL_READER_H

#include "core/schedule/text/internal/scanner.h"
#include "core/schedule/text/read.h"

/** A larger number of ranks is a mistake. */
#define WRITTEN_RANKS_MOST 4096

#define WRITTEN_ALGORITHM_BYTES 48

enum line_kind { LINE_HEADER, LINE_SECTION, LINE_LANE, LINE_SCRATCH, LINE_FOR, LINE_IF, LINE_END, LINE_STEP };

struct line {
    const char *text; /**< after the word that determines its kind; of a step, all of it */
    uint32_t number;  /**< in the file */
    enum line_kind kind;
    uint32_t match; /**< of a section: the next one; of a loop or condition: its end */
};

/** A number that the text fixes, or any. */
struct fixed {
    bool given;
    uint32_t number;
};

struct schedule_text {
    char *text, *name;
    struct line *lines;
    uint32_t line_count, first_section;
    uint64_t hash;
    enum collective collective;
    char algorithm[WRITTEN_ALGORITHM_BYTES];
    struct fixed ranks, root, peer;
    const struct line *parts; /**< NULL: 1 */
    uint64_t segment_bytes, most_block_bytes;
    uint32_t slots;
    bool canonical, in_place;
};

#endif
