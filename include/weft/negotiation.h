/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/negotiation.h: collectives by name, which ranks may submit in different orders. Link with libweft.
 *
 * The collectives of weft/weft.h must start in the same order on all ranks. Programs whose gradients become ready in an
 * order of their own, one for each rank, cannot promise that. A *negotiator* takes operations that have names, finds
 * out which ones all ranks have submitted, and runs those in one order:
 *
 *     weft_negotiator *negotiator;
 *     weft_negotiator_open(weft_world(context), NULL, &negotiator);
 *     const int64_t shape[] = {rows, columns};
 *     const weft_tensor tensor = {gradient, gradient, WEFT_F32, 2, shape};
 *     const weft_named_call call = {.kind = WEFT_NAMED_ALLREDUCE, .name = "layer1.weight", .tensors = &tensor,
 *                                   .count = 1, .op = WEFT_OP_AVERAGE, .prescale = 1, .postscale = 1};
 *     weft_operation *operation;
 *     weft_operation_submit(negotiator, &call, &operation);
 *     ... // compute
 *     if (weft_operation_wait(operation) != WEFT_OK)
 *         fprintf(stderr, "%s\n", weft_message(NULL));
 *     weft_operation_free(operation);
 *
 * ## How it works
 *
 * A round begins when this rank has submitted something. Ranks combine a bit for each operation that they know from
 * earlier rounds: what all have submitted runs, in one order. Operations that are new, or come with another shape or
 * type, are described to all ranks once, and compared. A rank that has nothing to do joins the round that others wait
 * in after a second at the latest. Small all-reduces are copied together and run as one. Rounds are run by the thread
 * that waits for an operation, or otherwise by a thread of the negotiator.
 *
 * ## Failures
 *
 * Where ranks submit different operations under one name, that operation fails on all of them with WEFT_ERROR_MISMATCH
 * and a message with both; others go on. So do they when an operation cannot run because ranks have joined. All other
 * failures end the negotiator: they break the context as in weft/weft.h, and all unfinished and later operations return
 * them. An operation that some ranks have not submitted for stall_seconds is named on rank 0's stderr, with the ranks
 * that are missing.
 *
 * The message of every function here is weft_message(NULL), of the calling thread.
 *
 * ## Threads
 *
 * Any thread may submit, test and wait; only one thread at a time may use one operation. Opening and closing must not
 * run at the same time as other calls with that negotiator.
 *
 * A negotiator that is open makes calls on its context at any time. So until it is closed, or has ended with a failure,
 * weft_group_start(), weft_shrink(), weft_grow() and weft_finalize() must not be called, and other negotiators and
 * communicators are made and freed only while nothing is submitted.
 */
#ifndef WEFT_NEGOTIATION_H
#define WEFT_NEGOTIATION_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_negotiator weft_negotiator;
typedef struct weft_operation weft_operation;

/**
 * Settings of a negotiator. Set `size` to sizeof(weft_negotiator_config) and the rest to zero
 * (WEFT_NEGOTIATOR_CONFIG_DEFAULT does); zero means the default. Those of rank 0 hold for all ranks.
 */
typedef struct weft_negotiator_config {
    size_t size;           /**< sizeof(weft_negotiator_config) */
    uint64_t fusion_bytes; /**< most bytes that are copied together; default 128 MiB, 1 fuses nothing */
    double cycle_seconds;  /**< pause after a round in which nothing could run, longer after several; default 0.001 */
    int cache_operations;  /**< operations remembered from earlier rounds; default 1024, negative: none */
    double stall_seconds;  /**< after which a missing rank is named; default 60, negative: never */
    double stall_end_seconds; /**< after which the negotiator ends; default: never */
} weft_negotiator_config;
#define WEFT_NEGOTIATOR_CONFIG_DEFAULT                                                                                 \
    {                                                                                                                  \
        sizeof(weft_negotiator_config), 0, 0, 0, 0, 0                                                                  \
    }

typedef enum weft_named_kind {
    WEFT_NAMED_ALLREDUCE,
    WEFT_NAMED_ADASUM,    /**< an all-reduce that scales contributions by their angles; floats, 2^k ranks */
    WEFT_NAMED_ALLGATHER, /**< the first extents of the tensors may differ */
    WEFT_NAMED_BROADCAST,
    WEFT_NAMED_ALLTOALL,       /**< the rows for each rank are in `splits` */
    WEFT_NAMED_REDUCE_SCATTER, /**< rows are divided; the first ranks get one more where they do not divide evenly */
    WEFT_NAMED_BARRIER,        /**< no tensors */
    WEFT_NAMED_JOIN,           /**< no tensors; see weft_operation_submit() */
} weft_named_kind;
#define WEFT_NAMED_KINDS 8

/** The name of a kind ("allreduce", "reduce_scatter"). Static string; "unknown" for a value that is no kind. Any thread. */
WEFT_API const char *weft_named_kind_name(weft_named_kind kind);

/** A tensor: elements in row-major order. A *row* is what one index of the first dimension selects. */
typedef struct weft_tensor {
    const void *input;
    void *output; /**< NULL for all-gather and all-to-all, whose results the operation owns */
    weft_type type;
    int dimensions;
    const int64_t *shape; /**< [dimensions] */
} weft_tensor;

/** An operation to submit. Names and arrays are copied; the tensors' memory belongs to the operation until it ends. */
typedef struct weft_named_call {
    weft_named_kind kind;
    const char *name;
    const weft_tensor *tensors; /**< several form a group: they run once all ranks have submitted all of them */
    int count;
    weft_op_kind op;       /**< sum, average, product, min or max; of reductions */
    double prescale;       /**< of reductions: inputs are multiplied by it; products of integers must fit the type */
    double postscale;      /**< the same of the result */
    int root;              /**< of a broadcast: its rank in the communicator */
    const int64_t *splits; /**< all-to-all: rows for each rank, which add up to the first extent; NULL: equal parts */
    bool waits; /**< the caller calls weft_operation_wait() at once, so the negotiator's thread need not wake up */
} weft_named_call;

/**
 * Open a negotiator for the ranks of `comm`.
 *
 * Collective over `comm`; it works on a duplicate. `config` may be NULL: all defaults. Close it with
 * weft_negotiator_close().
 *
 * Errors: WEFT_ERROR_ARGUMENT if an argument is not acceptable; WEFT_ERROR_MEMORY; WEFT_ERROR_SYSTEM if the thread
 * cannot be started; those of weft_comm_duplicate().
 */
WEFT_API weft_status weft_negotiator_open(weft_comm *comm, const weft_negotiator_config *config,
                                          weft_negotiator **negotiator);

/**
 * End a negotiator on all ranks, and free this rank's part.
 *
 * Unfinished and later operations of all ranks fail with WEFT_ERROR_STATE. Returns when the other ranks know it, which
 * takes a second if they are idle. Operations may still be waited for, and are freed by weft_operation_free(). NULL is
 * allowed.
 *
 * Errors: those of the round that tells the others; the negotiator has ended all the same.
 */
WEFT_API weft_status weft_negotiator_close(weft_negotiator *negotiator);

/**
 * Write a timeline of the operations to a file, as Chrome's trace events: for each operation the time from its
 * submission until all ranks have submitted it, then its parts.
 *
 * Only rank 0 writes; on others nothing happens. The file is complete JSON after each round. `path` NULL ends the
 * timeline. `mark_rounds`: the beginnings of rounds are marked.
 *
 * Errors: WEFT_ERROR_SYSTEM if the file cannot be created; WEFT_ERROR_ARGUMENT if `negotiator` is NULL.
 */
WEFT_API weft_status weft_negotiator_timeline(weft_negotiator *negotiator, const char *path, bool mark_rounds);

/**
 * Submit an operation.
 *
 * It runs once all ranks have submitted one of the same name, and `*operation` must be given to weft_operation_free()
 * after its end. Names may be used again afterwards. Ranks must agree on everything but the first extents of all-gathers
 * and all-to-alls.
 *
 * WEFT_NAMED_JOIN says that this rank submits nothing more until all ranks have joined, which ends the operation. Until
 * then it takes part in the others' all-reduces with zeros; other operations, and Adasum, fail.
 *
 * Errors: WEFT_ERROR_ARGUMENT if an argument is not acceptable, or an operation of this name is in flight on this rank;
 * WEFT_ERROR_STATE after a join that has not ended; WEFT_ERROR_MEMORY; if the negotiator has ended, the status that
 * ended it.
 */
WEFT_API weft_status weft_operation_submit(weft_negotiator *negotiator, const weft_named_call *call,
                                           weft_operation **operation);

/** Whether the operation has ended, well or not. Does not run rounds. `operation` must not be NULL. */
WEFT_API bool weft_operation_done(const weft_operation *operation);

/**
 * Wait until the operation has ended.
 *
 * Errors: WEFT_ERROR_MISMATCH if ranks disagree about it; WEFT_ERROR_STATE if the negotiator was closed, or a rank has
 * joined and the operation cannot run without it; WEFT_ERROR_MEMORY if the result does not fit; otherwise the failure
 * that ended the negotiator.
 */
WEFT_API weft_status weft_operation_wait(weft_operation *operation);

/**
 * The result of an all-gather or all-to-all that has ended well.
 *
 * `*rows` has, for each rank, the number of rows that came from it; `*data` has all rows, in rank order. Both belong to
 * the operation. `tensor` is the index in the call's tensors.
 *
 * Errors: WEFT_ERROR_STATE if it has no such result; WEFT_ERROR_ARGUMENT.
 */
WEFT_API weft_status weft_operation_result(const weft_operation *operation, int tensor, const int64_t **rows,
                                           const void **data);

/** The rank that joined last, of a join that has ended well; -1 otherwise. `operation` must not be NULL. */
WEFT_API int weft_operation_last_joined(const weft_operation *operation);

/** Free an operation that has ended; of one that has not, wait for its end first. NULL is allowed. */
WEFT_API void weft_operation_free(weft_operation *operation);

#ifdef __cplusplus
}
#endif
#endif
