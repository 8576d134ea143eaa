"""Reviews of new Pods by a webhook with every wing on, twice: with a memo and without, over the same caches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from app.admission.decision import Decision
from app.admission.endpoint import Answer, Outcome, ReviewEndpoint, Waiting
from app.admission.memo import Memo
from app.admission.parts import Context, ReviewCaches, chains
from app.kube.resources import CONFIG_MAPS, NAMESPACES
from app.networks.settings import CONFIG_MAP_KEY, CONFIG_MAP_NAME
from app.registry import parts_of, settings_of
from app.rmd.classes import KEY
from tests.support.claim_reviews import attachment, claim, definitions, device_class, template
from tests.support.rmd_reviews import CLASSES, node

JSON = dict[str, Any]
SYSTEM = "berth-system"
KUBELETS = ["system:nodes", "system:authenticated"]


def namespace(name: str, tenant: str = "") -> JSON:
    return NAMESPACES.body({"name": name, "labels": {"berth.dev/tenant": tenant} if tenant else {}})


def config_map(name: str, **data: str) -> JSON:
    return {**CONFIG_MAPS.body({"name": name, "namespace": SYSTEM}), "data": data}


def switches(injections: JSON | None = None, **features: bool) -> JSON:
    config = {"features": features, "user-defined-injections": injections or {}}
    return config_map(CONFIG_MAP_NAME, **{CONFIG_MAP_KEY: json.dumps(config)})


def rdt_classes(*names: str) -> JSON:
    return config_map(CLASSES, **{KEY: json.dumps({"classes": [{"name": one, "policy": "gold"} for one in names]})})


OBJECTS = (
    namespace("team"),
    namespace("blue", "tenant1"),
    attachment("foo", namespace="team", resource="example.com/foo"),
    attachment("foo", namespace="blue", resource="example.com/blue"),
    attachment("claimed", namespace="team", template="vf"),
    template("vf", "vf.example.com", namespace="team"),
    claim("own", "vf.example.com", namespace="team"),
    device_class("vf.example.com", "example.com/foo"),
    definitions(pair="requests: {nic: vf.example.com}\n"),
    node("n1"),
)


def pod(*, labels: JSON | None = None, annotations: JSON | None = None, **spec: Any) -> JSON:
    metadata: JSON = {"name": "web-1", "labels": labels or {}, "annotations": annotations or {}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": [{"name": "main"}]} | spec}


def asking(networks: str = "foo", **spec: Any) -> JSON:
    return pod(annotations={"k8s.v1.cni.cncf.io/networks": networks}, **spec)


def with_token(obj: JSON, volume: str) -> JSON:
    """The Pod as the plugin ServiceAccount of an API server leaves it, with a volume of that name."""
    spec = obj["spec"]
    mount = {"name": volume, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    containers = [{**one, "volumeMounts": [*one.get("volumeMounts", ()), mount]} for one in spec["containers"]]
    projected = {"name": volume, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    return {**obj, "spec": {**spec, "containers": containers, "volumes": [*spec.get("volumes", ()), projected]}}


def body(obj: Any, *, version: str = "v1", **fields: Any) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web-1",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": obj,
        "dryRun": False,
    }
    review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request | fields}
    return json.dumps(review, separators=(",", ":")).encode()


@dataclass
class Twins:
    """`ask` reviews with and without the memo, and holds the answers and what is reported against each other."""

    settings: JSON = field(default_factory=dict)
    limit: int | None = None

    def __post_init__(self) -> None:
        usual = {"insecure": True, "claims": True, "confine_tenants": True, "rmd_backend": "auto"}
        settings = settings_of("webhook").load(usual | self.settings, environment=False)
        self.caches = ReviewCaches()
        self.memo = Memo() if self.limit is None else Memo(limit=self.limit)
        self.caches.on_changed(self.memo.clear)
        chain = chains(parts_of(Context(settings, SYSTEM, self.caches)), namespace=SYSTEM)["mutate"]
        self.endpoint = ReviewEndpoint("mutate", chain, finished=_unused, memo=self.memo)
        self._without = ReviewEndpoint("mutate", chain, finished=_unused)
        self.store(*OBJECTS)
        for cached in self.caches.all:
            cached.store.mark_synced()

    def store(self, *objects: JSON) -> None:
        for obj in objects:
            for cached in self.caches.all:
                if cached.resource.kind == obj["kind"]:
                    cached.store.upsert(obj)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        for cached in self.caches.all:
            if cached.resource.kind == kind:
                cached.store.remove(namespace, name)

    def ask(self, content: bytes) -> Answer:
        found, wanted = (_settled(one.decide(content)) for one in (self.endpoint, self._without))
        assert shown(found) == shown(wanted), content
        return found

    def hits(self, *contents: bytes) -> int:
        """How many of the reviews are answered from the memo."""
        self.memo.take_lookups()
        for content in contents:
            self.ask(content)
        return self.memo.take_lookups()["hit"]


def shown(answer: Answer) -> object:
    """All that a client gets, and all that is reported."""
    request, decision = answer.request, answer.decision
    return (
        answer.status,
        answer.payload,
        answer.uid,
        repr(answer.error),
        (decision.allowed, decision.reason, decision.message, len(decision.operations), decision.injected),
        (request.uid, request.operation, request.namespace, request.names, request.dry_run)
        if request is not None
        else None,
    )


def _settled(found: Answer | Waiting) -> Answer:
    """The answer of what waits, too: without a client nothing has to be waited for in fact."""
    if not isinstance(found, Waiting):
        return found
    try:
        found.answer.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    except Exception as error:  # noqa: BLE001  as the endpoint does
        return Answer(500, b"", Decision(allowed=False, reason=""), found.request, error=error)
    raise AssertionError("a review waits for something")


def _unused(_outcome: Outcome) -> None:
    raise AssertionError("these reviews are decided, and not served")
