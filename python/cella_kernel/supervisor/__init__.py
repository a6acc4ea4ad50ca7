"""The template and pid 1 of a sandbox: Cella's own processes, which never run user code."""
