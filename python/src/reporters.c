/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics and progress: weft/report.h. */
#include "native.h"

static weft_reporter *reporter_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, NATIVE_REPORTER);
}

PyObject *native_reporter(PyObject *self, PyObject *arguments)
{
    const char *path;
    weft_reporter *reporter = NULL;
    if (!PyArg_ParseTuple(arguments, "z", &path))
        return NULL;
    const weft_status status = weft_reporter_open(path, &reporter);
    if (status != WEFT_OK || !reporter)
        return Py_BuildValue("NO", native_outcome(status, NULL), Py_None);
    return Py_BuildValue("ON", Py_None, PyCapsule_New(reporter, NATIVE_REPORTER, NULL));
}

PyObject *native_report(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    const char *name;
    long long step;
    double value;
    weft_reporter *reporter;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "OsLd", &capsule, &name, &step, &value) || !(reporter = reporter_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread(); /* files and pipes may be slow */
    status = weft_report(reporter, name, step, value);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

PyObject *native_progress(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    double done, total, seconds_left;
    weft_reporter *reporter;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "Oddd", &capsule, &done, &total, &seconds_left) ||
        !(reporter = reporter_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread(); /* files and pipes may be slow */
    status = weft_report_progress(reporter, done, total, seconds_left);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}

PyObject *native_flush(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    weft_reporter *reporter;
    weft_status status;
    if (!PyArg_ParseTuple(arguments, "O", &capsule) || !(reporter = reporter_of(capsule)))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread(); /* files and pipes may be slow */
    status = weft_reporter_flush(reporter);
    PyEval_RestoreThread(thread);
    return native_outcome(status, NULL);
}
