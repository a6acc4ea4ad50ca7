"""Packs the Python of this machine, and the programs that go with it, as the root of a container image."""
