"""AppWrappers and Kueue: the Workload API that both sides speak.

Facts: the API of Kueue, `kueue.x-k8s.io` (kinds, conditions and their reasons, labels, annotations).
"""
