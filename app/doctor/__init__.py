"""Finds what is wrong with Berth in a cluster, the consequence, and the command that fixes it: `berth doctor`."""
