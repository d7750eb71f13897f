/* SPDX-License-Identifier: Apache-2.0 */
/** The state of the verifier's machine, and the operations of its steps. See machine.h. */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_STATE_H
#define WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_STATE_H

#include "core/schedule/verify/internal/machine.h"

#define VERIFY_NONE UINT32_MAX

/** Chunks of all ranks' buffers, in one iteration, that one proof may have. */
#define VERIFY_CHUNKS_MOST (1u << 24)

/*
 * The symbolic content of a chunk: a sum over ranks of one *column*, the chunks of all ranks' inputs with one number,
 * part and iteration. So there are few expressions, whatever the number of chunks.
 */
struct value {
    symbol sum;      /* an expression over ranks: leaf 1 + r is rank r; SYMBOL_NONE: never written */
    uint32_t column; /* verify_column() */
};

/* One chunk's place. Clock 0 is "before everything". */
struct cell {
    struct value value;
    uint32_t part;                      /* the chunk whose size the value has */
    uint32_t write_thread, write_clock; /* the last write */
    uint32_t reads;                     /* those since: list of struct access, ended by VERIFY_NONE */
    uint32_t writer;                    /* the step that wrote it, among all ranks'; machine.step_count: none */
};

struct access {
    uint32_t thread, clock, next;
};

enum thread_state { THREAD_READY, THREAD_WAITS_FOR_MATCH, THREAD_PUBLISHED };

/* One lane of one rank. */
struct thread {
    uint32_t rank, lane;
    const struct step *steps;    /* of the lane */
    uint32_t length, first_step; /* how many they are; the number of the first among all ranks' steps */
    uint32_t iteration, at;      /* the step that is next or under way, within the lane */
    uint32_t clock;              /* steps completed, over all iterations */
    enum thread_state state;
    uint32_t next;           /* in a channel's queue */
    uint32_t signals;        /* made so far */
    uint32_t looked;         /* members whose signals the present await has seen already */
    uint32_t snapshot_slots; /* first of this thread's snapshots */
    uint32_t signal_slots;   /* first of the snapshots at its signals */
};

/* Messages from one rank to another on one channel: either sends wait here or receives. */
struct verify_channel {
    uint32_t head, tail; /* threads, in order of begin */
    uint16_t epoch;      /* 0: never used */
    bool holds_sends;
    uint32_t last_thread[2], last_clock[2]; /* the thread that began the last send or receive; its end */
};

/* The cells of a buffer: chunk c of iteration s is at base + s x stride + c. */
struct region {
    uint32_t base, stride;
};

enum region_kind { REGION_INPUT, REGION_OUTPUT, REGION_SCRATCH, REGION_EXPOSED, REGION_SPREAD, REGIONS };

/** Steps that a lane has completed; small, so that clocks are compared many at a time. */
typedef int16_t tick;
#define TICK_MOST INT16_MAX

/*
 * A vector clock holds the progress, as its thread can prove it, of the threads in its *scope*: all of them (wide), or
 * (narrow) only those of its rank, or of its node where shared memory is used. Memory is shared only within a scope, so
 * narrow clocks, which are thousands of times smaller among a thousand ranks, miss only order that arises through other
 * scopes. Their proofs hold, and their complaints are checked again with wide clocks.
 *
 *     [0, scope_threads)        steps completed, of each thread in the scope
 *     + [0, scope_ranks)        whether a signal of that rank in the scope has been awaited
 *     + [0, ranks)              in a barrier: whether that rank has begun
 */
struct scopes {
    bool narrow, shm;
    uint32_t *of_rank;          /* each rank's scope */
    uint32_t *of_thread;        /* each thread's scope, its rank's */
    uint32_t *component;        /* each thread's component */
    uint32_t *seat;             /* each rank's number in its scope */
    uint32_t threads, ranks;    /* of the largest */
    uint32_t begun, components; /* the first component of "has begun"; the number of components */
};

/* Groups of all schedules, equal ones under one number. */
struct verify_groups {
    uint32_t *base;   /* where a rank's groups begin in `number` */
    uint32_t *number; /* of each group of each rank */
    struct verify_group {
        const uint32_t *members;
        uint32_t count;
        uint64_t hash;
        uint64_t *bits; /* a bit for each rank that is in it */
    } * distinct;
    uint32_t count;
    uint64_t *bits;
};

/*
 * The clocks for all ranks that await the same signals of the same group: joins of the members' clocks before and after
 * each of them, since every rank leaves out its own.
 */
struct verify_joins {
    bool valid;
    uint32_t group, lane, signal;
    tick *before, *after; /* [member][component] */
    uint32_t room;        /* members */
};
#define VERIFY_JOINS 4

/** The effects that a writing step must have, under one binding at least. */
enum use {
    USE_CHANGED = 1, /**< it stored a value that was not there before */
    USE_READ = 2,    /**< a step read it, or it is a result */
};

struct verify_machine {
    struct schedule *const *schedules;
    const struct schedule_shape *shape;
    const struct verify_binding *binding;
    uint32_t ranks, iterations, parts, channels;
    uint32_t step_count; /* of all ranks */
    bool sized_blocks;   /* a v-form */
    struct symbols *symbols;
    uint32_t input_blocks_most;

    uint32_t thread_count, *first_thread; /* of each rank */
    struct thread *threads;
    struct scopes scopes;
    uint32_t components; /* scopes.components */
    tick *clocks;        /* [thread][component] */
    tick *snapshots;     /* [slot][component] */
    uint64_t snapshot_count;
    uint32_t *snapshot_base; /* each thread's first slot */
    int32_t *snapshot_of;    /* for each step of each rank: index among its lane's snapshots, or -1 */
    uint32_t *step_base;     /* where a rank's steps begin in snapshot_of */
    uint32_t *kept;          /* snapshots that a thread keeps in one iteration */
    uint32_t *signalled;     /* signals that a thread makes in one iteration */
    struct verify_groups groups;
    uint32_t signal_count, *signal_groups; /* the groups that a thread's signals wake, in order */
    uint32_t *signal_base;                 /* where a thread's begin */
    struct verify_joins joins[VERIFY_JOINS];
    bool doubt; /* a complaint was about order, which narrow clocks may have missed */

    struct region *regions; /* [rank][REGIONS] */
    struct cell *cells;
    uint32_t cell_count;
    struct access *accesses;
    uint32_t access_count, access_free;
    size_t access_room;
    struct verify_channel *channel_table; /* [from][to][channel] */
    uint16_t epoch;                       /* grows with each binding: a channel's state of an earlier one is ignored */
    tick *clock_at_end;                   /* room for one clock */

    symbol *operands; /* room for one symbol a rank */
    symbol canonical; /* the finished canonical sum of the first canonical_ranks; SYMBOL_NONE: not made yet */
    uint32_t canonical_ranks;
    uint8_t *useful;   /* of each step of each rank, and one more: enum use; NULL: not checked */
    uint32_t stepping; /* the step that stores now; the one more: none */
    struct error *error;
    weft_status status;
};

/** Every block and part of an input, in every iteration, is a column of its own. */
static inline uint32_t verify_column(const struct verify_machine *machine, uint32_t block, uint32_t iteration,
                                     uint32_t part)
{
    return block + machine->input_blocks_most * (part + machine->parts * iteration);
}

/** The content of a rank's input. */
static inline struct value verify_leaf(const struct verify_machine *machine, uint32_t rank, uint32_t block,
                                       uint32_t iteration, uint32_t part)
{
    return (struct value){1 + rank, verify_column(machine, block, iteration, part)};
}

static inline bool verify_same(struct value a, struct value b)
{
    return a.sum == b.sum && a.column == b.column;
}

/** The message about a step; always false, so that it can be returned. */
bool verify_complain(struct verify_machine *machine, const struct thread *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- order: core/schedule/verify/order.c ---- */

/** Find the scopes; false when memory ran out. machine->first_thread is there. */
bool verify_scopes_open(struct verify_machine *machine, bool narrow);

/** Number the groups of all schedules; false when memory ran out. */
bool verify_groups_open(struct verify_machine *machine);

/** Free both, and what has been joined. */
void verify_order_close(struct verify_machine *machine);

/** The number of a rank's group. */
uint32_t verify_group_number(const struct verify_machine *machine, uint32_t rank, uint32_t group);
bool verify_group_has(const struct verify_machine *machine, uint32_t number, uint32_t rank);

/**
 * Whether everything that `thread`'s step awaits has been signaled; if so, joins the clocks at those signals. False
 * with a complaint when the step is wrong.
 */
bool verify_await(struct verify_machine *machine, struct thread *thread, const struct step *step, bool *over);

/* ---- memory and facts: core/schedule/verify/state.c ---- */

/** The binding's choice for a rank. */
static inline bool verify_chosen(enum verify_choice choice, uint32_t rank)
{
    return choice == CHOICE_ALL || (choice == CHOICE_ALTERNATING && rank % 2);
}

static inline bool verify_registered(const struct verify_machine *machine, uint32_t rank)
{
    return verify_chosen(machine->binding->registered, rank);
}

/** The cell of a chunk in an iteration (slots are used in turn). */
static inline uint32_t verify_cell_at(const struct verify_machine *machine, uint32_t rank, enum region_kind kind,
                                      uint32_t iteration, uint32_t chunk)
{
    const struct region *region = &machine->regions[rank * REGIONS + kind];
    if (kind >= REGION_SCRATCH)
        iteration %= machine->schedules[rank]->slots;
    return region->base + iteration * region->stride + chunk;
}

/** A thread's vector clock. */
static inline tick *verify_clock_of(const struct verify_machine *machine, const struct thread *thread)
{
    return machine->clocks + (size_t)(thread - machine->threads) * machine->components;
}

/** Whether a clock of some thread of `rank` knows that `by` has completed its step number `step`. */
static inline bool verify_clock_holds(const struct verify_machine *machine, const tick *clock, uint32_t rank,
                                      uint32_t by, uint32_t step)
{
    const struct scopes *scopes = &machine->scopes;
    return scopes->of_rank[rank] == scopes->of_thread[by] && (uint32_t)clock[scopes->component[by]] >= step;
}

/** Whether step number `clock` of `by` is ordered before the step that `thread` begins now. */
static inline bool verify_ordered(const struct verify_machine *machine, const struct thread *thread, uint32_t by,
                                  uint32_t clock)
{
    return verify_clock_holds(machine, verify_clock_of(machine, thread), thread->rank, by, clock);
}

/** "chunk 3 of rank 1's output", for messages. */
const char *verify_cell_text(const struct verify_machine *machine, uint32_t index, char *text, size_t size);

/** Access a cell: complains when a conflicting access is not ordered before. */
bool verify_note_write(struct verify_machine *machine, struct thread *thread, uint32_t index);

/** The name of a chunk's size: its part, or in the v-forms the block whose size it is. */
static inline uint32_t verify_size_name(const struct verify_machine *machine, uint32_t rank, enum region_kind kind,
                                        uint32_t chunk)
{
    if (!machine->sized_blocks)
        return chunk % machine->parts;
    bool input = kind == REGION_INPUT || kind == REGION_EXPOSED;
    if (machine->shape->collective == COLLECTIVE_ALLTOALLV)
        return input ? rank * machine->ranks + chunk : chunk * machine->ranks + rank;
    if (machine->shape->collective == COLLECTIVE_SCATTERV)
        return input ? chunk : rank;
    return input ? rank : chunk;
}

/** left + right, which must be of one column. */
bool verify_add(struct verify_machine *machine, const struct thread *thread, struct value left, struct value right,
                struct value *sum);

/** Read a cell for `thread`: its value must be there, of the size named. */
bool verify_load(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                 struct value *value);

/** Put a value into a cell that has been noted as written. */
void verify_store(struct verify_machine *machine, uint32_t index, uint32_t size, struct value value);

/** The cell and size of the i-th chunk of a step's source or target. */
bool verify_locate(struct verify_machine *machine, struct thread *thread, const struct step *step, bool target,
                   uint32_t i, uint32_t *index, uint32_t *size);

/** Join clocks of one scope: add the order in `other`. */
void verify_join(tick *clock, const tick *other, uint32_t components);
void verify_join_threads(struct verify_machine *machine, const struct thread *thread, const struct thread *other);

/** The component of a clock in `rank`'s scope that records whether a signal of `rank` has been awaited. */
uint32_t verify_announced(const struct verify_machine *machine, uint32_t rank);

/** In a barrier: `rank` has begun. */
void verify_note_begun(const struct verify_machine *machine, tick *clock, uint32_t rank);

/** Check that a local rank's memory may be accessed. */
bool verify_may_touch(struct verify_machine *machine, struct thread *thread, uint32_t rank);

/** A step is complete: tick, keep the clock if another lane waits for this step, continue with the next. */
void verify_complete(struct verify_machine *machine, struct thread *thread);

/** Whether the step's wait on another lane is over; joins that lane's clock if so. */
bool verify_wait_is_over(struct verify_machine *machine, struct thread *thread, const struct step *step);

/** The step that a thread is at. */
static inline const struct step *verify_step_of(const struct thread *thread)
{
    return &thread->steps[thread->at];
}

/* ---- the machine: core/schedule/verify/machine.c ---- */

/**
 * Survey the schedules and allocate; false when out of memory, or when they cannot be verified together. Close it in
 * any case.
 */
bool verify_machine_open(struct verify_machine *machine, bool narrow);
/** Reset everything to the state before the first step. */
void verify_machine_bind(struct verify_machine *machine, const struct verify_binding *binding);
void verify_machine_close(struct verify_machine *machine);
/** The status of a machine that could not be opened: its complaint, else that memory ran out. */
weft_status verify_machine_exhausted(struct verify_machine *machine);

/** Give a rank its inputs. */
void verify_fill_input(struct verify_machine *machine, uint32_t rank);

/** Whether a block of a rank's output holds what it should. */
bool verify_check_value(struct verify_machine *machine, uint32_t rank, uint32_t block, uint32_t iteration,
                        uint32_t part);

/** Run all threads until they are done; false, with a complaint, when one cannot proceed. */
bool verify_machine_run(struct verify_machine *machine);

/** Check a rank's results, and that no rank may still access its buffers; in a barrier, that all have begun. */
bool verify_machine_check_end(struct verify_machine *machine, uint32_t rank);

/** Advance one thread by at most one step; returns whether it moved. machine->status reports errors. */
bool verify_advance(struct verify_machine *machine, struct thread *thread);

#endif
