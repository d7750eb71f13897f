/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A schedule: the list of steps that one rank takes in one collective.
 *
 * A schedule is data. A generator writes it, the verifier proves it, the simulator times it, the executor runs it; all
 * four share only this header. Values that vary between calls are not part of it: a *binding* supplies count, type, op,
 * addresses and sequence number at start, so that one schedule serves every size of its class and can run many times at
 * once. A schedule owns no memory but its steps and holds no pointers into buffers.
 *
 * ## Buffers, blocks, parts, chunks
 *
 * A schedule addresses three buffers of this rank: INPUT, OUTPUT and SCRATCH. INPUT and OUTPUT are rows of *blocks*,
 * each of `count` elements:
 *
 *     collective       INPUT            OUTPUT            in place means
 *     allreduce        1 block          1                 INPUT is OUTPUT
 *     reduce_scatter   ranks            1                 OUTPUT is INPUT's block `rank`
 *     allgather(v)     1                ranks             INPUT is OUTPUT's block `rank`
 *     broadcast        1                1                 always: INPUT is OUTPUT, the one buffer, at every rank
 *     reduce           1                1 at root, else 0 INPUT is OUTPUT (root)
 *     scan             1                1                 INPUT is OUTPUT
 *     exscan           1                1, rank 0 none    INPUT is OUTPUT
 *     alltoall         ranks            ranks             INPUT is OUTPUT (schedule_shape.in_place)
 *     gather(v)        1                ranks at root     INPUT is OUTPUT's block `root` (root)
 *     scatter(v)       ranks at root    1                 OUTPUT is INPUT's block `root` (root)
 *     alltoallv        ranks            ranks             never (the executor copies such an INPUT first)
 *     barrier          0                0
 *     sendreceive      1 at the sender  1 at the receiver never
 *
 * Every block is divided into `parts` nearly equal parts; a *chunk* is one part of one block, numbered block x parts +
 * part. Part i of n elements divided by d covers [min(i b, n), min((i+1) b, n)) with b = ceil(n / d) rounded up to 64
 * bytes' worth of elements, so parts begin on cache lines and the last may be short or empty. In the v-forms
 * (allgatherv, gatherv, scatterv, alltoallv) each block has a size of its own, bound at start, and parts is 1. (INPUT
 * of allgatherv and gatherv is as large as OUTPUT's block `rank`, OUTPUT of scatterv as INPUT's.)
 *
 * SCRATCH has `scratch_chunks` chunks. Chunk c lies at c x width, where width is that of the parts of the current
 * segment (schedule_width), so consecutive chunks of SCRATCH lie as the parts of a block do. A chunk of SCRATCH holds
 * one part of some block; step.value gives the part, because parts differ in size. The v-forms use no SCRATCH.
 *
 * A step on several chunks works on consecutive parts of one block. Messages and STEP_COPY, when parts is 1 and the
 * schedule is not segmented (nor a v-form), may also name consecutive whole blocks of INPUT and OUTPUT, which are
 * contiguous there (but not in SCRATCH). STEP_EXPOSE may always name several blocks; it applies to the current segment
 * of each. A message of no chunks, or of empty parts, is sent as an empty message.
 *
 * ## Segments
 *
 * The whole list of steps is the body of a loop over segments: when `segment_bytes` is not 0, iteration s covers, of
 * every block, the bytes [s x segment_bytes, (s+1) x segment_bytes), and parts divide the *segment* (the last one is
 * shorter, and so are its parts). Lanes run ahead of each other by themselves; scratch and staging have `slots` copies,
 * and iteration s uses copy s mod slots, so a lane that reuses a copy waits with a `lag`. With segment_bytes 0 there is
 * one iteration. An empty buffer has one iteration too. In allgatherv the largest block decides how many there are;
 * other blocks' segments may be empty.
 *
 * In gatherv, scatterv and alltoallv no rank knows the sizes of all blocks (collective_hides_sizes()): the root of the
 * first two knows them all, other ranks know their own. So their schedules are the same for all sizes, are never
 * segmented and consist of messages and copies.
 *
 * ## Lanes, waits, signals
 *
 * Steps are grouped in lanes. A step of a lane begins when the one before it (the last step of the previous iteration,
 * for the first) is complete; lanes move independently. Before a step begins it also waits until lane `wait_lane` of
 * this rank has completed `wait_steps` of its steps in iteration (own - wait_lag) (no wait when that iteration is
 * negative, or wait_steps is 0; nor, with STEP_WHERE_STAGED, when nothing of this rank's is staged: see "Shared
 * memory"). That is the only ordering between lanes of one rank. The schedule is done when all lanes have completed all
 * iterations.
 *
 * A send is complete when its source may be overwritten, a receive when its data is in place; schedules are proved free
 * of deadlock even if sends complete only after their receive has begun, so an executor may buffer any amount of data.
 *
 * Between ranks that share memory (*local* ranks) order comes from signals: each lane of each rank has one counter in
 * shared memory, written by it alone, which only grows: STEP_SIGNAL adds one (release), STEP_AWAIT waits until the
 * counters of a group of local ranks have reached a value (acquire): `stride` x (own iteration - value_lag) + value
 * signals of lane `operands`, counted from the beginning of this operation (no wait when own iteration < value_lag).
 * Only the *other* ranks of the group are checked. (A counter that holds the operation's sequence number above the
 * signals of this operation needs no base; a rank that has begun a later operation has made all its signals.) Between
 * any two ranks order comes from messages.
 *
 * ## Shared memory
 *
 * Whether a buffer is registered (lies in the shared heap, so that local ranks can load and store it) or ordinary may
 * differ between ranks and is not part of a schedule. A schedule states which data becomes visible, and the binding
 * decides how:
 *
 *  - STEP_EXPOSE makes chunks of INPUT readable by local ranks: a no-op for a registered buffer; an ordinary one is
 *    copied into this rank's staging (slot s mod slots, or mod a larger number than the schedule asks for). A
 *    STEP_SIGNAL later in the lane publishes it.
 *  - STEP_GATHER_REDUCE, STEP_READ read chunks that local ranks have exposed, wherever they lie.
 *  - STEP_SPREAD (and STEP_REDUCE_SPREAD) hand a chunk to the OUTPUT of every local rank of a group: it is stored
 *    directly into registered outputs (this rank's own always directly), and stored once into this rank's staging for
 *    the ordinary ones.
 *  - STEP_DELIVER receives chunks that another rank spread: a no-op when this rank's OUTPUT is registered (the data is
 *  already
 *    there); copied from the sender's staging when it is ordinary.
 *
 * A rank reads its own INPUT in place, whatever the binding. The target of a reducing step may be exactly the place of
 * one of its operands (in place). A rank accesses a local rank's memory, registered buffers and staging alike, only
 * after it has awaited (perhaps through others) a signal that the local rank made in this operation; the memory's
 * addresses can be published before the first signal. No rank is done before all others are done with its INPUT and
 * OUTPUT. But a local rank may still be copying from *staging* (and reading a control line) when the staging's owner is
 * done: the executor must not reuse staging for a later operation too early (two sets used in turn, the second not
 * before every local rank has begun the previous operation, are enough).
 *
 * The verifier proves every schedule under all three bindings: all registered, all ordinary, and alternating; each in
 * place and not.
 *
 * ## Memory
 *
 * schedule_generate() and schedule_text_prove() allocate, schedule_free() frees; the steps are contiguous. A finished
 * schedule is immutable and may be shared by threads.
 */
#ifndef WEFT_CORE_SCHEDULE_FORMAT_SCHEDULE_H
#define WEFT_CORE_SCHEDULE_FORMAT_SCHEDULE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum collective {
    COLLECTIVE_ALLREDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALLGATHER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_SCAN,   /**< rank r: the sum of the inputs of ranks 0 to r */
    COLLECTIVE_EXSCAN, /**< rank r: the sum of the inputs of the ranks before it */
    COLLECTIVE_ALLTOALL,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_ALLGATHERV,
    COLLECTIVE_GATHERV,
    COLLECTIVE_SCATTERV,
    COLLECTIVE_ALLTOALLV,
    COLLECTIVE_BARRIER,
    COLLECTIVE_SENDRECEIVE, /**< one message, from shape.root to shape.peer; the others have an empty schedule */
};
#define COLLECTIVES 16

enum schedule_buffer {
    BUFFER_INPUT,
    BUFFER_OUTPUT,
    BUFFER_SCRATCH,
};

enum step_kind {
    /* messages, to and from any rank */
    STEP_SEND,           /**< chunks of `source` to rank `peer` on `channel` */
    STEP_RECEIVE,        /**< from rank `peer` on `channel` into chunks of `target` */
    STEP_RECEIVE_REDUCE, /**< target = source op received (or received op source: STEP_RECEIVED_FIRST); source may be
                            target */

    /* this rank alone */
    STEP_COPY,   /**< target chunks = source chunks (a no-op where they are the same place) */
    STEP_REDUCE, /**< target chunk = canonical tree over `operands` chunks of source: source_chunk + i x stride */
    STEP_FINISH, /**< apply the finish (average, scale) to `chunks` chunks of target, in place */

    /* local ranks, through shared memory; `peer` is a rank (READ, DELIVER) or a group's index (the others) */
    STEP_EXPOSE,        /**< make chunks of INPUT readable by local ranks */
    STEP_SIGNAL,        /**< increment this lane's counter and wake sleepers of group `peer` */
    STEP_AWAIT,         /**< wait for the counters of lane `operands` of group `peer`: see step.value, step.stride */
    STEP_READ,          /**< target chunks = chunks exposed by local rank `peer` (its INPUT chunk source_chunk) */
    STEP_GATHER_REDUCE, /**< target chunks = canonical tree, in group order, over INPUT chunks source_chunk of all of
                           the group */
    STEP_SPREAD, /**< chunks of source to OUTPUT chunk target_chunk of every rank of the group (own included, if it is
                    one of them) */
    STEP_REDUCE_SPREAD, /**< gather-reduce over group `peer` and spread to group `operands`, in one pass */
    STEP_DELIVER,       /**< make OUTPUT chunks target_chunk, as spread by local rank `peer`, this rank's */

    /* tiny messages: contribution and flag share a cache line */
    STEP_EXCHANGE, /**< publish the whole INPUT (at most SCHEDULE_INLINE_BYTES), read that of the others in group
                        `peer`: enum exchange */
};
#define STEP_KINDS 15

/**
 * The result of STEP_EXCHANGE (step.value). Ranks are in the group's order. Every rank takes part, even without an
 * INPUT, and is done when the ranks whose data it needs have published (in a barrier: all). INPUT is read before that,
 * OUTPUT is written after. It is the only step of its schedule. `b` is step.source_chunk.
 */
enum exchange {
    EXCHANGE_REDUCE, /**< OUTPUT = canonical tree over block b of the inputs of the group's first `operands` ranks (0:
                        all), then finished */
    EXCHANGE_GATHER, /**< OUTPUT block i = block b of the input of the group's rank i */
    EXCHANGE_TAKE,   /**< OUTPUT = block b of the input of the group's rank number `operands`; own rank: nothing if in
                        place */
    EXCHANGE_NOTHING /**< no output: a barrier, or not the root */
};

/** Largest INPUT of a rank that travels with the flag: in the same cache line, and in the lines after it. */
#define SCHEDULE_LINE_BYTES   48
#define SCHEDULE_INLINE_BYTES 4096

enum step_flag {
    STEP_RECEIVED_FIRST = 1, /**< the received operand is the left one */
    STEP_FINISHES = 2,       /**< this step makes the final value: the binding also applies average or scale to it */
    STEP_WHERE_STAGED =
        4, /**< of an empty copy: the wait protects staging; a rank whose buffers are registered skips it */
};

#define SCHEDULE_LANES    16
#define SCHEDULE_CHANNELS 256
#define SCHEDULE_SLOTS    2

/** One step; 32 bytes. Fields that a kind does not use are 0. */
struct step {
    uint8_t kind;        /**< enum step_kind */
    uint8_t flags;       /**< enum step_flag */
    uint8_t source;      /**< enum schedule_buffer */
    uint8_t target;      /**< enum schedule_buffer */
    uint8_t wait_lane;   /**< see "Lanes, waits, signals" */
    uint8_t wait_lag;    /**< iterations back */
    uint8_t channel;     /**< messages from a to b on one channel match in order */
    uint8_t value_lag;   /**< STEP_AWAIT: iterations back */
    uint16_t wait_steps; /**< steps of wait_lane to have completed; 0: no wait */
    uint16_t
        operands;  /**< STEP_REDUCE: how many; STEP_AWAIT: the lane awaited; STEP_REDUCE_SPREAD: the group spread to;
                      STEP_EXCHANGE: see enum exchange */
    uint32_t peer; /**< a rank of the communicator, or a group's index */
    uint32_t source_chunk; /**< first chunk of source */
    uint32_t target_chunk; /**< first chunk of target */
    uint16_t chunks;       /**< how many consecutive chunks: see "Buffers, blocks, parts, chunks"; STEP_REDUCE: 1 */
    uint16_t stride; /**< STEP_REDUCE: chunks between operands; STEP_AWAIT: signals of the awaited lane per iteration */
    uint32_t value; /**< STEP_AWAIT: how many signals of iteration (own - value_lag) must have been made; STEP_EXCHANGE:
                         enum exchange; steps that move data: the part (0..parts-1) of the first chunk, so that the
                       bytes moved are those of parts value .. value + chunks - 1 of a block, wherever they lie
                       (v-forms: see their block) */
};
_Static_assert(sizeof(struct step) == 32, "steps are walked on the hot path");

/** Ranks that a step addresses together, in canonical (communicator) order. */
struct schedule_group {
    uint32_t first; /**< index of the first member in schedule.members */
    uint32_t count;
};

struct schedule {
    enum collective collective;
    const char *algorithm; /**< static string: "direct", "ring", "two-level/direct+pairwise", ... */
    uint64_t hash; /**< of the properties common to all ranks (collective, algorithm, shape, root, parameters) */
    uint32_t ranks, rank, root;
    uint32_t input_blocks, output_blocks; /**< of this rank (a reduce has an output at its root only) */
    uint32_t parts;
    uint32_t scratch_chunks;   /**< in each slot */
    uint32_t slots;            /**< 1, or SCHEDULE_SLOTS when lanes overlap iterations */
    uint64_t segment_bytes;    /**< 0: not segmented */
    uint64_t most_block_bytes; /**< largest block it can serve (inline exchange); 0: any */
    bool canonical;            /**< sums follow the canonical tree over communicator ranks */
    uint32_t lane_count;
    uint32_t lane_first[SCHEDULE_LANES + 1]; /**< steps of lane l: lane_first[l] .. lane_first[l+1] */
    uint32_t group_count;
    struct schedule_group *groups;
    uint32_t *members; /**< ranks of all groups, back to back */
    uint32_t step_count;
    struct step *steps;
};

/** Free a schedule and its steps; NULL is allowed. */
void schedule_free(struct schedule *schedule);

/**
 * Check one schedule by itself: kinds, buffers, chunk, part, group, peer, lane and wait numbers must be within bounds.
 * WEFT_ERROR_SCHEDULE with a message that names lane and step. A schedule that passes can be executed without further
 * bounds checks.
 */
weft_status schedule_check(const struct schedule *schedule, struct error *error);

/** The collective's name ("allreduce") and back; collective_parse() names the nearest in its message. */
const char *collective_name(enum collective collective);
weft_status collective_parse(const char *name, enum collective *collective, struct error *error);

/** Whether contributions are combined with an op, and whether the collective has a root. */
bool collective_reduces(enum collective collective);
bool collective_is_rooted(enum collective collective);

/** Whether rank r's sum is over the first ranks: r + 1 of them (scan) or r (exscan, which gives rank 0 nothing). */
bool collective_is_prefix(enum collective collective);

/** The ranks whose inputs the sum of `rank` is over, of `ranks`: the first so many; in an exscan 0 for rank 0. */
uint32_t collective_summed(enum collective collective, uint32_t rank, uint32_t ranks);

/** Whether blocks have sizes of their own (allgatherv, gatherv, scatterv, alltoallv). */
bool collective_is_vector(enum collective collective);

/** Whether ranks know only the sizes of their own blocks (gatherv and scatterv except at the root, alltoallv): see
 * "Segments". */
bool collective_hides_sizes(enum collective collective);

/** Blocks in the largest input of any rank: `ranks` where every rank sends something different to each, else 1. */
uint32_t collective_widest_input(enum collective collective, uint32_t ranks);

/** The step kind's name ("receive-reduce"). */
const char *step_kind_name(enum step_kind kind);

/** The layout of chunks in a buffer for a given count: shared by executor, verifier and simulator. In bytes. */
struct schedule_range {
    uint64_t offset, bytes;
};

/** Bytes from the beginning of one part to the next, of a block (or segment) of `bytes` bytes: a multiple of 64. */
static inline uint64_t schedule_width(uint64_t bytes, uint32_t parts)
{
    return ((bytes + parts - 1) / parts + 63) & ~(uint64_t)63;
}

/**
 * The range of `count` parts from `part` on, of `parts`, of a block (or segment) of `bytes` bytes, relative to its
 * beginning. Element boundaries are kept because 64 is a multiple of every element size.
 */
static inline struct schedule_range schedule_parts(uint64_t bytes, uint32_t parts, uint32_t part, uint32_t count)
{
    uint64_t width = schedule_width(bytes, parts), first = (uint64_t)part * width, last = first + count * width;
    if (first > bytes)
        first = bytes;
    if (last > bytes)
        last = bytes;
    return (struct schedule_range){first, last - first};
}

/**
 * Iterations that a schedule takes over blocks of `block_bytes` bytes (the largest block, in the v-forms). At least 1.
 */
static inline uint64_t schedule_iterations(const struct schedule *schedule, uint64_t block_bytes)
{
    if (!schedule->segment_bytes || block_bytes <= schedule->segment_bytes)
        return 1;
    return (block_bytes + schedule->segment_bytes - 1) / schedule->segment_bytes;
}

#endif
