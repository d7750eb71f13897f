/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft.h: the collectives of Weft. This header alone is enough to use them.
 *
 * A process (or a thread: several ranks may live in one process) opens a *context*, which finds the other ranks through
 * whatever launched it (weft run, mpirun, srun, torchrun variables) and holds the *world* communicator:
 *
 *     weft_context *context;
 *     if (weft_init(NULL, &context) != WEFT_OK)
 *         return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
 *     weft_comm *world = weft_world(context);
 *     float *gradient = weft_alloc(context, count * sizeof(float));
 *     if (weft_allreduce(gradient, gradient, count, WEFT_F32, WEFT_SUM, world) != WEFT_OK)
 *         return fprintf(stderr, "%s\n", weft_message(context)), 1;
 *     weft_finalize(context);
 *
 * ## The error contract
 *
 * Every function that can fail returns a weft_status. WEFT_OK is 0; anything else is an error, and weft_message() holds
 * one message that says what failed, where, with which value and what to do. Output arguments are set only on success.
 * NULL in place of a context, a communicator or an output argument is WEFT_ERROR_ARGUMENT with a message of its own,
 * unless a function says that NULL is allowed; the queries that return a number or a name must not be given NULL.
 * After WEFT_ERROR_PEER, WEFT_ERROR_ABORTED, WEFT_ERROR_TIMEOUT or WEFT_ERROR_MISMATCH the context is broken: every
 * later operation on it returns the same status and message at once, and what output buffers hold is not defined. The
 * ranks that live can go on together with weft_shrink(); otherwise only weft_finalize() is of use.
 *
 * ## What is compared
 *
 * Each call carries a hash of itself (collective, algorithm, count, type, op, root; the counts of weft_allgatherv())
 * and of all earlier calls on its communicator. A rank compares it with that of every rank that it takes data or a
 * signal from during the call, so ranks that make different calls learn so as soon as one of them waits for another. In
 * all-reduce, all-gather, reduce-scatter, all-to-all and barrier every rank waits for every other one, directly or
 * through others. In broadcast, scatter, reduce and gather a rank that only gives may wait for nobody, as the root of a
 * small broadcast: such a call can return WEFT_OK although another rank named another root. The disagreement is then
 * found, and both calls are named, by the next operation in which one of the two waits for the other, in the world at
 * the latest by weft_finalize(). weft_gatherv() and weft_alltoallv() compare counts and types between each two ranks
 * that exchange elements.
 *
 * ## The same bits
 *
 * A sum is bit-identical on every rank and from run to run. Unless a documented exception (the algorithms "ring" and
 * "double-tree") is asked for, contributions are added in one canonical order: the left-full binary tree over the
 * ranks, T(lo, n), split at the largest power of two below n: ((0+1)+(2+3))+(4+5). bf16 and f16 are rounded to their
 * type at every node of that tree, each addition being done in f32. Averages divide, and scaled sums multiply, after
 * the sum. Where nodes (and the leaf switches above them, if any are known) hold equal numbers of ranks that are powers
 * of two, every placement gives these bits; elsewhere the result is deterministic for the placement, and
 * weft_comm_set_reproducible() buys the canonical order for any placement.
 *
 * ## Threads
 *
 * One context belongs to one rank. Different contexts may be used by different threads at the same time. On one
 * context, calls may come from several threads, but operations on one communicator must be started in the same order
 * on all its ranks, which is the caller's to arrange (one thread a communicator does). weft_alloc, weft_free,
 * weft_abort, weft_message and the queries are safe from any thread. Creating and freeing communicators, weft_shrink,
 * weft_finalize and group calls must not run concurrently with other calls on the same context.
 *
 * ## Order
 *
 * All ranks of a communicator start the same operations on it in the same order. Operations on *different*
 * communicators may be started in different orders on different ranks as requests and will complete; blocking calls
 * that cross (one rank blocked in A then B, another in B then A) are a mistake, and are named as the cycle that they
 * are. Making a communicator is an operation of the communicator that it is made from.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION_TEXT  "0.1.0"

#define WEFT_API __attribute__((visibility("default")))

/* ---- status ---- */

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERROR_ARGUMENT,   /**< a value the caller gave is not acceptable */
    WEFT_ERROR_MISMATCH,   /**< ranks disagree about an operation; the message names both calls */
    WEFT_ERROR_PEER,       /**< a rank died, or the link to it was cut; the message names rank and host */
    WEFT_ERROR_TIMEOUT,    /**< an operation, or the arrival of a rank, took longer than its limit */
    WEFT_ERROR_ABORTED,    /**< a rank called weft_abort(); the message is that rank's */
    WEFT_ERROR_MEMORY,     /**< memory ran out or a memory limit is too small */
    WEFT_ERROR_SYSTEM,     /**< the operating system refused something */
    WEFT_ERROR_NETWORK,    /**< a network provider failed, or no usable one was found */
    WEFT_ERROR_RENDEZVOUS, /**< the ranks could not meet: wrong token, version, address or port */
    WEFT_ERROR_DATA,       /**< a file or message holds something other than it should */
    WEFT_ERROR_SCHEDULE,   /**< a schedule is corrupt or breaks its own rules */
    WEFT_ERROR_STATE,      /**< the call is not allowed now (in a group, after finalize, on a broken context) */
} weft_status;

/** The status as a word ("peer", "timeout"); a static string. */
WEFT_API const char *weft_status_name(weft_status status);

/* ---- types and operations ---- */

typedef enum weft_type {
    WEFT_F32,
    WEFT_F64,
    WEFT_F16,
    WEFT_BF16,
    WEFT_I8,
    WEFT_U8,
    WEFT_I32,
    WEFT_U32,
    WEFT_I64,
    WEFT_U64,
} weft_type;
#define WEFT_TYPES 10

/** Bytes of one element; 0 for a value that is no type. */
WEFT_API size_t weft_type_size(weft_type type);

/** The type's name ("f32", "bf16"); a static string. */
WEFT_API const char *weft_type_name(weft_type type);

typedef enum weft_op_kind {
    WEFT_OP_SUM,
    WEFT_OP_AVERAGE, /**< the sum, then divided by the number of ranks (integers: rounded towards zero) */
    WEFT_OP_PRODUCT,
    WEFT_OP_MIN,
    WEFT_OP_MAX,
    WEFT_OP_SCALED_SUM, /**< the sum, then multiplied by `factor`; floating-point types only */
} weft_op_kind;
#define WEFT_OP_KINDS 6

/** How contributions are combined. All ranks must pass the same kind and the same factor. */
typedef struct weft_op {
    weft_op_kind kind;
    double factor; /**< of WEFT_OP_SCALED_SUM; 1 otherwise */
} weft_op;

#ifdef __cplusplus
#define WEFT_OP_LITERAL(kind, factor) (weft_op{kind, factor})
#else
#define WEFT_OP_LITERAL(kind, factor) ((weft_op){kind, factor})
#endif
#define WEFT_SUM                WEFT_OP_LITERAL(WEFT_OP_SUM, 1.0)
#define WEFT_AVERAGE            WEFT_OP_LITERAL(WEFT_OP_AVERAGE, 1.0)
#define WEFT_PRODUCT            WEFT_OP_LITERAL(WEFT_OP_PRODUCT, 1.0)
#define WEFT_MIN                WEFT_OP_LITERAL(WEFT_OP_MIN, 1.0)
#define WEFT_MAX                WEFT_OP_LITERAL(WEFT_OP_MAX, 1.0)
#define WEFT_SCALED_SUM(factor) WEFT_OP_LITERAL(WEFT_OP_SCALED_SUM, factor)

/** The kind's name ("sum", "scaled-sum"); a static string. */
WEFT_API const char *weft_op_name(weft_op_kind kind);

/* ---- context ---- */

typedef struct weft_context weft_context;
typedef struct weft_comm weft_comm;
typedef struct weft_request weft_request;
typedef struct weft_process weft_process;

/**
 * Configuration of a context. Set `size` to sizeof(weft_config) and the rest to zero (WEFT_CONFIG_DEFAULT does); a zero
 * or NULL field means "as detected". Fields are only ever added at the end.
 */
typedef struct weft_config {
    size_t size;            /**< sizeof(weft_config) */
    int rank;               /**< this rank, with `ranks` set; ignored when `ranks` is 0 */
    int ranks;              /**< number of ranks; 0: detect the launcher */
    const char *rendezvous; /**< "host:port" where the ranks meet, with `ranks` set */
    const char *secret;     /**< job secret shared by the ranks (any text), with `ranks` set */
    const char *node;       /**< an identity added to the machine's own: ranks that differ in it never share memory */
    const char *fabric;     /**< libfabric provider to use ("net", "tcp;ofi_rxm"), or "none" */
    const char *interface;  /**< network interface or address to bind to, or several with commas between */
    double
        rendezvous_limit;  /**< seconds to wait for all ranks to arrive, at the start or after a failure; default 60 */
    double time_limit;     /**< seconds one operation, also one that makes a communicator, may wait for a peer that is
                                alive; default 600 */
    uint64_t heap_bytes;   /**< most bytes weft_alloc() may hand out; default: from the machine's limits */
    weft_process *process; /**< shared by ranks that are threads of one process; NULL: this context has its own */
    double late_seconds;   /**< seconds after which a rank that others wait for is named on stderr; default 10 */
    double liveness_limit; /**< seconds without a sign of life after which a rank is taken for dead; default 1.5 */
    const char *topology;  /**< a cluster file that says what joins the nodes; default: it is measured */
} weft_config;
#define WEFT_CONFIG_DEFAULT                                                                                            \
    {                                                                                                                  \
        sizeof(weft_config), 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, 0, 0, NULL                             \
    }

/**
 * What ranks that are threads of one process have in common: the memory of weft_alloc(). Open one, put it into each
 * rank's configuration, close it after the last weft_finalize(). `heap_bytes` as in weft_config.
 */
WEFT_API weft_status weft_process_open(uint64_t heap_bytes, weft_process **process);
WEFT_API void weft_process_close(weft_process *process);

/**
 * Meet the other ranks and open the world communicator. `config` may be NULL. Collective: returns when all have
 * arrived, or an error that names who has not. On failure the message is weft_message(NULL), of the calling thread.
 */
WEFT_API weft_status weft_init(const weft_config *config, weft_context **context);

/**
 * Leave. Collective over the ranks that are still well: it waits for all of them to call it, without a limit, since
 * they may go on with operations that this rank has no part in any more. A rank that others wait for is named on stderr
 * after late_seconds. A rank that comes here without its part in an operation is recognized by those who wait for it:
 * within two seconds the job ends with WEFT_ERROR_MISMATCH and a message that names the rank and the operation. (Of
 * send and receive, if this rank's last 64 operations tell; otherwise it is the limit that ends the wait.)
 *
 * Whatever it returns, the context has ended: it, its
 * communicators, requests and buffers are freed and must not be used again, not even by weft_message(). (After a
 * failure, buffers in the memory of a shared weft_process stay until weft_process_close(), since other ranks may still
 * read them.) If it returns an error, the message is weft_message(NULL), of the calling thread. `context` may be NULL.
 *
 * Wait for every request and end every group first: with operations in flight it returns WEFT_ERROR_STATE and ends the
 * job, as this rank will never do its part in them; operations of the other ranks fail with the same status and
 * message. A request whose operation has completed is freed without an error.
 *
 * After a failure it ends this rank's part only, and returns WEFT_OK: the failure has been reported.
 *
 * Errors: STATE as above; MISMATCH if the ranks' calls on the world differ and no operation has found it yet; PEER,
 * TIMEOUT or ABORTED if the job fails meanwhile; SYSTEM if a trace that was asked for cannot be written.
 */
WEFT_API weft_status weft_finalize(weft_context *context);

/**
 * Go on without the dead. To be called by every rank that lives, when an operation has failed with WEFT_ERROR_PEER,
 * TIMEOUT, MISMATCH or ABORTED: the ranks find each other again and open a new world of those who have come, numbered
 * in their old order. Takes a fraction of a second, then everything works as before; it may be called after every
 * failure.
 *
 * weft_world() is another communicator afterwards. Those of before are dead: every call on them is refused but
 * weft_comm_free() (which is not needed) and the queries of rank and size. Requests of before have ended, and are still
 * to be given to weft_wait(). Memory of weft_alloc() stays; what the failed operations were to write is not defined.
 *
 * Returns only when nobody who was left out can touch this rank's memory any more: processes of this machine that died,
 * are stopped, or have not come are killed and awaited; the networks' old endpoints are closed. A rank that lives but
 * has not come is waited for: named on stderr after late_seconds, left out after rendezvous_limit. Of a network that is
 * cut in two, the larger side goes on (of equal ones that of the lowest rank).
 *
 * Errors: WEFT_ERROR_STATE if nothing has failed; WEFT_ERROR_PEER if this rank cannot go on: it is on the smaller side,
 * or the others have gone on without it. The context then stays broken. A failure while shrinking is survived too.
 */
WEFT_API weft_status weft_shrink(weft_context *context);

/** End the job: every rank's operations return WEFT_ERROR_ABORTED with `reason` and this rank's name within a second.
 */
WEFT_API void weft_abort(weft_context *context, const char *reason);

/**
 * The message of the last error of `context`; once the context is broken, of the error that broke it. "" if none.
 *
 * Some calls have no context: weft_init(), weft_process_open(), weft_finalize() (whose context has ended), those of
 * weft/report.h, and calls that were given NULL in place of a context or communicator. Their message belongs to the
 * calling thread: weft_message(NULL) returns that of the last of them that this thread made. For a call that was given
 * NULL, weft_message(context) returns it too, until a later call of this thread fails, unless the context is broken.
 *
 * The text is the calling thread's own and stays as it is until the thread's next weft_message() or failed call.
 */
WEFT_API const char *weft_message(const weft_context *context);

/**
 * For libraries built on this one, so that their users find every message in one place: `sentence` becomes
 * weft_message() of a context that is not broken (of one that is, its own message stays). Returns `status`. Any
 * thread.
 */
WEFT_API weft_status weft_note_error(weft_context *context, weft_status status, const char *sentence);

/** The version of the library that is loaded, "0.1.0". */
WEFT_API const char *weft_version(void);

/* ---- memory ---- */

/**
 * `bytes` of zeroed memory, aligned to 64 bytes, in this process's shared heap: ranks of the same machine read and
 * write it in place, networks register it once. NULL with a message on failure. Any thread.
 */
WEFT_API void *weft_alloc(weft_context *context, size_t bytes);

/** Give back what weft_alloc() returned; NULL is allowed. The memory is kept, touched, for the next weft_alloc(). */
WEFT_API void weft_free(weft_context *context, void *pointer);

/**
 * Register memory that came from elsewhere with the network, so that it is sent from in place. Local ranks still copy
 * it. Undo with weft_deregister() before freeing it.
 */
WEFT_API weft_status weft_register(weft_context *context, void *pointer, size_t bytes);
WEFT_API weft_status weft_deregister(weft_context *context, void *pointer);

/* ---- communicators ---- */

/** All ranks of the job; owned by the context. */
WEFT_API weft_comm *weft_world(weft_context *context);

/** The context that `comm` belongs to, for weft_message() where only a communicator is at hand. NULL for NULL. */
WEFT_API weft_context *weft_comm_context(const weft_comm *comm);

WEFT_API int weft_comm_rank(const weft_comm *comm); /**< this rank's number in `comm`, from 0 */
WEFT_API int weft_comm_first_rank(const weft_comm *comm,
                                  int rank);              /**< its number in the job before anybody was lost */
WEFT_API int weft_comm_size(const weft_comm *comm);       /**< how many ranks `comm` has */
WEFT_API int weft_comm_local_rank(const weft_comm *comm); /**< this rank's number among those of `comm` on its node */
WEFT_API int weft_comm_local_size(const weft_comm *comm); /**< how many ranks of `comm` are on this node */
WEFT_API int weft_comm_node(const weft_comm *comm);       /**< this rank's node, from 0, in order of first appearance */
WEFT_API int weft_comm_nodes(const weft_comm *comm);      /**< how many nodes `comm` spans */
WEFT_API int weft_comm_node_of(const weft_comm *comm, int rank); /**< the node of another rank; -1 if there is none */
WEFT_API const char *weft_comm_host(const weft_comm *comm, int rank); /**< host name of a rank; NULL if there is none */

/*
 * Making a communicator is a blocking operation of `comm`, in one order with its other operations, with their time
 * limit and their warning for late ranks, and compared among the ranks like them. All ranks get a communicator or none
 * does: after WEFT_ERROR_TIMEOUT, MISMATCH or PEER the context is broken on every rank, and a rank that comes late gets
 * the same error. Where one rank has no memory for it, all get WEFT_ERROR_MEMORY, and the context stays whole.
 */

/**
 * Divide `comm` into one communicator for each `color`, its ranks ordered by `key`, then by rank in `comm`. Collective.
 * A negative color takes part but gets NULL.
 */
WEFT_API weft_status weft_comm_split(weft_comm *comm, int color, int key, weft_comm **result);

/** The same ranks in the same order, with a life and an order of operations of its own. Collective. */
WEFT_API weft_status weft_comm_duplicate(weft_comm *comm, weft_comm **result);

/** A communicator of `ranks[0..count)`, numbers in `comm`, in that order. Collective over those ranks only. */
WEFT_API weft_status weft_comm_subset(weft_comm *comm, const int *ranks, int count, weft_comm **result);

/**
 * Free a communicator that split, duplicate or subset made. Local: it waits for nobody, so ranks may free communicators
 * in any order and at any time. `comm` must not be used again on this rank. Every rank of it should free it: memory
 * that other ranks of the same machine may still read (some 40 KiB, and what large operations were staged in) is given
 * back when the last of those has freed it, by itself, and at the latest by weft_finalize(). A rank that goes on to use
 * a communicator that another one has freed gets WEFT_ERROR_MISMATCH once it waits for that one. NULL is allowed.
 *
 * Errors: ARGUMENT for the world; STATE if a request of it was not given to weft_wait() yet, or in a group. Nothing is
 * freed then.
 */
WEFT_API weft_status weft_comm_free(weft_comm *comm);

/** Keep the canonical order of sums on any placement, at the price of bytes where nodes split its subtrees. All ranks
 * alike. */
WEFT_API weft_status weft_comm_set_reproducible(weft_comm *comm, bool reproducible);

/** Seconds that each later operation on `comm` may wait for a peer that is alive; 0: the context's limit. */
WEFT_API weft_status weft_comm_set_time_limit(weft_comm *comm, double seconds);

/**
 * Use `algorithm` for later operations `collective` ("allreduce", "broadcast", ...) on `comm`; NULL: let the tuner
 * choose. All ranks alike. WEFT_ERROR_ARGUMENT names the algorithms there are, or why this one cannot serve this
 * communicator.
 */
WEFT_API weft_status weft_comm_set_algorithm(weft_comm *comm, const char *collective, const char *algorithm);

/**
 * Use the schedule in the file at `path` for later operations of its collective on `comm`, until
 * weft_comm_set_algorithm() or another schedule takes its place. Collective: every rank reads a file, which must be the
 * same text. It is proved for this communicator (its ranks, as they lie on nodes) before it can run; nothing changes on
 * any rank unless it is right on all. docs/schedule-format.md is the manual of the form; `weft schedule load` proves
 * and times a file without running it.
 *
 * Errors: SYSTEM or DATA, with the line, where a file cannot be read; ARGUMENT where it is for other ranks, or ranks
 * have different files; SCHEDULE, with rank, lane, step and the reason, where the schedules are wrong.
 */
WEFT_API weft_status weft_comm_load_schedule(weft_comm *comm, const char *path);

/**
 * The algorithm that serves `collective` with blocks of `count` elements of `type` on `comm` (root 0, out of place), as
 * set or as the tuner chose: "direct", "two-level/direct+pairwise"; a static string. No communication; all ranks get
 * the same. NULL with a message if there is no such collective, or the algorithm that was set cannot serve that size.
 */
WEFT_API const char *weft_comm_algorithm(weft_comm *comm, const char *collective, size_t count, weft_type type);

/* ---- collectives, blocking ---------------------------------------------------------------------------------------
 *
 * Each returns when this rank's output is complete and its input may be reused. `count` counts elements of `type`.
 * Input and output may be the same place where "in place" is described, and must not overlap otherwise. A count of 0 is
 * allowed.
 */

/** The sum (or other op) of `count` elements over all ranks, at every rank. In place: input == output. */
WEFT_API weft_status weft_allreduce(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                    weft_comm *comm);

/** Rank r gets block r, `count` elements, of the sum of inputs of ranks x count. In place: output == input + rank x
 * count. */
WEFT_API weft_status weft_reduce_scatter(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                         weft_comm *comm);

/** Every rank gets every rank's `count` elements, in rank order. In place: input == output + rank x count. */
WEFT_API weft_status weft_allgather(const void *input, void *output, size_t count, weft_type type, weft_comm *comm);

/** Every rank's `buffer` becomes root's. */
WEFT_API weft_status weft_broadcast(void *buffer, size_t count, weft_type type, int root, weft_comm *comm);

/** The sum (or other op) at `root`; `output` is ignored elsewhere. In place at root: input == output. */
WEFT_API weft_status weft_reduce(const void *input, void *output, size_t count, weft_type type, weft_op op, int root,
                                 weft_comm *comm);

/** Block j of rank i's input becomes block i of rank j's output; blocks of `count` elements. In place: input == output.
 */
WEFT_API weft_status weft_alltoall(const void *input, void *output, size_t count, weft_type type, weft_comm *comm);

/** Root gets every rank's `count` elements in rank order. In place at root: input == output + root x count. */
WEFT_API weft_status weft_gather(const void *input, void *output, size_t count, weft_type type, int root,
                                 weft_comm *comm);

/** Rank r gets block r of root's input, `count` elements. In place at root: output == input + root x count. */
WEFT_API weft_status weft_scatter(const void *input, void *output, size_t count, weft_type type, int root,
                                  weft_comm *comm);

/**
 * All-gather of blocks of different sizes: rank r gives counts[r] elements, which land at output + displacements[r]
 * (in elements; NULL: packed in rank order). `counts` and `displacements` have an entry for each rank; counts are the
 * same everywhere.
 */
WEFT_API weft_status weft_allgatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                                     weft_type type, weft_comm *comm);

/**
 * Gather of blocks of different sizes to `root`. This rank gives counts[rank] elements. The root's `counts` has an
 * entry for each rank; blocks land as in weft_allgatherv(). Other ranks need not know what the others give: there only
 * counts[rank] is read, and `output` and `displacements` are ignored. In place at root: input == where its block lands.
 *
 * What a rank gives and what the root expects of it must be equal, and of one type unless it is nothing: otherwise
 * WEFT_ERROR_MISMATCH, which says who gives how much and how much the root expects.
 */
WEFT_API weft_status weft_gatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                                  weft_type type, int root, weft_comm *comm);

/**
 * All-to-all with blocks of different sizes: this rank sends send_counts[j] elements at send_displacements[j] to rank j
 * and receives receive_counts[j] at receive_displacements[j] from it. Displacements may be NULL: packed.
 *
 * What rank i sends to j and what j expects of i must be equal, and of one type unless it is nothing: otherwise
 * WEFT_ERROR_MISMATCH, which says who sends how much to whom. Ranks that exchange nothing may pass different types.
 */
WEFT_API weft_status weft_alltoallv(const void *input, const size_t *send_counts, const size_t *send_displacements,
                                    void *output, const size_t *receive_counts, const size_t *receive_displacements,
                                    weft_type type, weft_comm *comm);

/** Returns when every rank has called it. */
WEFT_API weft_status weft_barrier(weft_comm *comm);

/** Send to, receive from one rank. Messages between two ranks of one communicator arrive in order; counts must agree.
 */
WEFT_API weft_status weft_send(const void *input, size_t count, weft_type type, int peer, weft_comm *comm);
WEFT_API weft_status weft_receive(void *output, size_t count, weft_type type, int peer, weft_comm *comm);

/* ---- collectives, as requests ------------------------------------------------------------------------------------
 *
 * The same, started and finished apart; they move while the caller computes. Buffers and count vectors belong to the
 * request until it has completed. A request is freed by the wait or test that reports its end.
 */

WEFT_API weft_status weft_allreduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                          weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_reduce_scatter_start(const void *input, void *output, size_t count, weft_type type,
                                               weft_op op, weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_allgather_start(const void *input, void *output, size_t count, weft_type type,
                                          weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_broadcast_start(void *buffer, size_t count, weft_type type, int root, weft_comm *comm,
                                          weft_request **request);
WEFT_API weft_status weft_reduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                       int root, weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_alltoall_start(const void *input, void *output, size_t count, weft_type type, weft_comm *comm,
                                         weft_request **request);
WEFT_API weft_status weft_gather_start(const void *input, void *output, size_t count, weft_type type, int root,
                                       weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_scatter_start(const void *input, void *output, size_t count, weft_type type, int root,
                                        weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_allgatherv_start(const void *input, void *output, const size_t *counts,
                                           const size_t *displacements, weft_type type, weft_comm *comm,
                                           weft_request **request);
WEFT_API weft_status weft_gatherv_start(const void *input, void *output, const size_t *counts,
                                        const size_t *displacements, weft_type type, int root, weft_comm *comm,
                                        weft_request **request);
WEFT_API weft_status weft_alltoallv_start(const void *input, const size_t *send_counts,
                                          const size_t *send_displacements, void *output, const size_t *receive_counts,
                                          const size_t *receive_displacements, weft_type type, weft_comm *comm,
                                          weft_request **request);
WEFT_API weft_status weft_barrier_start(weft_comm *comm, weft_request **request);
WEFT_API weft_status weft_send_start(const void *input, size_t count, weft_type type, int peer, weft_comm *comm,
                                     weft_request **request);
WEFT_API weft_status weft_receive_start(void *output, size_t count, weft_type type, int peer, weft_comm *comm,
                                        weft_request **request);

/** Block until *request has ended, free it and set it to NULL. A NULL *request has ended already. */
WEFT_API weft_status weft_wait(weft_request **request);

/** As weft_wait(), but returns at once; *done tells whether it has ended (and was freed). */
WEFT_API weft_status weft_test(weft_request **request, bool *done);

/**
 * Whether `request` has ended, without freeing it: *done is true from then on, and the status is that of its operation.
 * It must still be given to weft_wait() or weft_test(). Returns at once. A NULL request has ended.
 */
WEFT_API weft_status weft_request_done(weft_request *request, bool *done);

/** Wait for one of `count` requests; *index is which (freed, set to NULL), or -1 if all were NULL. Requests that are
 * waited for together are of one context. */
WEFT_API weft_status weft_wait_any(weft_request **requests, int count, int *index);

/**
 * Wait until at least one of `count` requests has ended, and free all that have: indices[0..*ended) say which, in
 * ascending order; each is set to NULL. `indices` has room for `count`. *ended is 0 only if all were NULL. Returns the
 * first error of those that ended.
 */
WEFT_API weft_status weft_wait_some(weft_request **requests, int count, int *indices, int *ended);

/** As weft_wait_some(), but returns at once: *ended is 0 if none has ended. */
WEFT_API weft_status weft_test_some(weft_request **requests, int count, int *indices, int *ended);

/** Wait for all; the first error is returned after all have ended. */
WEFT_API weft_status weft_wait_all(weft_request **requests, int count);

/**
 * Calls between group start and end are begun together at the end, so that sends and receives in any order cannot
 * block each other. Blocking calls in a group return at once and complete in weft_group_end(), which returns the first
 * error. Groups do not nest.
 */
WEFT_API weft_status weft_group_start(weft_context *context);
WEFT_API weft_status weft_group_end(weft_context *context);

#ifdef __cplusplus
}
#endif

#endif
