/* SPDX-License-Identifier: Apache-2.0 */
/* The module weft._native: its functions, and the names and numbers that Python shares with libweft. */
#include "native.h"

#include <weft/negotiation.h>

#include <string.h>

PyObject *native_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *native_outcome(weft_status status, const weft_context *context)
{
    if (status == WEFT_OK)
        Py_RETURN_NONE;
    return Py_BuildValue("iN", (int)status, native_text(weft_message(context)));
}

/* The names of statuses, types or operations, in the order of their numbers. */
static PyObject *names_of(const char *(*name)(int number), int count)
{
    PyObject *names = PyTuple_New(count);
    for (int i = 0; names && i < count; i++) {
        PyObject *text = PyUnicode_FromString(name(i));
        if (!text || PyTuple_SetItem(names, i, text) != 0) {
            Py_DECREF(names);
            return NULL;
        }
    }
    return names;
}

static const char *status_name(int number)
{
    return weft_status_name((weft_status)number);
}

static const char *type_name(int number)
{
    return weft_type_name((weft_type)number);
}

static const char *op_name(int number)
{
    return weft_op_name((weft_op_kind)number);
}

static const char *named_kind_name(int number)
{
    return weft_named_kind_name((weft_named_kind)number);
}

static PyObject *native_version(PyObject *self, PyObject *arguments)
{
    return PyUnicode_FromString(weft_version());
}

#define FUNCTION(name)                                                                                                 \
    {                                                                                                                  \
#name, native_##name, METH_VARARGS, NULL                                                                       \
    }
static PyMethodDef functions[] = {
    FUNCTION(process),
    FUNCTION(open),
    FUNCTION(close),
    FUNCTION(abort),
    FUNCTION(allocate),
    FUNCTION(release),
    FUNCTION(world),
    FUNCTION(describe),
    FUNCTION(host),
    FUNCTION(split),
    FUNCTION(subset),
    FUNCTION(free),
    FUNCTION(set_algorithm),
    FUNCTION(set_reproducible),
    FUNCTION(set_time_limit),
    FUNCTION(run),
    FUNCTION(start),
    FUNCTION(wait),
    FUNCTION(done),
    FUNCTION(group),
    FUNCTION(reporter),
    FUNCTION(report),
    FUNCTION(progress),
    FUNCTION(flush),
    FUNCTION(negotiator_open),
    FUNCTION(negotiator_close),
    FUNCTION(negotiator_timeline),
    FUNCTION(submit),
    FUNCTION(operation_done),
    FUNCTION(operation_wait),
    FUNCTION(operation_rows),
    FUNCTION(operation_copy),
    FUNCTION(operation_last_joined),
    FUNCTION(operation_free),
    FUNCTION(shrink),
    FUNCTION(grow),
    FUNCTION(waiting),
    FUNCTION(epoch),
    FUNCTION(version),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "weft._native",
                                    .m_doc = "libweft's calls; see the package weft", .m_size = -1,
                                    .m_methods = functions};

static int add(PyObject *made, const char *name, PyObject *value)
{
    int failed = !value || PyModule_AddObject(made, name, value) != 0;
    if (failed)
        Py_XDECREF(value);
    return failed;
}

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *made = PyModule_Create(&module);
    if (!made)
        return NULL;
    if (add(made, "STATUSES", names_of(status_name, WEFT_ERROR_STATE + 1)) ||
        add(made, "TYPES", names_of(type_name, WEFT_TYPES)) || add(made, "OPS", names_of(op_name, WEFT_OP_KINDS)) ||
        add(made, "OPERATIONS", native_operation_names()) ||
        add(made, "NAMED_KINDS", names_of(named_kind_name, WEFT_NAMED_KINDS)) ||
        add(made, "BUILT_FOR", PyUnicode_FromString(WEFT_VERSION_TEXT))) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
