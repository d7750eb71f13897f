/* SPDX-License-Identifier: Apache-2.0 */
/* weft/negotiation.h: operations by name. Their messages belong to the thread that made the call. */
#include "native.h"

#include <weft/negotiation.h>

#include <stdlib.h>
#include <string.h>

#define NEGOTIATOR "weft.negotiator"
#define OPERATION  "weft.operation"

PyObject *native_negotiator_open(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long fusion_bytes;
    weft_negotiator_config config = WEFT_NEGOTIATOR_CONFIG_DEFAULT;
    weft_negotiator *negotiator = NULL;
    weft_comm *comm;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "OKdidd", &capsule, &fusion_bytes, &config.cycle_seconds, &config.cache_operations,
                          &config.stall_seconds, &config.stall_end_seconds) ||
        !(comm = PyCapsule_GetPointer(capsule, NATIVE_COMM)))
        return NULL;
    config.fusion_bytes = fusion_bytes;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_negotiator_open(comm, &config, &negotiator);
    PyEval_RestoreThread(thread);
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(negotiator, NEGOTIATOR, NULL));
}

PyObject *native_negotiator_close(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_negotiator *negotiator;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(negotiator = PyCapsule_GetPointer(capsule, NEGOTIATOR)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_negotiator_close(negotiator);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

PyObject *native_negotiator_timeline(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    const char *path;
    int mark_rounds;
    weft_negotiator *negotiator;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "Ozp", &capsule, &path, &mark_rounds) ||
        !(negotiator = PyCapsule_GetPointer(capsule, NEGOTIATOR)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_negotiator_timeline(negotiator, path, mark_rounds);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

/* ---- operations ---- */

/* The numbers of a tuple, malloc'ed, appended to *numbers; -1 with an exception. */
static Py_ssize_t append_numbers(PyObject *tuple, int64_t **numbers, size_t *count)
{
    const Py_ssize_t size = PyTuple_Size(tuple);
    int64_t *grown = size < 0 ? NULL : realloc(*numbers, (*count + (size_t)size + 1) * sizeof **numbers);
    if (!grown) {
        if (size >= 0)
            PyErr_NoMemory();
        return -1;
    }
    *numbers = grown;
    for (Py_ssize_t i = 0; i < size; i++) {
        grown[*count] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (grown[(*count)++] == -1 && PyErr_Occurred())
            return -1;
    }
    return size;
}

/* What a call owns while it is submitted. */
struct arrays {
    weft_tensor *tensors;
    int64_t *numbers; /* the shapes, and then the splits */
};

/* The tensors of a tuple of (input, output, type, shape). False with an exception set. */
static int read_tensors(PyObject *tuple, PyObject *splits, weft_named_call *call, struct arrays *arrays)
{
    const Py_ssize_t count = PyTuple_Size(tuple);
    size_t numbers = 0;
    if (count < 0)
        return 0;
    if (!(arrays->tensors = calloc((size_t)count + 1, sizeof *arrays->tensors)))
        return PyErr_NoMemory(), 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long long input, output;
        int type;
        PyObject *shape, *item = PyTuple_GetItem(tuple, i);
        if (!item || !PyArg_ParseTuple(item, "KKiO", &input, &output, &type, &shape))
            return 0;
        const Py_ssize_t dimensions = append_numbers(shape, &arrays->numbers, &numbers);
        if (dimensions < 0)
            return 0;
        arrays->tensors[i] = (weft_tensor){(const void *)(uintptr_t)input, (void *)(uintptr_t)output, (weft_type)type,
                                           (int)dimensions, NULL};
    }
    const size_t first_split = numbers;
    if (splits != Py_None && append_numbers(splits, &arrays->numbers, &numbers) < 0)
        return 0;
    int64_t *place = arrays->numbers;
    for (Py_ssize_t i = 0; i < count; place += arrays->tensors[i++].dimensions)
        arrays->tensors[i].shape = place;
    call->tensors = arrays->tensors;
    call->count = (int)count;
    call->splits = splits != Py_None ? arrays->numbers + first_split : NULL;
    return 1;
}

PyObject *native_submit(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *tensors, *splits;
    int kind, op, waits;
    weft_named_call call = {0};
    struct arrays arrays = {0};
    weft_negotiator *negotiator;
    weft_operation *operation = NULL;
    weft_status status = WEFT_OK;
    if (!PyArg_ParseTuple(arguments, "OisOiddiOp", &capsule, &kind, &call.name, &tensors, &op, &call.prescale,
                          &call.postscale, &call.root, &splits, &waits) ||
        !(negotiator = PyCapsule_GetPointer(capsule, NEGOTIATOR)))
        return NULL;
    call.kind = (weft_named_kind)kind;
    call.op = (weft_op_kind)op;
    call.waits = waits;
    const int read = read_tensors(tensors, splits, &call, &arrays);
    if (read) {
        PyThreadState *thread = PyEval_SaveThread();
        status = weft_operation_submit(negotiator, &call, &operation);
        PyEval_RestoreThread(thread);
    }
    free(arrays.tensors);
    free(arrays.numbers);
    if (!read)
        return NULL;
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(operation, OPERATION, NULL));
}

static weft_operation *operation_of(PyObject *arguments)
{
    PyObject *capsule;
    return PyArg_ParseTuple(arguments, "O", &capsule) ? PyCapsule_GetPointer(capsule, OPERATION) : NULL;
}

PyObject *native_operation_done(PyObject *self, PyObject *arguments)
{
    const weft_operation *operation = operation_of(arguments);
    return operation ? PyBool_FromLong(weft_operation_done(operation)) : NULL;
}

PyObject *native_operation_wait(PyObject *self, PyObject *arguments)
{
    weft_operation *operation = operation_of(arguments);
    weft_status status;
    if (!operation)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_operation_wait(operation);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

PyObject *native_operation_rows(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int tensor, ranks;
    const int64_t *rows;
    const void *data;
    weft_operation *operation;
    if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &tensor, &ranks) ||
        !(operation = PyCapsule_GetPointer(capsule, OPERATION)))
        return NULL;
    const weft_status status = weft_operation_result(operation, tensor, &rows, &data);
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    PyObject *tuple = PyTuple_New(ranks);
    for (int r = 0; tuple && r < ranks; r++)
        PyTuple_SetItem(tuple, r, PyLong_FromLongLong(rows[r]));
    return tuple ? Py_BuildValue("ON", Py_None, tuple) : NULL;
}

PyObject *native_operation_copy(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int tensor;
    unsigned long long target, bytes;
    const int64_t *rows;
    const void *data;
    weft_operation *operation;
    if (!PyArg_ParseTuple(arguments, "OiKK", &capsule, &tensor, &target, &bytes) ||
        !(operation = PyCapsule_GetPointer(capsule, OPERATION)))
        return NULL;
    const weft_status status = weft_operation_result(operation, tensor, &rows, &data);
    if (status == WEFT_OK && bytes > 0) {
        PyThreadState *thread = PyEval_SaveThread();
        memcpy((void *)(uintptr_t)target, data, bytes);
        PyEval_RestoreThread(thread);
    }
    return native_outcome(status, NULL);
}

PyObject *native_operation_last_joined(PyObject *self, PyObject *arguments)
{
    const weft_operation *operation = operation_of(arguments);
    return operation ? PyLong_FromLong(weft_operation_last_joined(operation)) : NULL;
}

PyObject *native_operation_free(PyObject *self, PyObject *arguments)
{
    weft_operation *operation = operation_of(arguments);
    if (!operation)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    weft_operation_free(operation);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}
