"""A stand-in for Intel's Resource Management Daemon (RMD v0.3), for tests. It programs no hardware.

`machine` describes the machine, `workloads` has the state and the rules, `faults` the faults, `server` the REST API.
"""
