/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/weft.h: the collectives of Weft. This header alone is enough to use them. Link with -lweft (pkg-config: weft).
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
 * later operation on it returns the same status and message at once, and the contents of output buffers are undefined.
 * The surviving ranks can go on together with weft_shrink(); otherwise only weft_finalize() is of use.
 *
 * ## What is compared
 *
 * Each call carries a hash of itself (collective, algorithm, count, type, op, root; the counts of weft_allgatherv())
 * and of all earlier calls on its communicator. A rank compares its hash with that of every rank from which it takes
 * data or a signal during the call, so different calls are found as soon as one of these ranks waits for another. In
 * all-reduce, all-gather, reduce-scatter, all-to-all and barrier every rank waits for every other one, directly or
 * through others. In broadcast, scatter, reduce, gather and scans a rank may wait for some of the others only, or for
 * nobody, as the root of a small broadcast. Such a call can return WEFT_OK although another rank named another root. The
 * next operation in which one of the two waits for the other then finds the disagreement and names both calls; in the
 * world this is weft_finalize() at the latest. weft_gatherv(), weft_scatterv() and weft_alltoallv() compare counts and
 * types between every two ranks that exchange elements.
 *
 * ## The same bits
 *
 * A sum is bit-identical on every rank and from run to run. Contributions are added in one canonical order: the
 * left-full binary tree over the ranks, T(lo, n), split at the largest power of two below n: ((0+1)+(2+3))+(4+5). Two
 * algorithms, "ring" and "double-tree", use other orders and run only if weft_comm_set_algorithm() names them. bf16 and
 * f16 are rounded to their type at every node of that tree; each addition is done in f32. Averages divide, and scaled
 * sums multiply, after the sum. Where nodes (and the leaf switches above them, if any are known) hold equal numbers of
 * ranks that are powers of two, every placement gives these bits. Elsewhere the result is deterministic for the
 * placement, and weft_comm_set_reproducible() keeps the canonical order on any placement.
 *
 * ## Threads
 *
 * One context belongs to one rank. Different contexts may be used by different threads at the same time. On one
 * context, calls may come from several threads, but operations on one communicator must start in the same order on all
 * its ranks. The caller arranges that, for example by using each communicator from one thread only. weft_alloc(),
 * weft_free(), weft_abort(), weft_message() and the queries are safe from any thread. Making and freeing communicators,
 * weft_shrink(), weft_grow(), weft_finalize() and group calls must not run at the same time as other calls on the same
 * context.
 *
 * ## Order
 *
 * All ranks of a communicator start the same operations on it in the same order. Operations on *different*
 * communicators that are started as requests complete whatever their order on each rank. Blocking calls that cross (one
 * rank blocked in A then B, another in B then A) are a mistake: the message names the cycle. Making a communicator is an
 * operation of the communicator that it is made from.
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

/* ---- status ----
 *
 * Any thread may call this at any time.
 */

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

/** The status as a word ("ok", "peer", "timeout"). Static string; "unknown" for a value that is no weft_status. */
WEFT_API const char *weft_status_name(weft_status status);

/* ---- types and operations ----
 *
 * Any thread may call these at any time.
 */

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
    WEFT_BOOL, /**< a byte: 0 is false, anything else true; results of operations are 0 or 1 */
} weft_type;
#define WEFT_TYPES 11

/** Bytes of one element of `type`; 0 for a value that is no weft_type. */
WEFT_API size_t weft_type_size(weft_type type);

/** The type's name ("f32", "bf16"). Static string; "unknown" for a value that is no weft_type. */
WEFT_API const char *weft_type_name(weft_type type);

typedef enum weft_op_kind {
    WEFT_OP_SUM,
    WEFT_OP_AVERAGE, /**< the sum, then divided by the number of ranks (integers: rounded towards zero) */
    WEFT_OP_PRODUCT,
    WEFT_OP_MIN,
    WEFT_OP_MAX,
    WEFT_OP_SCALED_SUM,  /**< the sum, then multiplied by `factor`; floating-point types only */
    WEFT_OP_BITWISE_AND, /**< this and the following: integers and bool only */
    WEFT_OP_BITWISE_OR,
    WEFT_OP_BITWISE_XOR,
    WEFT_OP_LOGICAL_AND, /**< anything but 0 is true; the result is 0 or 1, on one rank, too */
    WEFT_OP_LOGICAL_OR,
    WEFT_OP_LOGICAL_XOR,
} weft_op_kind;
#define WEFT_OP_KINDS 12

/**
 * How contributions are combined. All ranks must pass the same kind and the same factor. On WEFT_BOOL min is "and", max
 * is "or"; it has no sums and products.
 */
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
#define WEFT_BITWISE_AND        WEFT_OP_LITERAL(WEFT_OP_BITWISE_AND, 1.0)
#define WEFT_BITWISE_OR         WEFT_OP_LITERAL(WEFT_OP_BITWISE_OR, 1.0)
#define WEFT_BITWISE_XOR        WEFT_OP_LITERAL(WEFT_OP_BITWISE_XOR, 1.0)
#define WEFT_LOGICAL_AND        WEFT_OP_LITERAL(WEFT_OP_LOGICAL_AND, 1.0)
#define WEFT_LOGICAL_OR         WEFT_OP_LITERAL(WEFT_OP_LOGICAL_OR, 1.0)
#define WEFT_LOGICAL_XOR        WEFT_OP_LITERAL(WEFT_OP_LOGICAL_XOR, 1.0)

/** The name of an operation's kind ("sum", "scaled-sum"). Static string; "unknown" for a value that is no kind. */
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
    const char *node;       /**< an identity added to the machine's own: ranks with different ones never share memory */
    const char *fabric;     /**< libfabric provider to use ("net", "tcp;ofi_rxm"), or "none" */
    const char *interface;  /**< network interface or address to bind to, or several with commas between */
    double
        rendezvous_limit;  /**< seconds to wait for all ranks to arrive, at the start or after a failure; default 60 */
    double time_limit;     /**< seconds one operation may wait for a peer that is alive, making communicators
                                included; default 600 */
    uint64_t heap_bytes;   /**< limit for weft_alloc() in bytes; default: from the machine's limits */
    weft_process *process; /**< shared by ranks that are threads of one process; NULL: this context has its own */
    double late_seconds;   /**< seconds after which a rank that others wait for is named on stderr; default 10 */
    double liveness_limit; /**< seconds without a sign of life after which a rank counts as dead; default 1.5 */
    const char *topology;  /**< a cluster file that describes the links between nodes; default: measure them */
    double hang_limit;     /**< seconds without weft_progress() after which a rank hangs, and ends; default: never */
} weft_config;
#define WEFT_CONFIG_DEFAULT                                                                                            \
    {                                                                                                                  \
        sizeof(weft_config), 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, 0, 0, NULL, 0                          \
    }

/**
 * Open the memory of weft_alloc() for ranks that are threads of one process.
 *
 * Put `*process` into each rank's weft_config. `heap_bytes` limits the bytes that weft_alloc() may hand out to all of
 * them together; 0 means as much as the machine's limits allow. The caller owns it and closes it with
 * weft_process_close() after the last weft_finalize(). Any thread.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `process` is NULL; WEFT_ERROR_MEMORY if the heap is too small for its own needs;
 * WEFT_ERROR_SYSTEM if the operating system refuses the memory. The message is weft_message(NULL), of the calling
 * thread.
 */
WEFT_API weft_status weft_process_open(uint64_t heap_bytes, weft_process **process);

/**
 * Free what weft_process_open() made, and with it all memory of weft_alloc() in it.
 *
 * No context may use it any more. NULL is allowed.
 */
WEFT_API void weft_process_close(weft_process *process);

/**
 * Find the other ranks and open the world communicator.
 *
 * Collective: returns when all ranks have arrived. `config` may be NULL, which means that everything is detected:
 * rank and number of ranks come from the launcher (weft run, mpirun, srun, torchrun), and a program without a launcher
 * is a world of one rank. A rank that weft run starts later (--restarts, weft scale) joins the running job instead: the
 * call returns when the others admit it in weft_grow() or weft_shrink(), however long that takes (see weft_epoch()).
 * `config` and its strings are needed only during the call. End the context with weft_finalize().
 *
 * Errors: WEFT_ERROR_ARGUMENT if `context` is NULL or a field of `config` or a variable has an impossible value;
 * WEFT_ERROR_TIMEOUT names the ranks that have not arrived within rendezvous_limit; WEFT_ERROR_RENDEZVOUS if the ranks
 * cannot meet (wrong secret, version, address or port); WEFT_ERROR_PEER if the job that this rank was to join has
 * ended; WEFT_ERROR_NETWORK if no usable network was found;
 * WEFT_ERROR_MEMORY and WEFT_ERROR_SYSTEM if resources are missing; WEFT_ERROR_DATA if the cluster file is wrong. The
 * message is weft_message(NULL), of the calling thread.
 */
WEFT_API weft_status weft_init(const weft_config *config, weft_context **context);

/**
 * End a context: leave the job and free everything that belongs to the context.
 *
 * Collective over the surviving ranks: it waits, without a limit, for all of them to call it, since they may go on with
 * operations in which this rank has no part. A rank for which others wait is named on stderr after late_seconds. A rank
 * that calls it without its part in an operation is found by those who wait for it: within two seconds the job ends
 * with WEFT_ERROR_MISMATCH and a message that names the rank and the operation. (For sends and receives this needs the
 * rank's last 64 operations; where they do not show it, the time limit ends the wait.)
 *
 * Whatever it returns, the context has ended. It, its communicators, requests and buffers are freed and must not be used
 * again, not even by weft_message(). (After a failure, buffers in the memory of a shared weft_process stay until
 * weft_process_close(), since other ranks may still read them.) If it returns an error, the message is
 * weft_message(NULL), of the calling thread. `context` may be NULL.
 *
 * Wait for every request and end every group first. A request whose operation has completed is freed without an error.
 * With operations in flight it ends the job, since this rank will never do its part in them: operations of the other
 * ranks fail with the same status and message. After a failure that an earlier call has returned it ends this rank's
 * part only and returns WEFT_OK; a failure that no call has returned is returned here.
 *
 * Errors: WEFT_ERROR_STATE if operations are in flight or a group is open; WEFT_ERROR_MISMATCH if the ranks' calls on
 * the world differ and no operation has found it yet; WEFT_ERROR_PEER, WEFT_ERROR_TIMEOUT or WEFT_ERROR_ABORTED if the
 * job fails meanwhile; the status of a failure that no call has returned; WEFT_ERROR_SYSTEM if a requested trace cannot
 * be written.
 */
WEFT_API weft_status weft_finalize(weft_context *context);

/**
 * Go on without the ranks that are lost.
 *
 * Every surviving rank calls it after an operation has failed with WEFT_ERROR_PEER, WEFT_ERROR_TIMEOUT,
 * WEFT_ERROR_MISMATCH or WEFT_ERROR_ABORTED. The ranks find each other again and open a new world of those that have
 * come, in their old order; ranks that wait to join follow them, as in weft_grow(). This takes a fraction of a second.
 * Then everything works as before. It may be called after every failure, and survives a failure during the call.
 *
 * weft_world() then returns another communicator. Those made before are dead: every call on them is refused except
 * weft_comm_free(), which is not needed, and the queries of rank and size. Their requests have ended; still give them to
 * weft_wait(). Memory of weft_alloc() stays. The contents of the failed operations' outputs are undefined.
 *
 * It returns only when no rank that was left out can touch this rank's memory any more. Processes of this machine that
 * died, are stopped or have not come are killed and awaited; the networks' old endpoints are closed. A rank that lives
 * but has not come is named on stderr after late_seconds and left out after rendezvous_limit. If the network is cut in
 * two, the larger side goes on; ties go to the side with the lowest rank.
 *
 * Errors: WEFT_ERROR_STATE if nothing has failed, in a group, or in a job of a single rank that no other can join;
 * WEFT_ERROR_PEER if this rank cannot go on because it is on the smaller side, or the others have gone on without it. The
 * context then stays broken.
 */
WEFT_API weft_status weft_shrink(weft_context *context);

/**
 * Admit the ranks that wait to join, and release those that are to leave.
 *
 * weft run starts further ranks: in place of lost ones (--min-ranks --restarts), or because weft scale asks for more.
 * Their weft_init() returns when the others admit them: in weft_shrink() after a failure, or in this call if nothing has
 * failed.
 *
 * weft scale may also ask ranks to leave. At such a rank this call (or weft_shrink()) returns WEFT_OK and weft_world() is
 * NULL from then on: it should call weft_finalize(), which waits for nobody, and exit with code 0. The others wait for
 * the end of its process, up to 10 s, if it is on their machine; then they kill it.
 *
 * Collective: every rank of weft_world() calls it, with no operation in flight and no group open. It opens a new world
 * even if no rank waits. As after weft_shrink(), weft_world() returns another communicator, those made before are dead,
 * and memory of weft_alloc() stays. The present ranks keep their order; newcomers follow them. A rank that does not
 * call it is treated as in weft_shrink(): named on stderr after late_seconds, left out after rendezvous_limit.
 *
 * A rank that is lost during the call is left out of the new world and causes no error: compare weft_comm_size().
 *
 * Errors: WEFT_ERROR_STATE with operations in flight, with a group open, or in a job of a single rank that no other can
 * join. If the context is broken already, because a rank was lost before the call, the error of that failure: call
 * weft_shrink(), which admits the waiting ranks, too. Otherwise as weft_shrink().
 */
WEFT_API weft_status weft_grow(weft_context *context);

/**
 * The number of ranks that wait to join or are to leave, as far as this rank knows. Unless it is 0, call weft_grow().
 *
 * Ranks that wait connect to the lowest rank, and the launcher tells that rank which ones are to leave: only rank 0 of
 * weft_world() sees them; other ranks normally get 0. The library does not pass the number on: rank 0 has to tell the
 * others that all must call weft_grow(), for example by adding it to a value that is summed anyway (examples/survivor.c).
 * 0 if `context` is NULL.
 *
 * Does not wait for the network. It takes a lock and looks at every rank, so call it once a step rather than in a tight
 * loop. Safe from any thread.
 */
WEFT_API int weft_waiting(weft_context *context);

/**
 * The job's epoch: 0 at the beginning, larger after each weft_shrink() and weft_grow() that opened a new world.
 *
 * One call may raise it by more than 1, if another failure interrupts it. The same on all ranks of a world. If it is
 * above 0 right after weft_init(), this rank has joined a running job and must get the program's state from the other
 * ranks. -1 if `context` is NULL.
 */
WEFT_API int weft_epoch(const weft_context *context);

/**
 * Report that this rank makes progress: what it begins to do now.
 *
 * `doing` is a few words ("forward of layer", "reading batch"). The first 71 bytes are kept. `number` follows them, unless
 * it is negative. Messages about this rank show both, unless it is in an operation.
 *
 * With a hang limit (hang_limit of weft_config, or WEFT_HANG_LIMIT) the first call begins a watch. From then on the rank
 * hangs if for that long it neither calls weft_progress(), nor begins, tests or waits for an operation. A rank that hangs is lost: the operations of the other ranks fail with WEFT_ERROR_PEER and a message that names
 * it, its host and what it was doing; it prints that message too, and kills its process. The others may call
 * weft_shrink(), and weft run --restarts starts another rank. Time during which the process is stopped, or its main
 * thread could run but gets no processor, does not count. `doing` NULL ends the watch until the next call, before work
 * without calls.
 *
 * Call it from the code that does the work, each time that a part of it begins: not from a thread that would go on if
 * the work stopped. It takes some tens of nanoseconds. Any thread, but not during weft_shrink(), weft_grow() or
 * weft_finalize(). `context` NULL is allowed, and does nothing.
 */
WEFT_API void weft_progress(weft_context *context, const char *doing, int64_t number);

/**
 * End the job with an error on every rank.
 *
 * Within a second every rank's operations return WEFT_ERROR_ABORTED; their message has `reason` and this rank's name.
 * `reason` may be NULL. Returns at once, from any thread.
 */
WEFT_API void weft_abort(weft_context *context, const char *reason);

/**
 * The message of the last error: what failed, where, with which value and what to do.
 *
 * Returns the message of the last error of `context`; once the context is broken, of the error that broke it. "" if
 * there was none.
 *
 * Some calls have no context: weft_init(), weft_process_open(), weft_finalize() (whose context has ended), those of
 * weft/report.h, and calls with NULL in place of a context or communicator. Their message belongs to the calling
 * thread: weft_message(NULL) returns that of this thread's last such call. After a call with NULL,
 * weft_message(context) returns it too, until a later call of this thread fails, unless the context is broken.
 *
 * The text belongs to the calling thread and is unchanged until the thread's next weft_message() or failed call. Any
 * thread.
 */
WEFT_API const char *weft_message(const weft_context *context);

/**
 * Store an error of a library that is built on this one, so that its users find every message in one place.
 *
 * `message`, which is copied, becomes weft_message() of `context`. A broken context keeps its own message, and nothing
 * is stored if `status` is WEFT_OK. Any thread.
 *
 * Errors: returns `status` in every case.
 */
WEFT_API weft_status weft_note_error(weft_context *context, weft_status status, const char *message);

/** The version of the loaded library, "0.1.0". Static string. Any thread. */
WEFT_API const char *weft_version(void);

/* ---- memory ----
 *
 * Any thread may call these at any time.
 */

/**
 * Allocate zeroed memory that ranks of the same machine read and write in place.
 *
 * `bytes` bytes, aligned to 64, in this process's shared heap; networks register it once. The memory belongs to the
 * context: give it back with weft_free(), or let weft_finalize() do so. Memory that is touched for the first time is
 * slow, so allocate once and keep it.
 *
 * Errors: NULL, with a message in weft_message(), if the heap's limit (heap_bytes of weft_config) or the machine's
 * memory is used up, or `context` is NULL.
 */
WEFT_API void *weft_alloc(weft_context *context, size_t bytes);

/**
 * Give back memory of weft_alloc().
 *
 * The heap keeps it, already touched, for the next weft_alloc(). `pointer` may be NULL; `context` must not be. No
 * operation may still use the memory.
 */
WEFT_API void weft_free(weft_context *context, void *pointer);

/**
 * Register memory that came from elsewhere with the network, so that it is sent from in place.
 *
 * `bytes` bytes from `pointer` on. Ranks of the same machine still copy from it. Without a network it does nothing. Undo
 * it with weft_deregister() before the memory is freed.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `context` or `pointer` is NULL or `bytes` is 0; WEFT_ERROR_MEMORY or
 * WEFT_ERROR_NETWORK if the network provider refuses the memory.
 */
WEFT_API weft_status weft_register(weft_context *context, void *pointer, size_t bytes);

/**
 * Undo weft_register() of the memory at `pointer`.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `context` is NULL, or the memory is not registered.
 */
WEFT_API weft_status weft_deregister(weft_context *context, void *pointer);

/* ---- queries of communicators ----
 *
 * Any thread may call these; they do not communicate. `comm` must not be NULL, except for weft_comm_context(). Ranks are
 * numbered from 0 within `comm`, and nodes from 0 in order of first appearance.
 */

/**
 * The communicator of all ranks of the job. The context owns it. NULL after weft_grow() or weft_shrink() on a rank that has
 * left the job, and, with a message, if `context` is NULL.
 */
WEFT_API weft_comm *weft_world(weft_context *context);

/** The context that `comm` belongs to, for weft_message() where only a communicator is at hand. NULL for NULL. */
WEFT_API weft_context *weft_comm_context(const weft_comm *comm);

/** This rank's number in `comm`. */
WEFT_API int weft_comm_rank(const weft_comm *comm);

/**
 * The number of a rank of `comm` that does not change as ranks are lost and join.
 *
 * For a rank that was there at the beginning: its number then. For a newcomer: a larger number that no other rank of
 * the job has had (WEFT_RANK under weft run). weft_shrink() and weft_grow() renumber ranks, but not this number. -1 if
 * `comm` has no rank `rank`, or was made before the last of those calls.
 */
WEFT_API int weft_comm_first_rank(const weft_comm *comm, int rank);

/** The number of ranks of `comm`. */
WEFT_API int weft_comm_size(const weft_comm *comm);

/** This rank's number among the ranks of `comm` on its node. */
WEFT_API int weft_comm_local_rank(const weft_comm *comm);

/** The number of ranks of `comm` on this rank's node. */
WEFT_API int weft_comm_local_size(const weft_comm *comm);

/** This rank's node. Ranks of a node can share memory. */
WEFT_API int weft_comm_node(const weft_comm *comm);

/** The number of nodes that `comm` spans. */
WEFT_API int weft_comm_nodes(const weft_comm *comm);

/** The node of a rank of `comm`. -1 if `comm` has no rank `rank`. */
WEFT_API int weft_comm_node_of(const weft_comm *comm, int rank);

/**
 * The host name of a rank of `comm`.
 *
 * NULL if `comm` has no rank `rank`, or was made before the last weft_shrink(). The string belongs to the context.
 */
WEFT_API const char *weft_comm_host(const weft_comm *comm, int rank);

/* ---- making communicators ----
 *
 * Making a communicator is a blocking operation of `comm`, in one order with its other operations, with their time limit
 * and their warning for late ranks, and compared among the ranks like them. Every rank gets a communicator or none does.
 * The caller owns the result and frees it with weft_comm_free(); weft_finalize() frees the rest.
 *
 * Errors: WEFT_ERROR_ARGUMENT if an argument is not acceptable; WEFT_ERROR_STATE in a group, on a communicator made
 * before the last weft_shrink(), or if the job has no numbers for further communicators; WEFT_ERROR_MEMORY on all ranks
 * if one has no memory for it; the context stays whole. WEFT_ERROR_TIMEOUT, WEFT_ERROR_MISMATCH and WEFT_ERROR_PEER
 * break the context on every rank, and a rank that comes late gets the same error.
 */

/**
 * Divide `comm` into one communicator for each `color`.
 *
 * Ranks of a color are ordered by `key`, then by rank in `comm`. Collective over `comm`. A rank with a negative color
 * takes part but gets NULL.
 */
WEFT_API weft_status weft_comm_split(weft_comm *comm, int color, int key, weft_comm **result);

/**
 * Make a communicator of the same ranks in the same order, with an order of operations of its own.
 *
 * Collective over `comm`. A library that uses its caller's ranks duplicates the communicator, so that its operations
 * and the caller's do not need one common order.
 */
WEFT_API weft_status weft_comm_duplicate(weft_comm *comm, weft_comm **result);

/**
 * Make a communicator of some ranks of `comm`.
 *
 * `ranks` holds `count` different numbers in `comm`, this rank's included, in the order that they get in the new
 * communicator. Collective over those ranks only.
 */
WEFT_API weft_status weft_comm_subset(weft_comm *comm, const int *ranks, int count, weft_comm **result);

/**
 * Free a communicator that split, duplicate or subset made.
 *
 * Local: it waits for nobody, so ranks may free communicators in any order and at any time. `comm` must not be used
 * again on this rank. Every rank of it should free it. Memory that other ranks of the same machine may still read (some
 * 40 KiB, and staging buffers of large operations) is given back when the last of those ranks has freed it, and at the
 * latest by weft_finalize(). A rank that goes on to use a communicator that another one has freed gets
 * WEFT_ERROR_MISMATCH once it waits for that rank. NULL is allowed.
 *
 * Errors: WEFT_ERROR_ARGUMENT for the world; WEFT_ERROR_STATE in a group, or if a request of `comm` was not given to
 * weft_wait() yet. Nothing is freed then. On a broken context, the status that broke it; the memory then stays until
 * weft_finalize().
 */
WEFT_API weft_status weft_comm_free(weft_comm *comm);

/* ---- settings of a communicator ----
 *
 * All ranks of `comm` make the same settings between the same operations. They do not communicate, except for
 * weft_comm_load_schedule(). Where ranks differ, the next operation reports WEFT_ERROR_MISMATCH.
 */

/**
 * Keep the canonical order of sums on any placement of ranks.
 *
 * This costs bytes between nodes where nodes split subtrees of the canonical order. `reproducible` false restores the
 * default.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `comm` is NULL.
 */
WEFT_API weft_status weft_comm_set_reproducible(weft_comm *comm, bool reproducible);

/**
 * Set how long each later operation on `comm` may wait for a peer that is alive.
 *
 * `seconds`: 0 restores the context's time_limit. INFINITY disables the limit, the warning about late ranks and the
 * search for ranks that have skipped the operation; use it for a communicator on which ranks wait for occasional
 * messages. A rank that dies is reported all the same. Ranks may have different limits.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `comm` is NULL, or `seconds` is negative or not a number.
 */
WEFT_API weft_status weft_comm_set_time_limit(weft_comm *comm, double seconds);

/**
 * Choose the algorithm of later operations on `comm`.
 *
 * `collective` is the name of an operation ("allreduce", "broadcast", ...), `algorithm` one of its algorithms; NULL lets
 * the tuner choose again. `weft explain` lists the algorithms.
 *
 * Errors: WEFT_ERROR_ARGUMENT if there is no such collective or algorithm (the message lists them), if the algorithm
 * cannot serve this communicator (the message says why), or if `comm` is NULL.
 */
WEFT_API weft_status weft_comm_set_algorithm(weft_comm *comm, const char *collective, const char *algorithm);

/**
 * Use the schedule in a file for later operations of its collective on `comm`.
 *
 * It serves until weft_comm_set_algorithm() or another schedule replaces it. Collective: every rank reads a file at
 * `path`, and all must have the same text. The schedule is proved for this communicator (its ranks and their nodes)
 * before it can run; nothing changes on any rank unless it is right on all. docs/schedule-format.md is the manual of the
 * format; `weft schedule load` proves and times a file without running it.
 *
 * Errors: WEFT_ERROR_SYSTEM or WEFT_ERROR_DATA, with the line, if a file cannot be read; WEFT_ERROR_ARGUMENT if it is
 * for other ranks, or ranks have different files; WEFT_ERROR_SCHEDULE, with rank, lane, step and reason, if the schedule
 * is wrong. If only other ranks fail, the message names one of them.
 */
WEFT_API weft_status weft_comm_load_schedule(weft_comm *comm, const char *path);

/**
 * The name of the algorithm that serves a collective with blocks of `count` elements of `type` on `comm`.
 *
 * It is the one that was set, or the one that the tuner chose for root 0, out of place ("direct",
 * "two-level/direct+pairwise"). All ranks get the same. The string is valid as long as `comm`.
 *
 * Errors: NULL, with a message in weft_message(), if there is no such collective, or the algorithm that was set cannot
 * serve that size.
 */
WEFT_API const char *weft_comm_algorithm(weft_comm *comm, const char *collective, size_t count, weft_type type);

/* ---- collectives, blocking ----
 *
 * Each returns when this rank's output is complete and its input may be reused. `count` counts elements of `type` and may
 * be 0. Input and output may be the same memory where "in place" is described, and must not overlap otherwise. All
 * memory works; that of weft_alloc() saves a copy. Between weft_group_start() and weft_group_end() the call returns at
 * once.
 *
 * Errors: WEFT_ERROR_ARGUMENT if a type, op, root, peer, count or buffer is not acceptable, or `comm` is NULL: the
 * operation has not started on this rank, and the context stays whole. WEFT_ERROR_MISMATCH if ranks made different calls
 * (the message names both), WEFT_ERROR_PEER if a rank died or the link to it was cut, WEFT_ERROR_TIMEOUT if a rank that
 * is alive did not come within the time limit, WEFT_ERROR_ABORTED if a rank called weft_abort(), WEFT_ERROR_MEMORY,
 * WEFT_ERROR_SYSTEM or WEFT_ERROR_NETWORK if a rank could not do its part: these break the context on every rank.
 * WEFT_ERROR_STATE on a communicator made before the last weft_shrink().
 */

/**
 * All-reduce: combine `count` elements of all ranks; every rank gets the result, with the same bits.
 *
 * `input` and `output` hold `count` elements of `type`. `op` is any weft_op that is for that type. In place: input ==
 * output.
 */
WEFT_API weft_status weft_allreduce(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                    weft_comm *comm);

/**
 * Reduce-scatter: combine the inputs of all ranks; rank r gets block r of the result.
 *
 * `input` holds ranks x `count` elements, `output` holds `count`. In place: output == input + rank x count.
 */
WEFT_API weft_status weft_reduce_scatter(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                         weft_comm *comm);

/**
 * All-gather: every rank gets the `count` elements of every rank, in rank order.
 *
 * `input` holds `count` elements, `output` holds ranks x `count`. In place: input == output + rank x count.
 */
WEFT_API weft_status weft_allgather(const void *input, void *output, size_t count, weft_type type, weft_comm *comm);

/** Broadcast: copy the `count` elements in the root's `buffer` to `buffer` of every rank. `root` is its rank in `comm`. */
WEFT_API weft_status weft_broadcast(void *buffer, size_t count, weft_type type, int root, weft_comm *comm);

/**
 * Reduce: combine `count` elements of all ranks; the root gets the result.
 *
 * `output` is ignored on other ranks. In place at the root: input == output.
 */
WEFT_API weft_status weft_reduce(const void *input, void *output, size_t count, weft_type type, weft_op op, int root,
                                 weft_comm *comm);

/**
 * Scan: rank r gets the combination of the inputs of ranks 0 to r.
 *
 * `input` and `output` hold `count` elements. Sums are in the canonical order of these ranks (see "The same bits"). Any
 * op but WEFT_AVERAGE. In place: input == output.
 */
WEFT_API weft_status weft_scan(const void *input, void *output, size_t count, weft_type type, weft_op op,
                               weft_comm *comm);

/**
 * Exclusive scan: rank r gets the combination of the inputs of the ranks before it, 0 to r - 1.
 *
 * As weft_scan(). There is none before rank 0: its `output` is ignored.
 */
WEFT_API weft_status weft_exscan(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                 weft_comm *comm);

/**
 * All-to-all: block j of rank i's input becomes block i of rank j's output.
 *
 * `input` and `output` hold ranks x `count` elements, a block of `count` for each rank. In place: input == output.
 */
WEFT_API weft_status weft_alltoall(const void *input, void *output, size_t count, weft_type type, weft_comm *comm);

/**
 * Gather: the root gets the `count` elements of every rank, in rank order.
 *
 * `output` holds ranks x `count` elements at the root and is ignored on other ranks. In place at the root: input ==
 * output + root x count.
 */
WEFT_API weft_status weft_gather(const void *input, void *output, size_t count, weft_type type, int root,
                                 weft_comm *comm);

/**
 * Scatter: rank r gets block r of the root's input, `count` elements.
 *
 * `input` holds ranks x `count` elements at the root and is ignored on other ranks. In place at the root: output ==
 * input + root x count.
 */
WEFT_API weft_status weft_scatter(const void *input, void *output, size_t count, weft_type type, int root,
                                  weft_comm *comm);

/**
 * All-gather of blocks of different sizes.
 *
 * Rank r's input holds counts[r] elements, which are copied to output + displacements[r] (in elements) on every rank;
 * `displacements` NULL packs them in rank order. `counts` and `displacements` have an entry for each rank. Counts are
 * the same on every rank; displacements may differ. In place: input == the place of this rank's block.
 */
WEFT_API weft_status weft_allgatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                                     weft_type type, weft_comm *comm);

/**
 * Gather of blocks of different sizes to the root.
 *
 * This rank's input holds counts[rank] elements. The root's `counts` has an entry for each rank, and blocks are copied to
 * the places described in weft_allgatherv(). Other ranks need not know each other's counts: only counts[rank] is read
 * there, and `output` and `displacements` are ignored. In place at the root: input == the place of its block.
 *
 * Errors: WEFT_ERROR_MISMATCH also if a rank's count differs from what the root expects of it, or the type differs and
 * the count is not 0; the message has both counts.
 */
WEFT_API weft_status weft_gatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                                  weft_type type, int root, weft_comm *comm);

/**
 * Scatter of blocks of different sizes from the root.
 *
 * The root's `counts` has an entry for each rank: rank r gets counts[r] elements from input + displacements[r] (in
 * elements; NULL: the blocks are packed in rank order). Other ranks need not know each other's counts: only
 * counts[rank], the size of their output, is read there, and `input` and `displacements` are ignored. In place at the
 * root: output == the place of its block.
 *
 * Errors: as weft_gatherv().
 */
WEFT_API weft_status weft_scatterv(const void *input, const size_t *counts, const size_t *displacements, void *output,
                                   weft_type type, int root, weft_comm *comm);

/**
 * All-to-all with blocks of different sizes.
 *
 * This rank sends send_counts[j] elements from input + send_displacements[j] to rank j, and receives receive_counts[j]
 * elements from rank j at output + receive_displacements[j]. Each array has an entry for each rank. Displacements are in
 * elements and may be NULL, which packs the blocks in rank order. In place: input == output, and send and receive counts
 * and displacements are the same; then the input's blocks are copied first, which needs as much memory again.
 *
 * Errors: WEFT_ERROR_MISMATCH also if rank i's count for j differs from what j expects of i, or the type differs and the
 * count is not 0; the message has both counts. Ranks that exchange nothing may pass different types.
 */
WEFT_API weft_status weft_alltoallv(const void *input, const size_t *send_counts, const size_t *send_displacements,
                                    void *output, const size_t *receive_counts, const size_t *receive_displacements,
                                    weft_type type, weft_comm *comm);

/** Barrier: wait until every rank of `comm` has called it. */
WEFT_API weft_status weft_barrier(weft_comm *comm);

/**
 * Send `count` elements to another rank of `comm`.
 *
 * Rank `peer` calls weft_receive(). Messages between two ranks of one communicator arrive in order. The two counts and types must agree.
 */
WEFT_API weft_status weft_send(const void *input, size_t count, weft_type type, int peer, weft_comm *comm);

/**
 * Receive `count` elements from another rank of `comm`.
 *
 * Rank `peer` calls weft_send(). Messages between two ranks of one communicator arrive in order. The two counts and types must agree.
 */
WEFT_API weft_status weft_receive(void *output, size_t count, weft_type type, int peer, weft_comm *comm);

/* ---- collectives, as requests ----
 *
 * The same operations, started and finished apart; they move while the caller computes. On success `*request` is a
 * request, which the caller gives to weft_wait(), weft_test() or one of their variants: the one that reports its end
 * frees it. Buffers and arrays of counts belong to the request until then.
 *
 * Errors: WEFT_ERROR_ARGUMENT as for the blocking form, or if `request` is NULL; WEFT_ERROR_STATE on a communicator made
 * before the last weft_shrink(). Later errors are returned by the wait or test that reports the end. On a broken context
 * the status that broke it.
 */

/** Start weft_allreduce() as a request. */
WEFT_API weft_status weft_allreduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                          weft_comm *comm, weft_request **request);

/** Start weft_reduce_scatter() as a request. */
WEFT_API weft_status weft_reduce_scatter_start(const void *input, void *output, size_t count, weft_type type,
                                               weft_op op, weft_comm *comm, weft_request **request);

/** Start weft_allgather() as a request. */
WEFT_API weft_status weft_allgather_start(const void *input, void *output, size_t count, weft_type type,
                                          weft_comm *comm, weft_request **request);

/** Start weft_broadcast() as a request. */
WEFT_API weft_status weft_broadcast_start(void *buffer, size_t count, weft_type type, int root, weft_comm *comm,
                                          weft_request **request);

/** Start weft_reduce() as a request. */
WEFT_API weft_status weft_reduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                       int root, weft_comm *comm, weft_request **request);

/** Start weft_scan() as a request. */
WEFT_API weft_status weft_scan_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                     weft_comm *comm, weft_request **request);

/** Start weft_exscan() as a request. */
WEFT_API weft_status weft_exscan_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                       weft_comm *comm, weft_request **request);

/** Start weft_alltoall() as a request. */
WEFT_API weft_status weft_alltoall_start(const void *input, void *output, size_t count, weft_type type, weft_comm *comm,
                                         weft_request **request);

/** Start weft_gather() as a request. */
WEFT_API weft_status weft_gather_start(const void *input, void *output, size_t count, weft_type type, int root,
                                       weft_comm *comm, weft_request **request);

/** Start weft_scatter() as a request. */
WEFT_API weft_status weft_scatter_start(const void *input, void *output, size_t count, weft_type type, int root,
                                        weft_comm *comm, weft_request **request);

/** Start weft_allgatherv() as a request. */
WEFT_API weft_status weft_allgatherv_start(const void *input, void *output, const size_t *counts,
                                           const size_t *displacements, weft_type type, weft_comm *comm,
                                           weft_request **request);

/** Start weft_gatherv() as a request. */
WEFT_API weft_status weft_gatherv_start(const void *input, void *output, const size_t *counts,
                                        const size_t *displacements, weft_type type, int root, weft_comm *comm,
                                        weft_request **request);

/** Start weft_scatterv() as a request. */
WEFT_API weft_status weft_scatterv_start(const void *input, const size_t *counts, const size_t *displacements,
                                         void *output, weft_type type, int root, weft_comm *comm,
                                         weft_request **request);

/** Start weft_alltoallv() as a request. */
WEFT_API weft_status weft_alltoallv_start(const void *input, const size_t *send_counts,
                                          const size_t *send_displacements, void *output, const size_t *receive_counts,
                                          const size_t *receive_displacements, weft_type type, weft_comm *comm,
                                          weft_request **request);

/** Start weft_barrier() as a request. */
WEFT_API weft_status weft_barrier_start(weft_comm *comm, weft_request **request);

/** Start weft_send() as a request. */
WEFT_API weft_status weft_send_start(const void *input, size_t count, weft_type type, int peer, weft_comm *comm,
                                     weft_request **request);

/** Start weft_receive() as a request. */
WEFT_API weft_status weft_receive_start(void *output, size_t count, weft_type type, int peer, weft_comm *comm,
                                        weft_request **request);

/* ---- waiting for requests ----
 *
 * Only one thread may wait for or test a request. Requests that are waited for together belong to one context. A request
 * whose operation failed has ended too, and returns the operation's status.
 *
 * Errors: those of the request's operation, listed in weft_allreduce(); WEFT_ERROR_STATE for a request of a group before
 * weft_group_end(), which then has not ended; WEFT_ERROR_ARGUMENT if a place for a result is NULL.
 */

/** Wait until `*request` has ended, free it and set it to NULL. If it is NULL already, return WEFT_OK. */
WEFT_API weft_status weft_wait(weft_request **request);

/**
 * Test whether `*request` has ended, and free it if so.
 *
 * As weft_wait(), but returns at once: `*done` is whether it has ended (and was freed and set to NULL).
 */
WEFT_API weft_status weft_test(weft_request **request, bool *done);

/**
 * Test whether `request` has ended, without freeing it.
 *
 * Returns at once. If it has ended, `*done` is true, also in later calls, and the status is that of its operation. It
 * must still be given to weft_wait() or weft_test(). A NULL request has ended.
 */
WEFT_API weft_status weft_request_done(weft_request *request, bool *done);

/**
 * Wait until one of `count` requests has ended, and free it.
 *
 * `*index` is its index in `requests`, where it is set to NULL; -1 if all were NULL.
 */
WEFT_API weft_status weft_wait_any(weft_request **requests, int count, int *index);

/**
 * Wait until at least one of `count` requests has ended, and free all that have.
 *
 * indices[0] to indices[*ended - 1] are their indices in `requests`, ascending; each is set to NULL there. `indices` has
 * room for `count`. `*ended` is 0 only if all were NULL. Returns the first error of those that ended.
 */
WEFT_API weft_status weft_wait_some(weft_request **requests, int count, int *indices, int *ended);

/**
 * Test which of `count` requests have ended, and free those.
 *
 * As weft_wait_some(), but returns at once: `*ended` is 0 if none has ended.
 */
WEFT_API weft_status weft_test_some(weft_request **requests, int count, int *indices, int *ended);

/** Wait until all of `count` requests have ended, and free them. Returns the first error after all have ended. */
WEFT_API weft_status weft_wait_all(weft_request **requests, int count);

/* ---- groups ----
 *
 * Calls between weft_group_start() and weft_group_end() start together at the end, so that sends and receives in any
 * order cannot block each other. Blocking calls in a group return at once and complete in weft_group_end(). Groups do
 * not nest.
 */

/**
 * Begin a group of operations.
 *
 * Errors: WEFT_ERROR_ARGUMENT if `context` is NULL; WEFT_ERROR_STATE in a group. On a broken context, the status that
 * broke it; the group has begun all the same.
 */
WEFT_API weft_status weft_group_start(weft_context *context);

/**
 * Start all operations of the group, and wait for those that were blocking calls.
 *
 * Errors: the first error of the blocking operations, listed in weft_allreduce(); WEFT_ERROR_ARGUMENT if `context` is
 * NULL; WEFT_ERROR_STATE without weft_group_start().
 */
WEFT_API weft_status weft_group_end(weft_context *context);

#ifdef __cplusplus
}
#endif

#endif
