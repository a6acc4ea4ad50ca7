"""What runs in a kernel process: cells, output, input, displays, snapshots and checkpoints."""
