"""AppWrappers: what their annotations, their configuration and their podSets say. Pure; no role uses it yet.

Facts: the AppWrapper API of Project CodeFlare (`workload.codeflare.dev/v1beta2`).
"""
