/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: what they are, how they are made, and their settings. */
#include "native.h"

#include <stdlib.h>

static weft_comm *comm_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, NATIVE_COMM);
}

/* (outcome, communicator): None as the communicator after a failure, or of a rank that is not in it. */
static PyObject *made_comm(weft_status status, weft_comm *parent, weft_comm *made)
{
    if (status != WEFT_OK || !made)
        return Py_BuildValue("NO", native_outcome(status, weft_comm_context(parent)), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(made, NATIVE_COMM, NULL));
}

PyObject *native_world(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_context *context;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(context = PyCapsule_GetPointer(capsule, NATIVE_CONTEXT)))
        return NULL;
    weft_comm *world = weft_world(context);
    if (!world)
        Py_RETURN_NONE;
    return PyCapsule_New(world, NATIVE_COMM, NULL);
}

PyObject *native_describe(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_comm *comm;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(comm = comm_of(capsule)))
        return NULL;
    return Py_BuildValue("iiiiii", weft_comm_rank(comm), weft_comm_size(comm), weft_comm_local_rank(comm),
                         weft_comm_local_size(comm), weft_comm_node(comm), weft_comm_nodes(comm));
}

PyObject *native_host(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int rank;
    weft_comm *comm;
    if (!PyArg_ParseTuple(arguments, "Oi", &capsule, &rank) || !(comm = comm_of(capsule)))
        return NULL;
    return native_text(weft_comm_host(comm, rank));
}

PyObject *native_split(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int color, key;
    weft_comm *comm, *made = NULL;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &color, &key) || !(comm = comm_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_comm_split(comm, color, key, &made);
    PyEval_RestoreThread(thread);
    return made_comm(status, comm, made);
}

PyObject *native_subset(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *ranks;
    weft_comm *comm, *made = NULL;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "OO", &capsule, &ranks) || !(comm = comm_of(capsule)))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(ranks);
    int *list = count < 0 ? NULL : malloc((size_t)(count + 1) * sizeof *list);
    if (!list)
        return count < 0 ? NULL : PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++)
        list[i] = (int)PyLong_AsLong(PyTuple_GetItem(ranks, i));
    if (PyErr_Occurred()) {
        free(list);
        return NULL;
    }
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_comm_subset(comm, list, (int)count, &made);
    PyEval_RestoreThread(thread);
    free(list);
    return made_comm(status, comm, made);
}

PyObject *native_free(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_comm *comm;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(comm = comm_of(capsule)))
        return NULL;
    const weft_context *context = weft_comm_context(comm);
    PyThreadState *thread = PyEval_SaveThread();
    status = weft_comm_free(comm);
    PyEval_RestoreThread(thread);
    return native_outcome(status, context);
}

PyObject *native_set_algorithm(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    const char *collective, *algorithm;
    weft_comm *comm;
    if (!PyArg_ParseTuple(arguments, "Osz", &capsule, &collective, &algorithm) || !(comm = comm_of(capsule)))
        return NULL;
    return native_outcome(weft_comm_set_algorithm(comm, collective, algorithm), weft_comm_context(comm));
}

PyObject *native_set_reproducible(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int reproducible;
    weft_comm *comm;
    if (!PyArg_ParseTuple(arguments, "Op", &capsule, &reproducible) || !(comm = comm_of(capsule)))
        return NULL;
    return native_outcome(weft_comm_set_reproducible(comm, reproducible), weft_comm_context(comm));
}

PyObject *native_set_time_limit(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    double seconds;
    weft_comm *comm;
    if (!PyArg_ParseTuple(arguments, "Od", &capsule, &seconds) || !(comm = comm_of(capsule)))
        return NULL;
    return native_outcome(weft_comm_set_time_limit(comm, seconds), weft_comm_context(comm));
}
