"""Where Pods may run: the DPU of a host, and the DPUs of a tenant. Pure planner and its part in the chain."""
