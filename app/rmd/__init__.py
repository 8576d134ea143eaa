"""Intel RMD: cache ways, memory bandwidth and P-states for cores of nodes, through the daemon of each node."""
