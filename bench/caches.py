"""`python -m bench.caches`: the bytes that one more object costs in the caches of each role.

Counted as allocated bytes that stay, with the objects decoded from JSON as they come over a watch.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

from app.kube.store import Store
from app.networks.model import RESOURCE_NAME, project
from app.placement.model import TENANT_LABEL, tenant_of
from app.tenancy.agent.views import project_object, project_pod
from app.tenancy.gateway.caches import project_known, view_pod
from app.wire import JSON, decode_json, encode_json
from bench import companions_objects as objects
from bench.companions_memory import stored
from bench.surroundings import attachment

COUNT = 5000
RULES = 200


def main() -> None:
    workloads = [objects.workload(number, rules=RULES) for number in range(COUNT)]
    companions = objects.companions(workloads, [objects.rule(number, rules=RULES) for number in range(RULES)])
    attachments = [attachment(f"ns-{n % 200}", f"net-{n}", f"example.com/r{n % 40}") for n in range(COUNT)]
    namespace = {"namespace": lambda found: [found.namespace]}
    rows: list[tuple[str, Store[Any], Sequence[JSON]]] = [
        ("webhook: attachment", Store(lambda obj: project(obj, (RESOURCE_NAME,))), attachments),
        ("webhook: namespace of a tenant", Store(tenant_of), [_namespace(number) for number in range(COUNT)]),
        ("gateway: workload", Store(project_known, indices=namespace), workloads),
        ("gateway: companion", Store(view_pod, indices=namespace), companions),
        ("agent: Pod", Store(lambda obj: project_pod(obj, keep_finished=False)), [pod_of(one) for one in workloads]),
        ("agent: mirror", Store(project_object), [_mirror(one) for one in companions[:COUNT]]),
    ]
    for name, store, bodies in rows:
        print(f"{name:32}{_each(store.upsert, bodies) / 1024:8.2f} KiB")


def _each(keep: Callable[[JSON], object], bodies: Sequence[JSON]) -> float:
    texts = [encode_json(stored(body)) for body in bodies]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for text in texts:
            keep(decode_json(text))
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(texts)
    finally:
        tracemalloc.stop()


def _namespace(number: int) -> JSON:
    name = f"tenant-{number}"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {TENANT_LABEL: str(number)}}}


def pod_of(workload: JSON) -> JSON:
    """The Pod in a tenant's cluster of which this Workload tells."""
    extra, of = workload["spec"]["state"]["extra"], workload["spec"]["metadata"]
    marks = {"labels": extra["labels"], "annotations": extra["annotations"]}
    spec = {"nodeName": workload["spec"]["state"]["nodeName"], "containers": [{"name": "c", "image": "x"}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": of["resourceName"], "namespace": "default", "uid": of["id"], **marks}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _mirror(companion: JSON) -> JSON:
    metadata = {"name": companion["metadata"]["name"], "namespace": "universe", "labels": {"berth.dev/mirror": "true"}}
    template = {"metadata": companion["metadata"].get("labels", {}), "spec": companion["spec"]}
    status = {"result": "success", "message": ""}
    version = "resource.universe.nvidia.com/v1alpha1"
    return {
        "apiVersion": version,
        "kind": "UVSPod",
        "metadata": metadata,
        "spec": {"template": template},
        "status": status,
    }


if __name__ == "__main__":
    main()
