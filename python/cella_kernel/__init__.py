"""The code inside every Cella kernel: standard library only, Python 3.9 and later."""
