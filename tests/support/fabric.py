"""An infra cluster for tests of the page: tenants, hosts with their DPUs, companions, and what is wrong with some."""

from __future__ import annotations

from typing import Any

from app.definitions import ALL, read_definitions
from app.kube.resources import NETWORK_ATTACHMENTS, NODES, PODS, RESOURCE_CLAIMS, Resource
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.rmd.model import RMD_NODE_STATES
from app.workloads.model import COMPANION, TENANT_RULES, TENANTS, WORKLOADS
from tests.support.sandbox import CRDS, Sandboxed

JSON = dict[str, Any]
DEFINED = frozenset((*ALL, NETWORK_ATTACHMENTS))
AMOUNTS = {"cpu": "8", "memory": "16Gi", "nvidia.com/bf3": "4", "pods": "110"}


class Fabric:
    """Makes objects in the cluster of a sandbox; what is there already stays."""

    def __init__(self, server: Sandboxed, *resources: Resource) -> None:
        self.server = server
        for resource in resources:
            self._define(resource)

    def _define(self, resource: Resource) -> None:
        (definition,) = read_definitions((resource,))
        if self.server.request("GET", f"{CRDS}/{definition['metadata']['name']}").status == 404:
            self.server.define(definition)

    def make(self, resource: Resource, body: JSON, *, status: JSON | None = None) -> JSON:
        """Creates an object, its kind and its namespace before it, and writes its status."""
        if resource in DEFINED:
            self._define(resource)
        metadata = body["metadata"]
        namespace = metadata.get("namespace")
        if namespace and self.server.request("GET", f"/api/v1/namespaces/{namespace}").status == 404:
            self.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = resource.path(namespace=namespace)
        answer = self.server.request("POST", path, {**resource.body({}), **body})
        assert answer.status == 201, answer.body
        if status is not None:
            said = self.server.request("PUT", f"{path}/{metadata['name']}/status", {**answer.body, "status": status})
            assert said.status == 200, said.body
        return dict(answer.body)

    def tenant(self, name: str, *hosts: str, **spec: Any) -> None:
        identity = spec.pop("identity", {"names": [f"{name}.tenant.local"]})
        status = spec.pop("status", {"result": "success"})
        body = {"metadata": {"name": name}, "spec": {"identity": identity, "hosts": [*hosts], **spec}}
        self.make(TENANTS, body, status=status)

    def dpu(self, name: str, host: str, tenant: str = "", **spec: Any) -> None:
        labels = {key: value for key, value in ((HOST_LABEL, host), (TENANT_LABEL, tenant)) if value}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"allocatable": AMOUNTS, "capacity": AMOUNTS, "conditions": ready}
        self.make(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec}, status=status)

    def companion(self, name: str, tenant: str, node: str = "", host: str = "", **amounts: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": amounts}}
        spec: JSON = {"containers": [container]}
        status: JSON = {"phase": "Pending"}
        if node:
            spec["nodeName"] = node
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        if host:
            wanted = {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": [host]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
            spec["affinity"] = {"nodeAffinity": required}
        metadata = {"name": name, "namespace": f"tenant-{tenant}", "labels": {COMPANION: "tenant"}}
        self.make(PODS, {"metadata": metadata, "spec": spec}, status=status)

    def rule(self, name: str, tenant: str, *, key: str = "metadata.resourceName", **status: Any) -> None:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["web"]}]}
        template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"resourceType": "v1/Pod", "workloadTerms": [term], "template": template}
        said = {"result": "success", "observedGeneration": 1} | status
        self.make(
            TENANT_RULES, {"metadata": {"name": name, "namespace": f"tenant-{tenant}"}, "spec": spec}, status=said
        )

    def attachment(self, namespace: str, name: str, resource: str) -> None:
        annotations = {"k8s.v1.cni.cncf.io/resourceName": resource}
        config = {"config": '{"cniVersion": "1.0.0", "type": "sriov"}'}
        metadata = {"name": name, "namespace": namespace, "annotations": annotations}
        self.make(NETWORK_ATTACHMENTS, {"metadata": metadata, "spec": config})

    def pod(self, namespace: str, name: str, networks: str = "", **amounts: str) -> None:
        annotations = {"k8s.v1.cni.cncf.io/networks": networks} if networks else {}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        metadata = {"name": name, "namespace": namespace, "annotations": annotations}
        self.make(PODS, {"metadata": metadata, "spec": {"containers": [container]}})

    def workload(self, uid: str, tenant: str, pod: str, **labels: str) -> None:
        metadata = {"id": uid, "resourceName": pod, "resourceNamespace": "default"}
        extra = {"labels": labels, "annotations": {}}
        spec = {"metadata": metadata, "state": {"nodeName": "host-a", "ready": True, "extra": extra}}
        self.make(WORKLOADS, {"metadata": {"name": f"workload-{uid}", "namespace": f"tenant-{tenant}"}, "spec": spec})

    def node(self, name: str, amounts: dict[str, str]) -> None:
        self.make(NODES, {"metadata": {"name": name}}, status={"allocatable": amounts, "capacity": amounts})

    def reservations(self, node: str, count: int = 2, **rows: JSON) -> None:
        """What the daemon of a node holds, as its RmdNodeState says it."""
        since = "2026-11-29T12:00:00Z"
        answers = {"type": "Connected", "status": "True", "reason": "Answered", "message": "ok"}
        said = {"reservations": count, "workloads": rows, "conditions": [answers | {"lastTransitionTime": since}]}
        metadata = {"name": f"rmd-node-state-{node}", "namespace": "default"}
        self.make(RMD_NODE_STATES, {"metadata": metadata, "spec": {"node": node}}, status=said)

    def claim(self, namespace: str, name: str, device: JSON, **data: Any) -> None:
        """A ResourceClaim that has a device with network data, for a Pod `web`."""
        request = {"name": "nic", "exactly": {"deviceClassName": "nic"}}
        spec = {"devices": {"requests": [request]}}
        status = {
            "allocation": {"devices": {"results": [{"request": "nic", **device}]}},
            "reservedFor": [{"resource": "pods", "name": "web", "uid": "u"}],
            "devices": [{**device, "networkData": data}],
        }
        self.make(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec}, status=status)
