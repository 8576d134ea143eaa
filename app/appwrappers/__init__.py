"""AppWrappers: many objects that are admitted, run, repaired and removed as one.

Facts: the AppWrapper API of Project CodeFlare (`workload.codeflare.dev/v1beta2`). What differs is in
docs/appwrappers.md.
"""
