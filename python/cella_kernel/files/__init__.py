"""File work for a server that runs as root, done with the rights that the code of each session has."""
