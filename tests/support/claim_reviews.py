"""The reviews of networks and claims over objects that are given: the parts of both wings, with caches filled once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import jsonpatch
import msgspec

from app.admission.chain import Chain, MutationPlan
from app.admission.decision import Decision
from app.admission.parts import Cached, Context, ReviewCaches, chains
from app.admission.review import GroupVersionKind, Request
from app.claims.wing import WING as CLAIMS_WING
from app.kube.client import KubeClient
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from app.networks.wing import WING as NETWORKS_WING
from app.registry import parts_of, settings_of
from app.wire import encode_json
from tests.support.pod_requests import request_for

JSON = dict[str, Any]
SYSTEM, DEFINITIONS = "berth-system", "berth-claim-templates"
TEMPLATE, CLASS = "berth.dev/resource-claim-template", "berth.dev/device-class"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
PAIR = "requests: {gpu: gpu.example.com, nic: vf.example.com}\nalign: resource.kubernetes.io/pcieRoot\n"


def attachment(name: str, *, namespace: str = "default", **annotations: str) -> JSON:
    """Its keys are those of `KEYS`."""
    said = {KEYS[key]: value for key, value in annotations.items()}
    return NETWORK_ATTACHMENTS.body({"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": said})


KEYS = {"resource": RESOURCE, "template": TEMPLATE, "device_class": CLASS, "inject": "berth.dev/inject"}


def device_class(name: str, resource: str = "", **annotations: str) -> JSON:
    spec = {"extendedResourceName": resource} if resource else {}
    return DEVICE_CLASSES.body({"name": name, "uid": f"uid-{name}", "annotations": annotations}, spec=spec)


def devices(*classes: str) -> JSON:
    requests = [{"name": f"r{index}", "exactly": {"deviceClassName": one}} for index, one in enumerate(classes)]
    return {"devices": {"requests": requests}}


def template(name: str, *classes: str, namespace: str = "default") -> JSON:
    metadata = {"name": name, "namespace": namespace}
    return RESOURCE_CLAIM_TEMPLATES.body(metadata, spec={"spec": devices(*classes)})


def claim(name: str, *classes: str, namespace: str = "default") -> JSON:
    return RESOURCE_CLAIMS.body({"name": name, "namespace": namespace}, spec=devices(*classes))


def definitions(**texts: str) -> JSON:
    """The ConfigMap; `_` in a name stands for `-`."""
    data = {name.replace("_", "-"): text for name, text in texts.items()}
    return {**CONFIG_MAPS.body({"name": DEFINITIONS, "namespace": SYSTEM}), "data": data}


def pod(networks: str = "", *containers: JSON, **annotations: str) -> JSON:
    """A Pod whose first container is `main` unless others are given."""
    said = ({NETWORKS: networks} if networks else {}) | annotations
    spec: JSON = {"containers": list(containers) or [{"name": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": said}, "spec": spec}


@dataclass
class Reviewed:
    decision: Decision
    plan: MutationPlan
    obj: JSON

    @property
    def message(self) -> str:
        assert not self.decision.allowed
        return self.decision.message


@dataclass
class Reviews:
    """The chains of a webhook with `--claims`, in a cluster with these objects; `client` reads what these lack."""

    objects: Sequence[JSON] = ()
    settings: JSON = field(default_factory=dict)
    client: KubeClient | None = None
    chains: dict[str, Chain] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        settings = settings_of("webhook").load({"claims": True, "insecure": True} | self.settings, environment=False)
        context = Context(settings, SYSTEM, ReviewCaches())
        self.chains = chains(parts_of(context, [NETWORKS_WING, CLAIMS_WING]), namespace=SYSTEM)
        await context.caches.fill(self._of_kind)
        context.caches.client = self.client
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def _of_kind(self, cached: Cached) -> AsyncIterator[JSON]:
        for obj in self.objects:
            if obj["kind"] == cached.resource.kind:
                yield obj

    async def mutate(self, obj: JSON, **fields: Any) -> Reviewed:
        before = encode_json(obj)
        decision, plan = await self.chains["mutate"].review(_request(obj, fields))
        assert encode_json(obj) == before
        operations = json.loads(encode_json(decision.operations))
        return Reviewed(decision, plan, jsonpatch.apply_patch(obj, operations) if decision.allowed else obj)

    async def validate(self, obj: JSON, **fields: Any) -> Reviewed:
        decision, plan = await self.chains["validate"].review(_request(obj, fields))
        return Reviewed(decision, plan, obj)


def _request(obj: JSON, fields: JSON) -> Request:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = GroupVersionKind(group, version, obj["kind"])
    metadata = obj.get("metadata") or {}
    given: JSON = {"kind": kind, "name": metadata.get("name", ""), "object": msgspec.Raw(encode_json(obj))}
    return request_for(obj, **(given | {"namespace": metadata.get("namespace") or "default"} | fields))
