/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and messages: one table, from which blocking and started calls are made. */
#include "native.h"

struct arguments {
    weft_comm *comm;
    void *input, *output;
    size_t count;
    weft_type type;
    weft_op op;
    int root; /* or the peer of a message */
    const size_t *input_counts, *input_displacements, *output_counts, *output_displacements;
};

#define OPERATION(name, ...)                                                                                           \
    static weft_status run_##name(const struct arguments *a)                                                           \
    {                                                                                                                  \
        return weft_##name(__VA_ARGS__);                                                                               \
    }                                                                                                                  \
    static weft_status start_##name(const struct arguments *a, weft_request **request)                                 \
    {                                                                                                                  \
        return weft_##name##_start(__VA_ARGS__, request);                                                              \
    }
OPERATION(allreduce, a->input, a->output, a->count, a->type, a->op, a->comm)
OPERATION(reduce_scatter, a->input, a->output, a->count, a->type, a->op, a->comm)
OPERATION(allgather, a->input, a->output, a->count, a->type, a->comm)
OPERATION(broadcast, a->output, a->count, a->type, a->root, a->comm)
OPERATION(reduce, a->input, a->output, a->count, a->type, a->op, a->root, a->comm)
OPERATION(scan, a->input, a->output, a->count, a->type, a->op, a->comm)
OPERATION(exscan, a->input, a->output, a->count, a->type, a->op, a->comm)
OPERATION(alltoall, a->input, a->output, a->count, a->type, a->comm)
OPERATION(gather, a->input, a->output, a->count, a->type, a->root, a->comm)
OPERATION(scatter, a->input, a->output, a->count, a->type, a->root, a->comm)
OPERATION(allgatherv, a->input, a->output, a->output_counts, a->output_displacements, a->type, a->comm)
OPERATION(gatherv, a->input, a->output, a->output_counts, a->output_displacements, a->type, a->root, a->comm)
OPERATION(scatterv, a->input, a->input_counts, a->input_displacements, a->output, a->type, a->root, a->comm)
OPERATION(alltoallv, a->input, a->input_counts, a->input_displacements, a->output, a->output_counts,
          a->output_displacements, a->type, a->comm)
OPERATION(barrier, a->comm)
OPERATION(send, a->input, a->count, a->type, a->root, a->comm)
OPERATION(receive, a->output, a->count, a->type, a->root, a->comm)

#define ENTRY(name)                                                                                                    \
    {                                                                                                                  \
#name, run_##name, start_##name                                                                                \
    }
static const struct {
    const char *name;
    weft_status (*run)(const struct arguments *arguments);
    weft_status (*start)(const struct arguments *arguments, weft_request **request);
} operations[] = {
    ENTRY(allreduce), ENTRY(reduce_scatter), ENTRY(allgather), ENTRY(broadcast), ENTRY(reduce),     ENTRY(scan),
    ENTRY(exscan),    ENTRY(alltoall),       ENTRY(gather),    ENTRY(scatter),   ENTRY(allgatherv), ENTRY(gatherv),
    ENTRY(scatterv),  ENTRY(alltoallv),      ENTRY(barrier),   ENTRY(send),      ENTRY(receive),
};
#define OPERATIONS ((int)(sizeof operations / sizeof *operations))

PyObject *native_operation_names(void)
{
    PyObject *names = PyTuple_New(OPERATIONS);
    for (int i = 0; names && i < OPERATIONS; i++) {
        PyObject *name = PyUnicode_FromString(operations[i].name);
        if (!name || PyTuple_SetItem(names, i, name) != 0) {
            Py_DECREF(names);
            return NULL;
        }
    }
    return names;
}

/* Entry `number` of the vectors, an entry for each rank; NULL with no exception: None. */
static const size_t *vector_of(PyObject *vectors, int number, int ranks)
{
    PyObject *entry = PyTuple_GetItem(vectors, number);
    if (!entry || entry == Py_None)
        return NULL;
    if (PyBytes_Size(entry) != (Py_ssize_t)((size_t)ranks * sizeof(size_t))) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "counts and displacements must have an entry for each of the %d ranks",
                         ranks);
        return NULL;
    }
    return (const size_t *)(const void *)PyBytes_AsString(entry);
}

/* False with an exception set. */
static int read_arguments(PyObject *tuple, int *number, struct arguments *read)
{
    PyObject *comm, *vectors;
    unsigned long long input, output, count;
    int type, op;
    if (!PyArg_ParseTuple(tuple, "OiKKKiidiO", &comm, number, &input, &output, &count, &type, &op, &read->op.factor,
                          &read->root, &vectors) ||
        !(read->comm = PyCapsule_GetPointer(comm, NATIVE_COMM)))
        return 0;
    if (*number < 0 || *number >= OPERATIONS) {
        PyErr_Format(PyExc_ValueError, "there is no operation %d", *number);
        return 0;
    }
    read->input = (void *)(uintptr_t)input;
    read->output = (void *)(uintptr_t)output;
    read->count = count;
    read->type = (weft_type)type;
    read->op.kind = (weft_op_kind)op;
    if (vectors == Py_None)
        return 1;
    const int ranks = weft_comm_size(read->comm);
    read->input_counts = vector_of(vectors, 0, ranks);
    read->input_displacements = vector_of(vectors, 1, ranks);
    read->output_counts = vector_of(vectors, 2, ranks);
    read->output_displacements = vector_of(vectors, 3, ranks);
    return !PyErr_Occurred();
}

PyObject *native_run(PyObject *self, PyObject *tuple)
{
    struct arguments arguments = {0};
    int number;
    weft_status status;
    if (!read_arguments(tuple, &number, &arguments))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = operations[number].run(&arguments);
    PyEval_RestoreThread(thread);
    return native_outcome(status, weft_comm_context(arguments.comm));
}

PyObject *native_start(PyObject *self, PyObject *tuple)
{
    struct arguments arguments = {0};
    int number;
    weft_request *request = NULL;
    weft_status status;
    if (!read_arguments(tuple, &number, &arguments))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = operations[number].start(&arguments, &request);
    PyEval_RestoreThread(thread);
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, weft_comm_context(arguments.comm)), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(request, NATIVE_REQUEST, NULL));
}

/* False with an exception set. */
static int read_request(PyObject *tuple, weft_comm **comm, weft_request **request)
{
    PyObject *first, *second;
    return PyArg_ParseTuple(tuple, "OO", &first, &second) && (*comm = PyCapsule_GetPointer(first, NATIVE_COMM)) &&
           (*request = PyCapsule_GetPointer(second, NATIVE_REQUEST));
}

PyObject *native_wait(PyObject *self, PyObject *tuple)
{
    weft_comm *comm;
    weft_request *request;
    weft_status status;
    if (!read_request(tuple, &comm, &request))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_wait(&request);
    PyEval_RestoreThread(thread);
    return native_outcome(status, weft_comm_context(comm));
}

PyObject *native_done(PyObject *self, PyObject *tuple)
{
    weft_comm *comm;
    weft_request *request;
    bool done = false;
    weft_status status;
    if (!read_request(tuple, &comm, &request))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_request_done(request, &done);
    PyEval_RestoreThread(thread);
    return Py_BuildValue("NO", native_outcome(done ? WEFT_OK : status, weft_comm_context(comm)),
                         done ? Py_True : Py_False);
}

PyObject *native_group(PyObject *self, PyObject *tuple)
{
    PyObject *capsule;
    int begins;
    weft_context *context;
    weft_status status;
    if (!PyArg_ParseTuple(tuple, "Op", &capsule, &begins) || !(context = PyCapsule_GetPointer(capsule, NATIVE_CONTEXT)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = begins ? weft_group_start(context) : weft_group_end(context);
    PyEval_RestoreThread(thread);
    return native_outcome(status, context);
}
