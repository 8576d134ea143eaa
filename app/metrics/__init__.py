"""Prometheus metrics, a file a subject: every name once, and series that alerts need created at zero.

One process uses the default registry; with `--workers` each worker writes into files (PROMETHEUS_MULTIPROC_DIR, set
before anything here is imported) and the parent adds them up (`app.runtime.workers`).
"""
