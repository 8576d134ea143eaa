"""The chain: order, denial, exemption, one plan for all injectors."""

from __future__ import annotations

import json

import jsonpatch
import msgspec
import pytest

from app.admission.chain import Chain, MutationPlan
from app.admission.decision import encode
from app.admission.review import VERSIONS, Request, WholeRequest
from app.errors import Denied, Transient


class Volume:
    def __init__(self, name: str, trace: list[str]) -> None:
        self.name, self._trace = name, trace

    async def inject(self, _request: Request, plan: MutationPlan) -> None:
        self._trace.append(self.name)
        plan.patch.ensure("/spec/volumes", [], present=False, reason=self.name)
        plan.patch.add("/spec/volumes/-", {"name": self.name}, reason=self.name)
        plan.warnings.append(f"warned by {self.name}")
        plan.audit[self.name] = "yes"
        plan.count("volume")


class Refusal:
    def __init__(self, name: str, trace: list[str]) -> None:
        self.name, self._trace = name, trace

    async def check(self, _request: Request, _plan: MutationPlan) -> None:
        self._trace.append(self.name)
        raise Denied(f"{self.name} says no", reason="Refused", code=403)

    inject = check


class Unsure:
    name = "unsure"

    async def inject(self, _request: Request, _plan: MutationPlan) -> None:
        raise Transient("not loaded")


REQUEST = WholeRequest(uid="u", namespace="team", object=msgspec.Raw(b'{"spec":{}}'))


async def test_two_injectors_that_need_the_same_parent_make_one_patch() -> None:
    trace: list[str] = []
    decision, plan = await Chain(injectors=[Volume("a", trace), Volume("b", trace)]).review(REQUEST)
    assert trace == ["a", "b"]
    patched = jsonpatch.apply_patch({"spec": {}}, json.loads(msgspec.json.encode(decision.operations)))
    assert patched == {"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}
    assert decision.warnings == ["warned by a", "warned by b"]
    assert decision.audit_annotations == {"a": "yes", "b": "yes"}
    assert plan.injected == {"volume": 2}


async def test_a_denial_ends_the_chain_and_drops_the_patch_but_not_the_warnings() -> None:
    trace: list[str] = []
    chain = Chain(injectors=[Volume("a", trace)], checks=[Refusal("first", trace), Refusal("second", trace)])
    decision, _ = await chain.review(REQUEST)
    assert trace == ["a", "first"]
    assert (decision.allowed, decision.reason, decision.code) == (False, "Refused", 403)
    assert decision.message == "first says no"
    assert not decision.operations
    assert decision.warnings == ["warned by a"]
    assert decision.audit_annotations == {"decision": "Refused", "message": "first says no"}


async def test_a_denying_injector_stops_the_ones_after_it() -> None:
    trace: list[str] = []
    decision, _ = await Chain(injectors=[Refusal("no", trace), Volume("a", trace)]).review(REQUEST)
    assert trace == ["no"]
    assert not decision.allowed


async def test_an_exempt_namespace_is_allowed_before_anybody_is_asked() -> None:
    trace: list[str] = []
    chain = Chain(
        injectors=[Volume("a", trace)], checks=[Refusal("no", trace)], exempt_namespaces=frozenset({"kube-system"})
    )
    decision, _ = await chain.review(msgspec.structs.replace(REQUEST, namespace="kube-system"))
    assert trace == []
    assert (decision.allowed, decision.reason) == (True, "ExemptNamespace")
    assert "kube-system" in decision.message
    assert not decision.operations
    assert not (await chain.review(REQUEST))[0].allowed


async def test_what_cannot_be_decided_is_raised() -> None:
    with pytest.raises(Transient):
        await Chain(injectors=[Unsure()]).review(REQUEST)


async def test_the_first_reason_to_skip_stands() -> None:
    plan = MutationPlan()
    plan.skip("OptedOut", "by label")
    plan.skip("NoNetworks", "none")
    assert (plan.reason, plan.message) == ("OptedOut", "by label")


class Said:
    """An injector that says something of a plan, and looks at nothing in it."""

    name = "said"

    def inject(self, _request: Request, plan: MutationPlan) -> None:
        plan.reason = "Said"
        plan.message = "so"


@pytest.mark.parametrize("before", [None, ("NoNetworks", "none")])
async def test_what_is_said_of_a_shared_plan_is_in_the_decision_and_in_no_other(before: tuple[str, str] | None) -> None:
    plan = MutationPlan()
    if before is not None:
        plan.skip(*before)
    Said().inject(REQUEST, plan)
    assert (plan.decision().reason, plan.decision().message) == ("Said", "so")
    assert plan.decision().audit_annotations == {"decision": "Said"}
    other = MutationPlan()
    if before is not None:
        other.skip(*before)
    assert (other.reason, other.message) == (before or ("", ""))
    assert json.loads(encode(plan.decision(), api_version=VERSIONS[0], uid="u"))["response"]["status"] == {
        "message": "so"
    }


async def test_a_finished_plan_is_that_of_each_plan_that_takes_it() -> None:
    """What is added to one of them, or to the one that was finished, is in no other."""
    first = MutationPlan()
    await Volume("a", []).inject(REQUEST, first)
    finished = first.finish()
    first.patch.add("/spec/later", 1, reason="later")
    first.warnings.append("later")
    second, third = MutationPlan(), MutationPlan()
    second.finished = third.finished = finished
    second.patch.ensure("/spec/volumes", [], present=False, reason="there already")
    second.patch.add("/spec/volumes/-", {"name": "b"}, reason="b")
    second.audit["b"] = "yes"
    second.count("volume")
    assert [one.path for one in second.decision().operations] == ["/spec/volumes", "/spec/volumes/-", "/spec/volumes/-"]
    assert third.decision() is finished.decision
    assert (third.patch.reasons, third.warnings, third.audit) == (["a", "a"], ["warned by a"], {"a": "yes"})
    assert (third.injected, third.reason) == ({"volume": 1}, "")
    whole = encode(msgspec.structs.replace(third.decision(), encoded=b""), api_version=VERSIONS[0], uid="u")
    assert encode(finished.decision, api_version=VERSIONS[0], uid="u") == whole
