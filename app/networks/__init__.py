"""WING: the networks of Pods, with the device resources, node selectors and files that these need."""
