"""A stand-in for the part of kubelet that gives out CPUs and devices, on the sockets of kubelet."""
