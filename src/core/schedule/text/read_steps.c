/* SPDX-License-Identifier: Apache-2.0 */
/* From "receive  from 3 into output[3]  (after step 0 of lane 1)" to a step: the inverse of print.c. */
#include "core/schedule/text/internal/read_steps.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Chunk numbers have 32 bits, far more than real schedules need. */
#define CHUNK_MOST ((int64_t)1 << 30)

/* The search for a group is linear. */
#define GROUPS_MOST 1024u

/* Which buffers may be named: a bit for each. */
#define ANY_BUFFER 7u
#define TO_WRITE   6u
#define INPUT      1u
#define OUTPUT     2u
#define SCRATCH    4u

struct read_steps_reading {
    struct scanner *scanner;
    struct builder *builder;
    uint32_t lane;
    struct step step;
    bool has_part; /* the line gives the part */
};

static bool take_peer(struct read_steps_reading *reading, bool term)
{
    int64_t peer;
    int64_t last = (int64_t)reading->builder->schedule->ranks - 1;
    if (!(term ? scanner_term : scanner_number)(reading->scanner, "a peer", 0, last, &peer))
        return false;
    reading->step.peer = (uint32_t)peer;
    return true;
}

/* "input[4]", "output[0..3]", "nothing": a buffer and its chunks. `allowed`: a bit for each buffer. */
static bool take_range(struct read_steps_reading *reading, unsigned allowed, uint8_t *buffer, uint32_t *first,
                       int64_t *count)
{
    static const char *const names[] = {"input", "output", "scratch"};
    static const char *const wanted[] = {[INPUT] = "'input'",
                                         [OUTPUT] = "'output'",
                                         [SCRATCH] = "'scratch'",
                                         [TO_WRITE] = "'output' or 'scratch'",
                                         [ANY_BUFFER] = "'input', 'output' or 'scratch'"};
    struct scanner *scanner = reading->scanner;
    *count = 0;
    if (scanner_takes(scanner, "nothing"))
        return true;
    unsigned which = 0;
    while (which < 3 && !((allowed >> which & 1) && scanner_takes(scanner, names[which])))
        which++;
    if (which == 3)
        return scanner_complain(scanner, "%s should come before '%.24s'", wanted[allowed], scanner->at);
    int64_t from, to;
    if (!scanner_expects(scanner, "[") || !scanner_number(scanner, "a chunk", 0, CHUNK_MOST, &from))
        return false;
    to = from;
    if (scanner_takes(scanner, "..") && !scanner_number(scanner, "the last chunk", from - 1, CHUNK_MOST, &to))
        return false;
    if (!scanner_expects(scanner, "]"))
        return false;
    *buffer = (uint8_t)which;
    *first = (uint32_t)from;
    *count = to - from + 1;
    return true;
}

static bool take_source(struct read_steps_reading *reading, unsigned allowed, int64_t *count)
{
    reading->step.source = BUFFER_INPUT;
    return take_range(reading, allowed, &reading->step.source, &reading->step.source_chunk, count);
}

static bool take_target(struct read_steps_reading *reading, unsigned allowed, int64_t *count)
{
    reading->step.target = BUFFER_OUTPUT;
    return take_range(reading, allowed, &reading->step.target, &reading->step.target_chunk, count);
}

static bool set_chunks(struct read_steps_reading *reading, int64_t count)
{
    if (count > UINT16_MAX)
        return scanner_complain(reading->scanner, "a step has at most %d chunks", UINT16_MAX);
    reading->step.chunks = (uint16_t)count;
    return true;
}

static bool set_equal_chunks(struct read_steps_reading *reading, int64_t count, int64_t other)
{
    if (count != other)
        return scanner_complain(reading->scanner, "one range has %lld chunks, the other %lld", (long long)count,
                                (long long)other);
    return set_chunks(reading, count);
}

/* "all", "{0, 2, 4..7}" */
static bool take_group(struct read_steps_reading *reading, uint32_t *group)
{
    struct scanner *scanner = reading->scanner;
    uint32_t ranks = reading->builder->schedule->ranks, count = 0;
    if (scanner_takes(scanner, "all")) {
        *group = builder_group_of_all(reading->builder);
        return true;
    }
    if (!scanner_expects(scanner, "{"))
        return false;
    uint32_t *members = malloc(ranks * sizeof *members);
    if (!members) {
        reading->builder->exhausted = true;
        return true;
    }
    bool right = true;
    while (right && !scanner_takes(scanner, "}")) {
        int64_t least = count ? (int64_t)members[count - 1] + 1 : 0, from = least;
        right = (!count || scanner_expects(scanner, ",")) &&
                scanner_number(scanner, "a member (members ascend)", least, (int64_t)ranks - 1, &from);
        int64_t to = from;
        if (right && scanner_takes(scanner, ".."))
            right = scanner_number(scanner, "the last member", from, (int64_t)ranks - 1, &to);
        for (int64_t rank = from; right && rank <= to; rank++)
            members[count++] = (uint32_t)rank;
    }
    if (right)
        *group = builder_group(reading->builder, members, count);
    free(members);
    return right;
}

/* ---- one function a kind ---- */

static bool read_send(struct read_steps_reading *reading)
{
    int64_t count;
    return take_source(reading, ANY_BUFFER, &count) && set_chunks(reading, count) &&
           scanner_expects(reading->scanner, "to") && take_peer(reading, false);
}

static bool read_receive(struct read_steps_reading *reading)
{
    int64_t count;
    return scanner_expects(reading->scanner, "from") && take_peer(reading, false) &&
           scanner_expects(reading->scanner, "into") && take_target(reading, TO_WRITE, &count) &&
           set_chunks(reading, count);
}

/* "output[1] = from 2 + input[1]", or the other way round */
static bool read_receive_reduce(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    int64_t count, own = 0;
    if (!take_target(reading, TO_WRITE, &count) || !scanner_expects(scanner, "="))
        return false;
    if (scanner_takes(scanner, "from")) {
        reading->step.flags |= STEP_RECEIVED_FIRST;
        if (!take_peer(reading, true) || !scanner_expects(scanner, "+") || !take_source(reading, ANY_BUFFER, &own))
            return false;
    } else if (!take_source(reading, ANY_BUFFER, &own) || !scanner_expects(scanner, "+") ||
               !scanner_expects(scanner, "from") || !take_peer(reading, false)) {
        return false;
    }
    return set_equal_chunks(reading, count, own);
}

static bool read_copy(struct read_steps_reading *reading)
{
    int64_t count, other;
    return take_source(reading, ANY_BUFFER, &count) && scanner_expects(reading->scanner, "to") &&
           take_target(reading, TO_WRITE, &other) && set_equal_chunks(reading, count, other);
}

/* "output[2] = tree of scratch[0..6] by 2" */
static bool read_reduce(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    int64_t count, span, stride = 1;
    if (!take_target(reading, TO_WRITE, &count) || !scanner_expects(scanner, "=") ||
        !scanner_expects(scanner, "tree") || !scanner_expects(scanner, "of") || !take_source(reading, SCRATCH, &span))
        return false;
    if (scanner_takes(scanner, "by") && !scanner_number(scanner, "the distance of operands", 1, UINT16_MAX, &stride))
        return false;
    if (count != 1 || span < 1 || (span - 1) % stride != 0 || (span - 1) / stride >= UINT16_MAX)
        return scanner_complain(
            scanner, "a sum makes one chunk of 1 to %d others; the range names the first and the last", UINT16_MAX);
    reading->step.operands = (uint16_t)((span - 1) / stride + 1);
    reading->step.stride = (uint16_t)stride;
    reading->step.chunks = 1;
    return true;
}

static bool read_finish(struct read_steps_reading *reading)
{
    int64_t count;
    return take_target(reading, TO_WRITE, &count) && set_chunks(reading, count);
}

static bool read_expose(struct read_steps_reading *reading)
{
    int64_t count;
    return take_source(reading, INPUT, &count) && set_chunks(reading, count);
}

static bool read_signal(struct read_steps_reading *reading)
{
    return take_group(reading, &reading->step.peer);
}

/* "signal 1 of 2, lane 0 of all, 2 iterations back" */
static bool read_await(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    int64_t value, stride, lane, lag = 0;
    if (!scanner_expects(scanner, "signal") || !scanner_number(scanner, "a signal", 1, UINT16_MAX, &value) ||
        !scanner_expects(scanner, "of") ||
        !scanner_number(scanner, "the signals of an iteration", 1, UINT16_MAX, &stride) ||
        !scanner_expects(scanner, ",") || !scanner_expects(scanner, "lane") ||
        !scanner_number(scanner, "a lane", 0, SCHEDULE_LANES - 1, &lane) || !scanner_expects(scanner, "of") ||
        !take_group(reading, &reading->step.peer))
        return false;
    if (scanner_takes(scanner, ",") && (!scanner_number(scanner, "iterations back", 0, UINT8_MAX, &lag) ||
                                        !scanner_expects(scanner, "iterations") || !scanner_expects(scanner, "back")))
        return false;
    reading->step.value = (uint32_t)value;
    reading->step.stride = (uint16_t)stride;
    reading->step.operands = (uint16_t)lane;
    reading->step.value_lag = (uint8_t)lag;
    reading->has_part = true; /* value stays unset */
    return true;
}

static bool read_read(struct read_steps_reading *reading)
{
    int64_t count, other;
    return take_source(reading, INPUT, &count) && scanner_expects(reading->scanner, "of") &&
           take_peer(reading, false) && scanner_expects(reading->scanner, "into") &&
           take_target(reading, TO_WRITE, &other) && set_equal_chunks(reading, count, other);
}

/* "tree of input[1] of all" */
static bool take_tree(struct read_steps_reading *reading, int64_t *count)
{
    struct scanner *scanner = reading->scanner;
    return scanner_expects(scanner, "tree") && scanner_expects(scanner, "of") && take_source(reading, INPUT, count) &&
           scanner_expects(scanner, "of") && take_group(reading, &reading->step.peer);
}

static bool read_gather_reduce(struct read_steps_reading *reading)
{
    int64_t count, other;
    return take_target(reading, TO_WRITE, &count) && scanner_expects(reading->scanner, "=") &&
           take_tree(reading, &other) && set_equal_chunks(reading, count, other);
}

/* "to output[1] of all" */
static bool take_spread(struct read_steps_reading *reading, int64_t count, uint32_t *group)
{
    int64_t other;
    return scanner_expects(reading->scanner, "to") && take_target(reading, OUTPUT, &other) &&
           scanner_expects(reading->scanner, "of") && take_group(reading, group) &&
           set_equal_chunks(reading, count, other);
}

static bool read_spread(struct read_steps_reading *reading)
{
    int64_t count;
    return take_source(reading, ANY_BUFFER, &count) && take_spread(reading, count, &reading->step.peer);
}

static bool read_reduce_spread(struct read_steps_reading *reading)
{
    int64_t count;
    uint32_t group = 0;
    if (!take_tree(reading, &count) || !take_spread(reading, count, &group))
        return false;
    reading->step.operands = (uint16_t)group;
    return group <= UINT16_MAX || scanner_complain(reading->scanner, "there are too many groups");
}

static bool read_deliver(struct read_steps_reading *reading)
{
    int64_t count;
    return take_target(reading, OUTPUT, &count) && set_chunks(reading, count) &&
           scanner_expects(reading->scanner, "spread") && scanner_expects(reading->scanner, "by") &&
           take_peer(reading, false);
}

/*
 * "all, sum of block 0 to output", "all, sum of block 0 of the first 3 to output", "all, block 0 of each to output",
 * "all, block 0 of member 2 to output", "all"
 */
static bool read_exchange(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    int64_t block, member = 0;
    reading->has_part = true;
    reading->step.value = EXCHANGE_NOTHING;
    if (!take_group(reading, &reading->step.peer) || !scanner_takes(scanner, ","))
        return scanner->status == WEFT_OK;
    bool sums = scanner_takes(scanner, "sum");
    if ((sums && !scanner_expects(scanner, "of")) || !scanner_expects(scanner, "block") ||
        !scanner_number(scanner, "a block", 0, CHUNK_MOST, &block))
        return false;
    reading->step.value = EXCHANGE_REDUCE;
    if (sums && scanner_takes(scanner, "of") &&
        (!scanner_expects(scanner, "the") || !scanner_expects(scanner, "first") ||
         !scanner_number(scanner, "a number of members", 1, UINT16_MAX, &member)))
        return false;
    if (!sums) {
        if (!scanner_expects(scanner, "of"))
            return false;
        reading->step.value = EXCHANGE_GATHER;
        if (!scanner_takes(scanner, "each")) {
            if (!scanner_expects(scanner, "member") ||
                !scanner_number(scanner, "a member", 0, (int64_t)reading->builder->schedule->ranks - 1, &member) ||
                member > UINT16_MAX)
                return false;
            reading->step.value = EXCHANGE_TAKE;
        }
    }
    reading->step.source_chunk = (uint32_t)block;
    reading->step.operands = (uint16_t)member;
    return scanner_expects(scanner, "to") && scanner_expects(scanner, "output");
}

static bool (*const readers[STEP_KINDS])(struct read_steps_reading *) = {
    [STEP_SEND] = read_send,
    [STEP_RECEIVE] = read_receive,
    [STEP_RECEIVE_REDUCE] = read_receive_reduce,
    [STEP_COPY] = read_copy,
    [STEP_REDUCE] = read_reduce,
    [STEP_FINISH] = read_finish,
    [STEP_EXPOSE] = read_expose,
    [STEP_SIGNAL] = read_signal,
    [STEP_AWAIT] = read_await,
    [STEP_READ] = read_read,
    [STEP_GATHER_REDUCE] = read_gather_reduce,
    [STEP_SPREAD] = read_spread,
    [STEP_REDUCE_SPREAD] = read_reduce_spread,
    [STEP_DELIVER] = read_deliver,
    [STEP_EXCHANGE] = read_exchange,
};

/* ---- suffixes ---- */

/* "(after step 3 of lane 1, 2 iterations back)", "(after all of lane 1)", "(after lane 1 so far)" */
static bool take_wait(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    int64_t number = 0, lane, lag = 0;
    if (!scanner_takes(scanner, "("))
        return true;
    bool all = false, so_far = false;
    if (!scanner_expects(scanner, "after"))
        return false;
    if (scanner_takes(scanner, "step")) {
        if (!scanner_number(scanner, "a step", 0, BUILDER_ALL - 2, &number) || !scanner_expects(scanner, "of"))
            return false;
    } else if (scanner_takes(scanner, "all")) {
        all = true;
        if (!scanner_expects(scanner, "of"))
            return false;
    } else {
        so_far = true;
    }
    if (!scanner_expects(scanner, "lane") || !scanner_number(scanner, "a lane", 0, SCHEDULE_LANES - 1, &lane) ||
        (so_far && (!scanner_expects(scanner, "so") || !scanner_expects(scanner, "far"))))
        return false;
    while (scanner_takes(scanner, ",")) {
        if (scanner_takes(scanner, "where")) {
            if (!scanner_expects(scanner, "staged"))
                return false;
            reading->step.flags |= STEP_WHERE_STAGED;
            break;
        }
        if (!scanner_number(scanner, "iterations back", 0, UINT8_MAX, &lag) ||
            !(scanner_takes(scanner, "iterations") || scanner_expects(scanner, "iteration")) ||
            !scanner_expects(scanner, "back"))
            return false;
    }
    struct dependency after = {.lane = (uint8_t)lane, .lag = (uint8_t)lag, .steps = (uint16_t)(number + 1)};
    if (all)
        after.steps = BUILDER_ALL;
    if (so_far)
        after.steps = builder_now(reading->builder, (uint32_t)lane).steps;
    if (after.steps) {
        reading->step.wait_lane = after.lane;
        reading->step.wait_lag = after.lag;
        reading->step.wait_steps = after.steps;
    } else {
        reading->step.flags &= (uint8_t)~STEP_WHERE_STAGED;
    }
    return scanner_expects(scanner, ")");
}

static bool take_trailers(struct read_steps_reading *reading)
{
    struct scanner *scanner = reading->scanner;
    while (scanner_takes(scanner, ",")) {
        int64_t number;
        if (scanner_takes(scanner, "finished")) {
            reading->step.flags |= STEP_FINISHES;
        } else if (scanner_takes(scanner, "channel")) {
            if (!scanner_number(scanner, "a channel", 0, SCHEDULE_CHANNELS - 1, &number))
                return false;
            reading->step.channel = (uint8_t)number;
        } else if (scanner_expects(scanner, "part")) {
            if (!scanner_number(scanner, "a part", 0, CHUNK_MOST, &number))
                return false;
            reading->step.value = (uint32_t)number;
            reading->has_part = true;
        } else {
            return false;
        }
    }
    return take_wait(reading) &&
           (scanner_ends(scanner) || scanner_complain(scanner, "'%.24s' follows a step", scanner->at));
}

/* The part of the first chunk, where the line may omit it: that of the chunk of a user's buffer. */
static uint32_t read_steps_part_of(const struct schedule *schedule, const struct step *step)
{
    bool reads = step->kind != STEP_RECEIVE && step->kind != STEP_FINISH && step->kind != STEP_DELIVER;
    bool writes = step->kind != STEP_SEND && step->kind != STEP_EXPOSE;
    if (!step->chunks)
        return 0;
    if (writes && step->target == BUFFER_OUTPUT)
        return step->target_chunk % schedule->parts;
    if (reads && step->source != BUFFER_SCRATCH)
        return step->source_chunk % schedule->parts;
    return 0;
}

static bool take_kind(struct scanner *scanner, struct step *step, bool *holds)
{
    char word[SCANNER_NAME];
    const char *names[STEP_KINDS + 1];
    *holds = false;
    if (!scanner_word(scanner, word, sizeof word))
        return scanner_complain(scanner, "a step begins with its kind, not with '%.24s'", scanner->at);
    for (unsigned kind = 0; kind < STEP_KINDS; kind++) {
        names[kind] = step_kind_name((enum step_kind)kind);
        if (strcmp(word, names[kind]) == 0) {
            step->kind = (uint8_t)kind;
            return true;
        }
    }
    *holds = strcmp(word, "hold") == 0;
    if (*holds) /* an empty copy, which only waits */
        *step = (struct step){.kind = STEP_COPY, .source = BUFFER_SCRATCH, .target = BUFFER_SCRATCH};
    names[STEP_KINDS] = "hold";
    const char *nearest = *holds ? NULL : text_nearest(word, names, STEP_KINDS + 1);
    return *holds || scanner_complain(scanner, "there is no step '%s'%s%s%s", word, nearest ? "; did you mean '" : "",
                                      nearest ? nearest : "", nearest ? "'?" : "");
}

bool schedule_text_step(struct scanner *scanner, struct builder *builder, uint32_t lane)
{
    struct read_steps_reading reading = {.scanner = scanner, .builder = builder, .lane = lane};
    bool holds;
    if (!take_kind(scanner, &reading.step, &holds) || (!holds && !readers[reading.step.kind](&reading)) ||
        !take_trailers(&reading))
        return false;
    if (!reading.has_part)
        reading.step.value =
            holds || reading.step.kind == STEP_SIGNAL ? 0 : read_steps_part_of(builder->schedule, &reading.step);
    builder_add(builder, lane, reading.step);
    if (builder->schedule->group_count > GROUPS_MOST)
        return scanner_complain(scanner, "the schedule of rank %u addresses more than %u different groups",
                                builder->schedule->rank, GROUPS_MOST);
    return !builder->exhausted ||
           scanner_complain(scanner,
                            "the schedule of rank %u has more steps or groups than fit into memory or a schedule",
                            builder->schedule->rank);
}
