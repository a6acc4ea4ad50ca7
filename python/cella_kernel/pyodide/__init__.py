"""The kernel in Pyodide (CPython in WebAssembly): one interpreter in a worker thread of the host, without processes or threads.

The worker provides the descriptors of a kernel as devices. This package has only what differs from other kernels.
"""
