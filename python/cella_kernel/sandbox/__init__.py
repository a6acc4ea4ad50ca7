"""One policy, one launcher: every layer of isolation that a Cella process lives under."""
