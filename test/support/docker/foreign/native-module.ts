/** A module with native code, compiled for musl beside the Python that imports it: what a wheel for musl holds. */

/** Where it lies in the image, apart from everything that is imported. */
export const NATIVE_AT = 'usr/share/cella/native.so';

export const NATIVE_SOURCE = `
#include <Python.h>
static PyObject *twice(PyObject *self, PyObject *number) { return PyNumber_Add(number, number); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, "Twice a number."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", NULL, -1, methods};
PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&module); }
`;
