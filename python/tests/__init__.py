"""Unit tests of cella_kernel."""
