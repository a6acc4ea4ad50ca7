"""The kernel in Pyodide (CPython in WebAssembly): one interpreter in a worker thread of the host, without processes or threads.

The worker gives it the same descriptors as every kernel, as devices; what differs is in this package.
"""
