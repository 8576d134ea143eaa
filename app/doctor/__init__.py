"""What is wrong with Berth in a cluster, what follows from it, and the command that mends it. Serves `berth doctor`."""
