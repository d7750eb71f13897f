/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: joining and leaving a job, going on after failures, and memory in its shared heap. */
#include "native.h"

static weft_context *context_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, NATIVE_CONTEXT);
}

PyObject *native_process(PyObject *self, PyObject *arguments)
{
    unsigned long long heap_bytes;
    weft_process *process = NULL;
    if (!PyArg_ParseTuple(arguments, "K", &heap_bytes))
        return NULL;
    const weft_status status = weft_process_open(heap_bytes, &process);
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(process, NATIVE_PROCESS, NULL));
}

PyObject *native_open(PyObject *self, PyObject *arguments)
{
    PyObject *process;
    weft_config config = WEFT_CONFIG_DEFAULT;
    weft_context *context = NULL;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "Oiizzzzzdd", &process, &config.rank, &config.ranks, &config.rendezvous,
                          &config.secret, &config.node, &config.fabric, &config.interface, &config.rendezvous_limit,
                          &config.time_limit) ||
        !(config.process = PyCapsule_GetPointer(process, NATIVE_PROCESS)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_init(&config, &context);
    PyEval_RestoreThread(thread);
    if (status != WEFT_OK)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(context, NATIVE_CONTEXT, NULL));
}

PyObject *native_close(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_context *context;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(context = context_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_finalize(context);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

/* weft_shrink() or weft_grow(). */
static PyObject *renew_world(PyObject *arguments, weft_status (*renew)(weft_context *context))
{
    PyObject *capsule;
    weft_context *context;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(context = context_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = renew(context);
    PyEval_RestoreThread(thread);
    return native_outcome(status, context);
}

PyObject *native_shrink(PyObject *self, PyObject *arguments)
{
    return renew_world(arguments, weft_shrink);
}

PyObject *native_grow(PyObject *self, PyObject *arguments)
{
    return renew_world(arguments, weft_grow);
}

PyObject *native_waiting(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_context *context;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(context = context_of(capsule)))
        return NULL;
    return PyLong_FromLong(weft_waiting(context));
}

PyObject *native_epoch(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_context *context;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(context = context_of(capsule)))
        return NULL;
    return PyLong_FromLong(weft_epoch(context));
}

PyObject *native_abort(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    const char *reason;
    weft_context *context;
    if (!PyArg_ParseTuple(arguments, "Os", &capsule, &reason) || !(context = context_of(capsule)))
        return NULL;
    weft_abort(context, reason);
    Py_RETURN_NONE;
}

PyObject *native_allocate(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long bytes;
    weft_context *context;
    void *place;
    if (!PyArg_ParseTuple(arguments, "OK", &capsule, &bytes) || !(context = context_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    place = weft_alloc(context, bytes);
    PyEval_RestoreThread(thread);
    return Py_BuildValue("NK", native_outcome(place ? WEFT_OK : WEFT_ERROR_MEMORY, context),
                         (unsigned long long)(uintptr_t)place);
}

PyObject *native_release(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long address;
    weft_context *context;
    if (!PyArg_ParseTuple(arguments, "OK", &capsule, &address) || !(context = context_of(capsule)))
        return NULL;
    weft_free(context, (void *)(uintptr_t)address);
    Py_RETURN_NONE;
}
