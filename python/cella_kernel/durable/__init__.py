"""Durable checkpoints: saves a namespace as segments that load independently, and loads them.

A segment is a header and bytes. The header says how the bytes are read (`kind`), which variables come back with them
(`names`), and whether another minor version of Python can read them (`portable`):

    cwd      JSON: the working folder, and what the code added to sys.path inside it
    import   JSON: the module of one name, and the submodules that were loaded with it
    pickle   one pickle per variable, with one memo for all; variables that share anything mutable are in one segment
    source   JSON: the statement that defines one function or class; used if its code could not be loaded
    cells    JSON: the texts of the cells that functions and classes come from
    random   a pickle: the states of `random` and of numpy's global generator

They come in load order: if a segment refers to a variable by name, that variable is in an earlier segment. `save.save`
writes them and `load.load` reads them.
"""
