"""What the tests of the networks wing share: a lookup over plain attachments, and one run of the injector."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from app.admission.annotating import InjectedAnnotation
from app.admission.chain import Chain, MutationPlan
from app.admission.decision import Decision
from app.admission.review import Request
from app.kube.lookup import Lookup
from app.kube.resources import NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.networks.model import RESOURCE_NAME, Attachment, project
from app.networks.settings import NetworksOptions, Switches
from app.networks.webhook import NetworksInjector, _injects
from tests.support.patches import patched
from tests.support.pod_requests import request_for


def lookup_for(
    attachments: Iterable[dict[str, Any]],
    *,
    client: Any = None,
    keys: tuple[str, ...] = (RESOURCE_NAME,),
    **options: Any,
) -> Lookup[Attachment]:
    """The real lookup over the real store; without a client, what is not listed does not exist."""

    def projected(obj: dict[str, Any]) -> Attachment:
        return project(obj, keys)

    store: Store[Attachment] = Store(projected)
    for attachment in attachments:
        store.upsert(attachment)
    called = "network attachment definition"
    return Lookup(NETWORK_ATTACHMENTS, store, projected, client=lambda: client, called=called, **options)


def attachment(name: str, resource: str | None = None, *, namespace: str = "default", **annotations: str) -> Any:
    """A NetworkAttachmentDefinition."""
    values = dict(annotations) | ({RESOURCE_NAME: resource} if resource is not None else {})
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace, "annotations": values},
    }


async def inject(injector: NetworksInjector, request: Request, plan: MutationPlan) -> None:
    """One injection to its end, whether it has to wait or not."""
    waiting = injector.inject(request, plan)
    if waiting is not None:
        await waiting


@dataclass
class Run:
    """One review through the chain: the decision, the plan, and the Pod with the patch applied."""

    decision: Decision
    plan: MutationPlan
    pod: Any


@dataclass
class Injection:
    """Runs the injector as the webhook does."""

    attachments: list[dict[str, Any]] = field(default_factory=list)
    options: NetworksOptions = field(default_factory=NetworksOptions)
    switches: Switches = field(default_factory=Switches)
    client: Any = None
    keys: tuple[str, ...] = (RESOURCE_NAME,)
    says: bool = False
    """As with --injected-annotation."""

    def injector(self) -> NetworksInjector:
        lookup = lookup_for(self.attachments, client=self.client, keys=self.keys)
        return NetworksInjector(lookup, switches=lambda: self.switches, options=self.options)

    async def run(self, pod: Any, **fields: Any) -> Run:
        before = copy.deepcopy(pod)
        injectors = [
            self.injector(),
            *([InjectedAnnotation(partial(_injects, lambda: self.switches))] if self.says else []),
        ]
        decision, plan = await Chain(injectors=injectors).review(request_for(pod, **fields))
        result = patched(pod, plan.patch) if decision.allowed else pod
        assert pod == before
        return Run(decision, plan, result)


@pytest.fixture
def injection() -> Injection:
    return Injection([attachment("foo", "example.com/foo"), attachment("bar", "example.com/bar")])
