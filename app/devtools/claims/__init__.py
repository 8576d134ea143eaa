"""Stand-ins for what brings devices and networks to Pods: a driver of dynamic resource allocation, and Multus."""
