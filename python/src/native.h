/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The extension weft._native: libweft's calls, one to one, for the Python code of the package.
 *
 * Contexts, communicators, requests and reporters are capsules; buffers are addresses. The Python code checks arguments,
 * keeps buffers alive and turns failures into exceptions: a call returns None on success and otherwise a tuple of the
 * status and the message. Calls that may wait release the interpreter's lock. Only CPython's limited API is used, so one
 * binary serves CPython 3.9 and later.
 */
#ifndef WEFT_PYTHON_NATIVE_H
#define WEFT_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <weft/report.h>
#include <weft/weft.h>

#define NATIVE_PROCESS  "weft.process"
#define NATIVE_CONTEXT  "weft.context"
#define NATIVE_COMM     "weft.communicator"
#define NATIVE_REQUEST  "weft.request"
#define NATIVE_REPORTER "weft.reporter"

/** None, or the tuple (status, message) of a failure; `context` may be NULL. A new reference. */
PyObject *native_outcome(weft_status status, const weft_context *context);

/** A new str; bytes that are no UTF-8 (libweft cuts long messages) are replaced. */
PyObject *native_text(const char *text);

/** A function that takes its arguments as a tuple. */
typedef PyObject *native_function(PyObject *self, PyObject *arguments);

/* ---- contexts.c: jobs and memory ---- */

/**
 * process(heap_bytes) -> outcome, process: memory that outlives contexts, so that an array in it may outlive them, too.
 * It is never closed.
 */
native_function native_process;
/** open(process, rank, ranks, rendezvous, secret, node, fabric, interface, limit, time_limit) -> outcome, context */
native_function native_open;
/** close(context) -> outcome; the capsule must not be used again */
native_function native_close;
/** shrink(context) -> outcome: go on without the ranks that are lost; ask for the world again afterwards */
native_function native_shrink;
/** grow(context) -> outcome: admit ranks that wait, release those that are to leave; ask for the world again afterwards */
native_function native_grow;
/** waiting(context) -> how many ranks wait or are to leave, as far as this rank knows */
native_function native_waiting;
/** epoch(context) -> how often the world has changed */
native_function native_epoch;
/** abort(context, reason) */
native_function native_abort;
/** allocate(context, bytes) -> outcome, address */
native_function native_allocate;
/** release(context, address) */
native_function native_release;

/* ---- communicators.c ---- */

/** world(context) -> communicator, or None if this rank has left the job */
native_function native_world;
/** describe(communicator) -> rank, size, local rank, local size, node, nodes */
native_function native_describe;
/** host(communicator, rank) -> name */
native_function native_host;
/** split(communicator, color, key) -> outcome, communicator or None */
native_function native_split;
/** subset(communicator, ranks) -> outcome, communicator or None; `ranks` is a tuple */
native_function native_subset;
/** free(communicator) -> outcome */
native_function native_free;
/** set_algorithm(communicator, collective, algorithm) -> outcome */
native_function native_set_algorithm;
/** set_reproducible(communicator, reproducible) -> outcome */
native_function native_set_reproducible;
/** set_time_limit(communicator, seconds) -> outcome */
native_function native_set_time_limit;

/* ---- operations.c: collectives and messages ---- */

/** The names of the operations, in the order of their numbers; a new tuple. */
PyObject *native_operation_names(void);
/**
 * run(communicator, number, input, output, count, type, op, factor, root, vectors) -> outcome
 *
 * `root` is the peer of a message. `vectors`: None, or four bytes objects or None: counts and displacements of the
 * input, counts and displacements of the output, packed as size_t.
 */
native_function native_run;
/** start(the same) -> outcome, request. Buffers and vectors must stay until the request is done. */
native_function native_start;
/** wait(communicator, request) -> outcome; the capsule must not be used again */
native_function native_wait;
/** done(communicator, request) -> outcome, done */
native_function native_done;
/** group(context, begins) -> outcome: begin or end a group of calls */
native_function native_group;

/* ---- negotiation.c: operations by name ---- */

/** negotiator_open(communicator, fusion_bytes, cycle, cache, stall, stall_end) -> outcome, negotiator */
native_function native_negotiator_open;
/** negotiator_close(negotiator) -> outcome; the capsule must not be used again */
native_function native_negotiator_close;
/** negotiator_timeline(negotiator, path or None, mark_rounds) -> outcome */
native_function native_negotiator_timeline;
/**
 * submit(negotiator, kind, name, tensors, op, prescale, postscale, root, splits, waits) -> outcome, operation
 *
 * `tensors` is a tuple of (input, output, type, shape), `splits` None or a tuple. The memory must stay until the
 * operation has ended.
 */
native_function native_submit;
/** operation_done(operation) -> bool */
native_function native_operation_done;
/** operation_wait(operation) -> outcome */
native_function native_operation_wait;
/** operation_rows(operation, tensor, ranks) -> outcome, rows */
native_function native_operation_rows;
/** operation_copy(operation, tensor, address, bytes) -> outcome: copy the result there */
native_function native_operation_copy;
/** operation_last_joined(operation) -> rank */
native_function native_operation_last_joined;
/** operation_free(operation): waits for its end; the capsule must not be used again */
native_function native_operation_free;

/* ---- reporters.c ---- */

/** reporter(path) -> outcome, reporter or None (nothing is reported) */
native_function native_reporter;
/** report(reporter, name, step, value) -> outcome */
native_function native_report;
/** progress(reporter, done, total, seconds_left) -> outcome */
native_function native_progress;
/** flush(reporter) -> outcome */
native_function native_flush;

#endif
