/* SPDX-License-Identifier: Apache-2.0 */
/** The state of the verifier's machine, and what its steps do to it. Private to verify_*.c; see verify_machine.h. */
#ifndef WEFT_SCHEDULE_VERIFY_STATE_H
#define WEFT_SCHEDULE_VERIFY_STATE_H

#include "schedule/verify_machine.h"

#define NOBODY UINT32_MAX

/* One chunk's place. Clock 0 is "before everything". */
struct cell {
    symbol value;
    uint32_t part;                      /* whose size the value has */
    uint32_t write_thread, write_clock; /* the last write */
    uint32_t reads;                     /* those since: list of struct access, NOBODY ends it */
};

struct access {
    uint32_t thread, clock, next;
};

enum thread_state { THREAD_READY, THREAD_WAITS_FOR_MATCH, THREAD_MATCHED, THREAD_PUBLISHED };

/* One lane of one rank. */
struct thread {
    uint32_t rank, lane;
    uint32_t iteration, at; /* the step that is next or under way, within the lane */
    uint32_t clock;         /* steps completed, over all iterations */
    enum thread_state state;
    bool scribbled;          /* chaos: has spoilt what its step will write */
    uint32_t next;           /* in a channel's queue */
    uint32_t signals;        /* made so far */
    uint32_t snapshot_slots; /* first of this thread's snapshots */
    uint32_t signal_slots;   /* first of the snapshots at its signals */
};

/* Messages from one rank to another on one channel: either sends wait here or receives. */
struct channel {
    uint32_t head, tail; /* threads, in order of begin */
    bool holds_sends;
    uint32_t last_thread[2], last_clock[2]; /* who began the last send, the last receive; its end */
};

/* Where a buffer's cells are: chunk c of iteration s is at base + s x stride + c. */
struct region {
    uint32_t base, stride;
};

enum region_kind { REGION_INPUT, REGION_OUTPUT, REGION_SCRATCH, REGION_EXPOSED, REGION_SPREAD, REGIONS };

/** Steps that a lane has completed; small, so that clocks are compared many at a time. */
typedef int16_t tick;
#define TICK_MOST INT16_MAX

/** A random execution instead of a proof: see verify_chaos(). */
struct chaos {
    uint64_t seed, drawn;
    symbol poison;
    bool scribbling;                /* stores spoil, loads only note what is read */
    uint32_t reads[64], read_count; /* cells that the step under way reads */
    bool *started, *finished;       /* of each rank */
};

struct machine {
    struct plan *const *plans;
    const struct plan_shape *shape;
    const struct verify_binding *binding;
    uint32_t ranks, iterations, parts, channels;
    bool sized_blocks; /* a v-form */
    struct symbols *symbols;
    uint32_t input_blocks_most;

    uint32_t thread_count, *first_thread; /* of each rank */
    struct thread *threads;
    uint32_t components; /* of a vector clock: one a thread, then `begun` and `announced` of each rank */
    tick *clocks;        /* [thread][component] */
    tick *snapshots;     /* [slot][component] */
    uint32_t snapshot_count;
    int32_t *snapshot_of;  /* for each step of each rank: index among its lane's snapshots, or -1 */
    uint32_t *step_base;   /* where a rank's steps begin in snapshot_of */
    uint32_t *data_before; /* for each step of each rank: steps about data before it in its lane; for flows only */
    uint32_t *kept;        /* snapshots that a thread keeps in one iteration */
    uint32_t *signalled;   /* signals that a thread makes in one iteration */

    struct region *regions; /* [rank][REGIONS] */
    struct cell *cells;
    uint32_t cell_count;
    struct access *accesses;
    uint32_t access_count, access_capacity, access_free;
    struct channel *channel_table; /* [from][to][channel] */

    symbol *operands; /* room for one symbol a rank */
    struct verify_flow *flow;
    struct chaos *chaos; /* NULL: prove */
    struct error *error;
    weft_status status;
};

/** Each chunk of each rank's input, in each iteration, is a symbol of its own. */
symbol verify_leaf(const struct machine *machine, uint32_t rank, uint32_t block, uint32_t iteration, uint32_t part);

/** The sentence about a step; always false, so that it can be returned. */
bool verify_complain(struct machine *machine, const struct thread *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Note a fact in machine->flow, if there is one. */
void verify_flow_note(struct machine *machine, uint64_t kind, uint64_t where, symbol value);

/** Count steps about data, for the next. */
void verify_flow_prepare(struct machine *machine);

/** Note what comes before the step that `thread` begins: the steps about data that every thread has completed. */
void verify_flow_note_order(struct machine *machine, const struct thread *thread);

/** What the binding chose for a rank. */
bool verify_registered(const struct machine *machine, uint32_t rank);
bool verify_chosen(enum verify_choice choice, uint32_t rank);

/** The cell of a chunk in an iteration (slots are used in turn). */
uint32_t verify_cell_at(const struct machine *machine, uint32_t rank, enum region_kind kind, uint32_t iteration,
                        uint32_t chunk);

/** A thread's vector clock. */
tick *verify_clock_of(struct machine *machine, const struct thread *thread);

/** Whether what `by` completed as its step number `clock` comes before what `thread` begins now. */
bool verify_ordered(struct machine *machine, const struct thread *thread, uint32_t by, uint32_t clock);

/** "chunk 3 of rank 1's output", for sentences. */
const char *verify_cell_text(const struct machine *machine, uint32_t index, char *text, size_t size);

/** Access a cell: complains when a conflicting access is not ordered before. */
bool verify_note_read(struct machine *machine, struct thread *thread, uint32_t index);
bool verify_note_write(struct machine *machine, struct thread *thread, uint32_t index);

/** The name of a chunk's size: its part, or in the v-forms the block whose size it is. */
uint32_t verify_size_name(const struct machine *machine, uint32_t rank, enum region_kind kind, uint32_t chunk);

/** Read a cell for `thread`: its value must be there, of the size named. */
bool verify_load(struct machine *machine, struct thread *thread, uint32_t index, uint32_t size, symbol *value);

/** Put a value into a cell that has been noted as written. */
void verify_store(struct machine *machine, uint32_t index, uint32_t size, symbol value);

/** The cell and size of the i-th chunk of a step's source or target. */
bool verify_locate(struct machine *machine, struct thread *thread, const struct step *step, bool target, uint32_t i,
                   uint32_t *index, uint32_t *size);

/** What `other` knows becomes known. */
void verify_join(tick *clock, const tick *other, uint32_t components);
void verify_join_threads(struct machine *machine, const struct thread *thread, const struct thread *other);

/** Components of a clock that say: a signal of `rank` has been awaited; `rank` has begun. */
uint32_t verify_announced(const struct machine *machine, uint32_t rank);
uint32_t verify_begun(const struct machine *machine, uint32_t rank);

/** A near rank's memory is about to be touched. */
bool verify_may_touch(struct machine *machine, struct thread *thread, uint32_t rank);

/** A step is complete: tick, keep the clock if somebody waits for this step, go on to the next. */
void verify_complete(struct machine *machine, struct thread *thread);

/** Whether the step's wait on another lane is over; joins that lane's clock if so. */
bool verify_wait_is_over(struct machine *machine, struct thread *thread, const struct step *step);

/** The step that a thread is at. */
const struct step *verify_step_of(const struct machine *machine, const struct thread *thread);

/** Spoil the cell as a step that is going to write it may, unless the step reads it too. */
void verify_scribble(struct machine *machine, uint32_t index);

/** Take one thread as far as one step; returns whether it moved. machine->status tells of mistakes. */
bool verify_advance(struct machine *machine, struct thread *thread);

#endif
