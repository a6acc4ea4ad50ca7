"""The layers of isolation, and the launcher that applies them."""
