"""Validation of the allocation of a ResourceClaim, in the API server's words. Pure.

The rules are those of `status.allocation` in resource.k8s.io/v1 with the gates of Kubernetes 1.36.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.claims import request_names
from app.devtools.sandbox.kinds.devicenames import (
    bounded,
    check_binding,
    check_declared_driver,
    check_declared_pool,
    check_reference,
    check_references,
    check_share,
)
from app.devtools.sandbox.kinds.deviceselectors import MOST_ENTRIES, check_opaque
from app.kinds.fielderrors import Field
from app.kinds.name_syntax import label_faults
from app.kinds.scheduling import check_node_selector
from app.wire import JSON


def check_allocation(allocation: Field, spec: JSON) -> None:
    """A new allocation; `spec` is the claim's, with the requests that results name."""
    known = request_names(spec)
    devices = allocation.below("devices")
    if bounded(devices, "results", MOST_ENTRIES):
        for result in devices.each("results"):
            check_reference(result, "request", result.text("request"), known)
            check_declared_driver(result, "driver")
            check_declared_pool(result, "pool")
            result.syntax("device", label_faults)
            check_binding(result)
            if "shareID" in result.value:
                check_share(result, "shareID")
    if bounded(devices, "config", 2 * MOST_ENTRIES):
        for entry in devices.each("config"):
            with entry.declared():
                if entry.required("source"):
                    entry.one_of("source", ("FromClaim", "FromClass"))
            check_references(entry, known, most=MOST_ENTRIES)
            check_opaque(entry)
    for selector in allocation.present("nodeSelector"):
        check_node_selector(selector)
