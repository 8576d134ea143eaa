"""The workloads that rules are compared with: Pods and Workloads of manifests, and those of a cluster.

What a manifest does not say of a Pod has a stand-in: a UID of zeros, and `xxxxx` at the end of a name that is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from app.errors import ApiError
from app.explain.manifests import Manifests
from app.explain.model import PodManifest
from app.kube.client import KubeClient
from app.kube.conditions import is_true
from app.kube.derived import Derived
from app.kube.resources import PODS, Resource
from app.kube.retry import every_item
from app.wire import JSON
from app.workloads.controller.stored import project_workload
from app.workloads.model import (
    WORKLOADS,
    Rule,
    Workload,
    counts_as_gone,
    tenant_name,
    workload_name,
    workload_spec,
)

MOST = 20_000
"""Workloads of a cluster that are looked at."""
_NO_UID = "00000000-0000-0000-0000-000000000000"
_NO_TENANT = "tenant-"


@dataclass(frozen=True, slots=True)
class ComparedWorkload:
    """A workload; `title` and `reference` say what it is for people and in JSON.

    `runs`: its node and whether it is ready are known. `tenant` is the namespace of its tenant, "" for any.
    """

    title: str
    reference: JSON
    workload: Workload
    runs: bool
    tenant: str = ""

    def by(self, rule: Rule, otherwise: str) -> Workload | None:
        """The workload as the rule sees it, None for one of another tenant; `otherwise` is the tenant of any."""
        namespace = self.tenant or otherwise
        if rule.tenants is not None and tenant_name(namespace) not in rule.tenants:
            return None
        return replace(self.workload, namespace=namespace)


def given_workloads(manifests: Manifests) -> Iterator[ComparedWorkload]:
    """Those of the manifests that can be used."""
    for pod in manifests.pods:
        if (seen := _of_pod(pod)) is not None:
            yield seen
    for given in manifests.others:
        if given.kind == WORKLOADS.kind:
            with suppress(ValueError):  # a finding says it
                workload = project_workload(given.obj)
                yield ComparedWorkload(given.subject, given.reference, workload, runs=True, tenant=workload.namespace)


def _of_pod(pod: PodManifest) -> ComparedWorkload | None:
    """None for a Pod that is none: it is being deleted, has finished, or no API server would take it."""
    metadata = pod.pod["metadata"]
    named = {**metadata, "uid": metadata.get("uid") or _NO_UID}
    named["name"] = metadata.get("name") or f"{metadata.get('generateName') or ''}xxxxx"
    try:
        if counts_as_gone(pod.pod):
            return None
        workload = _projected({**pod.pod, "metadata": named})
    except (ValueError, TypeError, AttributeError):
        return None
    return ComparedWorkload(pod.subject, pod.reference, workload, runs=bool(metadata.get("uid") and workload.node_name))


async def live_workloads(
    client: KubeClient, resource: Resource, manifests: Manifests, notes: list[str], *, namespace: str | None = None
) -> AsyncIterator[ComparedWorkload]:
    """Pods or Workloads of the cluster or a namespace, but for Pods that are among the manifests. Raises ApiError."""
    given = {(pod.owner.namespace, pod.owner.name) for pod in manifests.pods if pod.owner.kind == PODS.kind}
    count = 0
    try:
        async for obj in every_item(lambda page: client.list_page(resource, namespace=namespace, continue_token=page)):
            key = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
            if resource == PODS and (key in given or counts_as_gone(obj)):
                continue
            if (count := count + 1) > MOST:
                notes.append(f"the cluster has more than {MOST} {resource.plural}: the others were not compared")
                return
            try:
                workload = (OF_PODS if resource == PODS else STORED)(obj)
            except ValueError:  # the doctor names it
                continue
            reference = {"source": "cluster", "kind": resource.kind, "namespace": key[0], "name": key[1]}
            where, tenant = f"{resource.kind} {key[0]}/{key[1]} (cluster)", "" if resource == PODS else key[0]
            yield ComparedWorkload(where, reference, workload, runs=True, tenant=tenant)
    except ApiError as error:
        if not error.not_found:
            raise
        notes.append(f"the cluster has no {resource.plural}.{resource.group}: rules were compared with the files alone")


def _projected(pod: JSON) -> Workload:
    """The Workload that a Pod becomes, in the namespace of a tenant without a name. Raises ValueError."""
    spec = workload_spec(pod, ready=is_true(pod.get("status") or {}, "Ready"))
    name = workload_name(spec["metadata"]["id"])
    return project_workload({"metadata": {"namespace": _NO_TENANT, "name": name}, "spec": spec})


OF_PODS, STORED = Derived(_projected), Derived(project_workload)
