"""A wing that exists in tests alone: Echoes, whose text the controller writes into their status."""
