"""The kernel in WebAssembly (Pyodide): one interpreter in a worker thread of the host, without processes or threads.

The worker gives it the descriptors that a kernel has everywhere, as devices; what differs is in this package.
"""
