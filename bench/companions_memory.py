"""What the controller's caches keep of a workload, in bytes that stay allocated: alone, and with its companions.

Filled through the controller's own stores with what an API server would send; no server takes part.
"""

from __future__ import annotations

import gc
import tracemalloc
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from app.kube.client import KubeClient
from app.kube.kit import Kit
from app.wire import JSON, decode_json, encode_json
from app.workloads.controller.caches import WorkloadCaches
from app.workloads.settings import DEFAULT_QUOTA


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes for each workload; `whole` includes what is kept of its companions."""

    alone: float
    whole: float


def kept(workloads: Sequence[JSON], rules: Sequence[JSON], pods: Sequence[JSON]) -> Kept:
    caches = WorkloadCaches(Kit(cast("KubeClient", None)), DEFAULT_QUOTA)
    for rule in rules:
        caches.tenant_rules.upsert({**rule, "metadata": {**rule["metadata"], "generation": 1}})
    bodies = [encode_json(stored(obj)) for obj in workloads]
    companions = [encode_json(stored(obj)) for obj in pods]
    gc.collect()
    tracemalloc.start()
    try:
        begin = tracemalloc.get_traced_memory()[0]
        for body in bodies:
            caches.workloads.upsert(decode_json(body))
        gc.collect()
        alone = tracemalloc.get_traced_memory()[0] - begin
        for body in companions:
            caches.companions.upsert(decode_json(body))
        gc.collect()
        whole = tracemalloc.get_traced_memory()[0] - begin
    finally:
        tracemalloc.stop()
    return Kept(alone / len(bodies), whole / len(bodies))


def stored(obj: JSON) -> JSON:
    """The object as an API server gives it back."""
    metadata = {**obj["metadata"], "uid": str(uuid.uuid4()), "resourceVersion": "1000000"}
    return {**obj, "metadata": metadata}
