"""Prometheus metrics, a file a subject: every name once, and series that alerts need created at zero.

One process uses the default registry; with `--workers` each worker writes into files (PROMETHEUS_MULTIPROC_DIR, set
before anything here is imported) and the parent adds them up (`app.runtime.workers`). No label has the name of one
that Prometheus gives to the target (job, instance, namespace, pod, service …), which would push ours aside.
"""

from prometheus_client import disable_created_metrics

# The text format has no place for the times at which series began: they would be twice as many.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
