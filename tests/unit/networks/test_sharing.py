"""Plans share operations and findings that were made once: none may show in another, and changes must count at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain, MutationPlan
from app.admission.patch import Patch
from app.admission.review import decode
from app.errors import Denied
from app.kube.lookup import Lookup
from app.kube.resources import NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.networks.model import DEFAULT_NETWORK, NETWORKS, RESOURCE_NAME, Attachment, project
from app.networks.settings import Switches
from app.networks.userdefined import Injection
from app.networks.webhook import NetworksInjector
from app.wire import encode_json
from tests.support.patches import patched
from tests.support.paths import REVIEWS
from tests.support.pod_requests import request_for

from .conftest import attachment, inject, lookup_for

ATTACHMENTS = [attachment("foo-network", "example.com/foo"), attachment("bar-network", "example.com/bar")]
BARE = {"metadata": {"annotations": {NETWORKS: "foo-network"}}, "spec": {"containers": [{"name": "a"}]}}


async def planned(injector: NetworksInjector, request: Any) -> MutationPlan:
    plan = MutationPlan()
    await inject(injector, request, plan)
    return plan


@pytest.mark.parametrize("name", ["webhook-demo", "rich"])
async def test_plans_that_share_operations_do_not_influence_each_other(name: str) -> None:
    """Planned twice and applied twice, with everything that can be changed in the first plan changed in between."""
    request = decode((REVIEWS / f"Pod-{name}-CREATE.json").read_bytes()).request
    injector = NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches)
    pod = json.loads(bytes(request.object))
    first = await planned(injector, request)
    document, reasons = encode_json(first.patch.operations), list(first.patch.reasons)
    audit, injected = dict(first.audit), dict(first.injected)
    applied = patched(pod, first.patch)
    # What other injectors do with the plan they are handed.
    first.patch.add("/metadata/labels", {"a": "b"}, reason="another injector")
    first.patch.operations.pop(0)
    first.audit["resources"] = first.reason = "changed"
    first.count("volume", 7)
    second = await planned(injector, request)
    assert encode_json(second.patch.operations) == document
    assert (second.patch.reasons, second.audit, second.injected) == (reasons, audit, injected)
    assert patched(pod, second.patch) == applied


async def test_a_changed_attachment_counts_at_once() -> None:
    """What was found for networks follows from the attachments themselves."""
    for resource in ("example.com/foo", "example.com/new"):
        injector = NetworksInjector(lookup_for([attachment("foo-network", resource)]), switches=Switches)
        plan = await planned(injector, request_for(BARE))
        assert plan.audit["resources"] == f"{resource}=1 for default/foo-network"
        assert {f"which needs {resource}" in reason for reason in plan.patch.reasons} == {True}


async def test_an_attachment_that_changes_or_goes_counts_for_the_next_pod() -> None:
    """One injector keeps what it found for an annotation only while the cache has the same attachments."""

    def projected(obj: dict[str, Any]) -> Attachment:
        return project(obj, (RESOURCE_NAME,))

    store = Store(projected)
    lookup = Lookup(NETWORK_ATTACHMENTS, store, projected, client=lambda: None, called="attachment")
    injector = NetworksInjector(lookup, switches=Switches)
    for resource in ("example.com/foo", "example.com/new", "example.com/foo"):
        store.upsert(attachment("foo-network", resource))
        for _ in range(2):
            plan = await planned(injector, request_for(BARE))
            assert plan.audit["resources"] == f"{resource}=1 for default/foo-network"
    store.remove("default", "foo-network")
    with pytest.raises(Denied, match="could not find network attachment definition 'default/foo-network'"):
        await planned(injector, request_for(BARE))


async def test_a_warning_of_switches_is_in_no_plan_after_them() -> None:
    """Two injections set the same annotation, the last to what the Pod has: nothing changes, but there is a warning."""
    pod = {**BARE, "metadata": {**BARE["metadata"], "labels": {"a": "true", "b": "true"}}}
    both = Switches(
        injections=(Injection("a", {NETWORKS: "bar-network"}), Injection("b", {NETWORKS: "foo-network"})),
    )
    now = [Switches()]
    injector = NetworksInjector(lookup_for(ATTACHMENTS), switches=lambda: now[0])
    warned = []
    for now[0] in (Switches(), both, Switches()):
        warned.append(len((await planned(injector, request_for(pod))).warnings))
    assert warned == [0, 1, 0]


async def test_a_container_that_another_injector_made_is_not_made_again() -> None:
    """An `add` of an empty container would wipe out what stands in it."""
    plan = MutationPlan()
    plan.patch.ensure("/spec/volumes", [], present=False, reason="another injector")
    plan.patch.add("/spec/volumes/-", {"name": "other"}, reason="another injector")
    injector = NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches)
    await inject(injector, request_for(BARE), plan)
    assert len(plan.patch.reasons) == len(plan.patch.operations)
    volumes = patched(BARE, plan.patch)["spec"]["volumes"]
    assert [volume["name"] for volume in volumes] == ["other", "podnetinfo"]


def test_operations_planned_ahead_make_their_containers_once_and_remember_them() -> None:
    ahead = Patch()
    ahead.ensure("/a", [], present=False, reason="")
    ahead.add("/a/-", 1, reason="")
    steps = ahead.steps()
    ahead.add("/b", 1, reason="later, and no part of what was taken before")
    patch = Patch()
    patch.extend(steps, reason="first")
    patch.extend(steps, reason="second")
    patch.ensure("/a", [], present=False, reason="third")
    assert [operation.path for operation in patch.operations] == ["/a", "/a/-", "/a/-"]
    assert patch.reasons == ["first", "first", "second"]


@pytest.mark.parametrize("key", [NETWORKS, DEFAULT_NETWORK])
async def test_only_what_is_not_cached_is_waited_for(key: str) -> None:
    """A decision from the cache is there at once; every decision can be awaited."""
    pod = {"metadata": {"annotations": {key: "default/foo-network"}}, "spec": BARE["spec"]}
    at_once = Chain(injectors=[NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches)]).review(request_for(pod))
    assert isinstance(at_once, tuple)
    assert (await at_once).decision.reason == "Injected"
    waiting = Chain(injectors=[NetworksInjector(lookup_for([]), switches=Switches)]).review(request_for(pod))
    assert not isinstance(waiting, tuple)
    assert (await waiting).decision.reason == "AttachmentNotFound"


async def test_after_a_wait_the_rest_of_the_chain_is_asked_once_and_in_order() -> None:
    trace: list[str] = []

    class Part:
        def __init__(self, name: str, *, waits: bool) -> None:
            self.name, self._waits = name, waits

        async def _late(self) -> None:
            trace.append(self.name)

        def inject(self, _request: Any, _plan: MutationPlan) -> Any:
            return self._late() if self._waits else trace.append(self.name)

        check = inject

    chain = Chain(
        injectors=[Part("a", waits=False), Part("b", waits=True), Part("c", waits=False)],
        checks=[Part("d", waits=True), Part("e", waits=False)],
    )
    decision, _ = await chain.review(request_for(BARE))
    assert (decision.allowed, "".join(trace)) == (True, "abcde")


def test_a_decision_cannot_be_changed() -> None:
    chain = Chain(injectors=[NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches)])
    found = chain.review(request_for(BARE))
    assert isinstance(found, tuple)
    with pytest.raises(AttributeError):
        found.decision.allowed = False  # type: ignore[misc]  # that it is refused is the point
    assert msgspec.json.encode(found.decision.operations) == encode_json(found.plan.patch.operations)
