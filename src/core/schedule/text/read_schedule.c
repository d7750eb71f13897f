/* SPDX-License-Identifier: Apache-2.0 */
/* From a parsed text to schedules: the sections, loops and conditions of one rank, step by step. */
#include "core/schedule/text/internal/read_steps.h"
#include "core/schedule/text/internal/reader.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <ctype.h>
#include <stdlib.h>

/* A schedule of more lines, with loops unrolled, is a mistake. */
#define BUDGET 200000u

struct writing {
    const struct schedule_text *written;
    struct builder *builder;
    struct scanner scanner; /* its variables are those in force */
    uint32_t lane;          /* SCHEDULE_LANES: none yet in this section */
    uint32_t budget;        /* lines left */
    bool told;              /* a section is this rank's */
};

static struct scanner *scan(struct writing *writing, const struct line *line)
{
    writing->scanner.at = line->text;
    writing->scanner.line = line->number;
    return &writing->scanner;
}

static bool ends(struct scanner *scanner)
{
    return scanner_ends(scanner) || scanner_complain(scanner, "'%.24s' is one word too many", scanner->at);
}

static bool spend(struct writing *writing)
{
    if (writing->budget--)
        return true;
    writing->budget = 0;
    return scanner_complain(&writing->scanner, "the schedule of rank %u has more than %u lines with its loops unrolled",
                            writing->builder->schedule->rank, BUDGET);
}

static bool read_schedule_write_lines(struct writing *writing, uint32_t from, uint32_t to);

/* "for k in 0..ranks-2" */
static bool write_loop(struct writing *writing, uint32_t at)
{
    const struct line *line = &writing->written->lines[at];
    struct scanner *scanner = scan(writing, line);
    char name[SCANNER_NAME + 1];
    int64_t first, last;
    if (!scanner_word(scanner, name, sizeof name))
        return scanner_complain(scanner, "a loop needs a variable: 'for k in 0..ranks-2'");
    if (!scanner_expects(scanner, "in") || !scanner_number(scanner, "the beginning", INT32_MIN, INT32_MAX, &first) ||
        !scanner_expects(scanner, "..") || !scanner_number(scanner, "the end", INT32_MIN, INT32_MAX, &last) ||
        !ends(scanner) || !scanner_define(scanner, name, first))
        return false;
    struct scanner_variable *variable = &scanner->variables[scanner->count - 1];
    bool right = true;
    for (; right && variable->value <= last;
         variable->value++) /* an iteration counts as a line, so that empty loops are limited, too */
        right = spend(writing) && read_schedule_write_lines(writing, at + 1, line->match);
    scanner_forget(scanner);
    return right;
}

/* "lane 0" */
static bool write_lane(struct writing *writing, struct scanner *scanner)
{
    int64_t lane;
    if (!scanner_number(scanner, "a lane", 0, SCHEDULE_LANES - 1, &lane) || !ends(scanner))
        return false;
    writing->lane = (uint32_t)lane;
    return true;
}

static bool write_scratch(struct writing *writing, struct scanner *scanner)
{
    int64_t chunks;
    if (!scanner_number(scanner, "the chunks of scratch", 0, 1 << 24, &chunks) || !ends(scanner))
        return false;
    builder_scratch(writing->builder, (uint32_t)chunks);
    return true;
}

/* A step, which may have its number before it. */
static bool write_step(struct writing *writing, struct scanner *scanner)
{
    int64_t number;
    if (writing->lane == SCHEDULE_LANES)
        return scanner_complain(scanner, "steps belong to a lane: 'lane 0' comes first");
    if (isdigit((unsigned char)*scanner->at)) {
        if (!scanner_number(scanner, "a step's number", 0, INT32_MAX, &number))
            return false;
        if (number != builder_now(writing->builder, writing->lane).steps)
            return scanner_complain(scanner, "this is step %u of lane %u, not %lld",
                                    builder_now(writing->builder, writing->lane).steps, writing->lane,
                                    (long long)number);
    }
    return schedule_text_step(scanner, writing->builder, writing->lane);
}

static bool read_schedule_write_lines(struct writing *writing, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct line *line = &writing->written->lines[i];
        struct scanner *scanner = scan(writing, line);
        int64_t condition = 1;
        bool right = true;
        if (!spend(writing))
            return false;
        switch (line->kind) {
        case LINE_LANE:
            right = write_lane(writing, scanner);
            break;
        case LINE_SCRATCH:
            right = write_scratch(writing, scanner);
            break;
        case LINE_FOR:
            right = write_loop(writing, i);
            i = line->match;
            break;
        case LINE_IF:
            right = scanner_number(scanner, "a condition", INT64_MIN / 4, INT64_MAX / 4, &condition) && ends(scanner);
            i = right && !condition ? line->match : i;
            break;
        case LINE_STEP:
            right = write_step(writing, scanner);
            break;
        default: /* the end of a condition that held */
            break;
        }
        if (!right)
            return false;
    }
    return true;
}

/* Whether a section is this rank's: "rank 3", "rank 0..3", "rank *". */
static bool is_mine(struct writing *writing, const struct line *line, bool *mine)
{
    struct scanner *scanner = scan(writing, line);
    int64_t first, last, rank = writing->builder->schedule->rank;
    *mine = true;
    if (scanner_takes(scanner, "*"))
        return ends(scanner);
    if (!scanner_number(scanner, "a rank", INT32_MIN, INT32_MAX, &first))
        return false;
    last = first;
    if (scanner_takes(scanner, "..") && !scanner_number(scanner, "the last rank", INT32_MIN, INT32_MAX, &last))
        return false;
    *mine = rank >= first && rank <= last;
    if (first < 0 || last >= (int64_t)writing->builder->schedule->ranks)
        return scanner_complain(scanner, "a section is for ranks %lld to %lld; there are %u", (long long)first,
                                (long long)last, writing->builder->schedule->ranks);
    return ends(scanner);
}

static bool read_schedule_write_frame(struct writing *writing)
{
    const struct schedule_text *written = writing->written;
    struct schedule *schedule = writing->builder->schedule;
    int64_t parts = 1;
    if (written->parts) {
        struct scanner *scanner = scan(writing, written->parts);
        if (!scanner_number(scanner, "the number of parts", 1, 65536, &parts) || !ends(scanner))
            return false;
    }
    schedule->parts = (uint32_t)parts;
    schedule->segment_bytes = written->segment_bytes;
    schedule->slots = written->slots;
    schedule->most_block_bytes = written->most_block_bytes;
    schedule->canonical = written->canonical || !collective_reduces(written->collective);
    writing->builder->text_hash = written->hash;
    return scanner_define(&writing->scanner, "parts", parts);
}

static bool write_schedule(struct writing *writing)
{
    const struct schedule_text *written = writing->written;
    if (!read_schedule_write_frame(writing))
        return false;
    for (uint32_t i = written->first_section; i < written->line_count; i = written->lines[i].match) {
        bool mine;
        if (!is_mine(writing, &written->lines[i], &mine))
            return false;
        if (!mine)
            continue;
        writing->told = true;
        writing->lane = SCHEDULE_LANES;
        if (!read_schedule_write_lines(writing, i + 1, written->lines[i].match))
            return false;
    }
    return true;
}

/* The reason why the text does not fit this shape, or WEFT_OK. */
static weft_status read_schedule_check_shape(const struct schedule_text *written, const struct schedule_shape *shape,
                                             struct error *error)
{
    const char *reason = NULL;
    if (shape->collective != written->collective)
        reason = "it is for another collective";
    else if (shape->ranks > WRITTEN_RANKS_MOST || (written->ranks.given && shape->ranks != written->ranks.number))
        reason = "it is for another number of ranks";
    else if (written->root.given && shape->root != written->root.number)
        reason = "it is for another root";
    else if (written->peer.given && shape->peer != written->peer.number)
        reason = "it is for another receiver";
    else if (shape->root >= shape->ranks || shape->peer >= shape->ranks ||
             (shape->collective == COLLECTIVE_SENDRECEIVE && shape->root == shape->peer))
        reason = "its root or peer is not a rank, or a message has the same rank at both ends";
    else if (shape->collective == COLLECTIVE_ALLTOALL && shape->in_place != written->in_place)
        reason = shape->in_place ? "it is not for an all-to-all in place" : "it is for an all-to-all in place only";
    else if (shape->reproducible && collective_reduces(shape->collective) && !written->canonical)
        reason = "the communicator is marked reproducible, and it does not keep the canonical order of sums";
    if (!reason)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "the schedule %s of %s (%s) cannot do this %s over %u ranks: %s",
                     written->algorithm, collective_name(written->collective), written->name,
                     collective_name(shape->collective), shape->ranks, reason);
}

weft_status schedule_text_of_rank(const struct schedule_text *written, const struct schedule_shape *shape,
                                  uint32_t rank, struct schedule **schedule, struct error *error)
{
    struct error own = {0};
    weft_status status = read_schedule_check_shape(written, shape, error);
    struct builder builder;
    if (status == WEFT_OK)
        status = builder_open(&builder, shape, rank, written->algorithm, error);
    if (status != WEFT_OK)
        return status;
    struct writing writing = {
        .written = written,
        .builder = &builder,
        .scanner = {.file = written->name, .error = error ? error : &own},
        .budget = BUDGET,
    };
    const struct scanner_variable known[] = {
        {"rank", rank}, {"ranks", shape->ranks}, {"root", shape->root}, {"peer", shape->peer}};
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        scanner_define(&writing.scanner, known[i].name, known[i].value);
    write_schedule(&writing);
    if (writing.scanner.status == WEFT_OK && !writing.told)
        writing.scanner.status = error_set(writing.scanner.error, WEFT_ERROR_DATA,
                                           "%s has no section for rank %u of %u", written->name, rank, shape->ranks);
    if (writing.scanner.status != WEFT_OK) {
        builder_discard(&builder);
        return writing.scanner.status;
    }
    return builder_close(&builder, schedule, error);
}

weft_status schedule_text_prove(const struct schedule_text *written, const struct schedule_shape *shape,
                                struct schedule ***schedules, struct error *error)
{
    weft_status status = read_schedule_check_shape(written, shape, error);
    if (status != WEFT_OK)
        return status;
    struct schedule **all = calloc(shape->ranks, sizeof *all);
    if (!all)
        return error_memory(error, shape->ranks * sizeof *all, "the schedules of all ranks");
    for (uint32_t rank = 0; rank < shape->ranks && status == WEFT_OK; rank++)
        status = schedule_text_of_rank(written, shape, rank, &all[rank], error);
    if (status == WEFT_OK)
        status = schedule_verify(all, shape->ranks, shape, error);
    if (status == WEFT_OK)
        *schedules = all;
    else
        sweep_free(all, shape->ranks);
    return status;
}
