"""The template and pid 1 of a sandbox: our own processes, which never run user code."""
