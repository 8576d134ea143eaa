"""The planner: requirements, and the affinity that is added to every kind of spec."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from app.admission.patch import Patch
from app.placement.model import HOST_LABEL, PlacementOptions, PodSpec, Requirement
from app.placement.plan import placed, plan_affinity, requirements
from tests.support.patches import patched

from .conftest import HOST, IN_HOST, IN_TENANT, REQUIRED, TENANT, ZONE, expression, spec_with, term, terms_of

BOTH = (HOST, TENANT)
FIELDS = {"matchFields": [expression("metadata.name", "In", "node-1")]}
PREFERRED = [{"weight": 1, "preference": term(ZONE)}]
ADDED = term(IN_HOST, IN_TENANT)


def test_requirements_come_from_host_and_tenant() -> None:
    options = PlacementOptions("example.com/host", "example.com/tenant")
    assert requirements(host="h", tenant="t", options=options) == (
        Requirement("example.com/host", "h"),
        Requirement("example.com/tenant", "t"),
    )
    assert requirements(host=None, tenant=None, options=options) == ()


def test_an_empty_tenant_is_none_but_an_empty_host_is_no_exemption() -> None:
    assert requirements(host="", tenant="", options=PlacementOptions()) == (Requirement(HOST_LABEL, ""),)


def test_without_a_node_label_tenants_are_not_confined() -> None:
    assert requirements(host="h", tenant="t", options=PlacementOptions(tenant_node_label="")) == (
        Requirement(HOST_LABEL, "h"),
    )


@pytest.mark.parametrize(
    ("spec", "terms"),
    [
        pytest.param({}, [ADDED], id="no affinity"),
        pytest.param({"affinity": None}, [ADDED], id="null affinity"),
        pytest.param({"affinity": {"podAffinity": {}}}, [ADDED], id="other affinity"),
        pytest.param({"affinity": {"nodeAffinity": None}}, [ADDED], id="null node affinity"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}},
            [ADDED],
            id="preferred affinity",
        ),
        pytest.param({"affinity": {"nodeAffinity": {REQUIRED: None}}}, [ADDED], id="null required"),
        pytest.param({"affinity": {"nodeAffinity": {REQUIRED: {}}}}, [ADDED], id="required without terms"),
        pytest.param({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": None}}}}, [ADDED], id="null terms"),
        pytest.param(spec_with(), [ADDED], id="no terms"),
        pytest.param(
            spec_with(term(ZONE), term(expression("rack", "In", "1"))),
            [term(ZONE, IN_HOST, IN_TENANT), term(expression("rack", "In", "1"), IN_HOST, IN_TENANT)],
            id="every term",
        ),
        pytest.param(spec_with(FIELDS), [{**FIELDS, **ADDED}], id="fields as in a Pod of a DaemonSet"),
        pytest.param(
            spec_with({**FIELDS, "matchExpressions": None}), [{**FIELDS, **ADDED}], id="fields and null expressions"
        ),
        pytest.param(
            spec_with({}, None, term(), term(ZONE)),
            [{}, None, term(), term(ZONE, IN_HOST, IN_TENANT)],
            id="empty terms match nothing and stay so",
        ),
        pytest.param(spec_with(term(IN_HOST)), [term(IN_HOST, IN_TENANT)], id="one is there"),
        pytest.param(spec_with(term(IN_TENANT, IN_HOST)), [term(IN_TENANT, IN_HOST)], id="both are there"),
        pytest.param(
            spec_with(term(IN_TENANT, IN_HOST), term(ZONE)),
            [term(IN_TENANT, IN_HOST), term(ZONE, IN_HOST, IN_TENANT)],
            id="one term has them",
        ),
        pytest.param(
            spec_with(term(expression(HOST_LABEL, "In", "host-a", "host-b"), IN_TENANT)),
            [term(expression(HOST_LABEL, "In", "host-a", "host-b"), IN_TENANT, IN_HOST)],
            id="wider",
        ),
        pytest.param(
            spec_with(
                term(
                    expression(HOST_LABEL, "In", "host-a", "x"), expression(HOST_LABEL, "In", "host-a", "y"), IN_TENANT
                )
            ),
            [term(expression(HOST_LABEL, "In", "host-a", "x"), expression(HOST_LABEL, "In", "host-a", "y"), IN_TENANT)],
            id="two that leave one value",
        ),
        pytest.param(
            spec_with(term(expression(HOST_LABEL, "NotIn", "host-a"), expression("other", "In", "host-a", "t1"))),
            [
                term(
                    expression(HOST_LABEL, "NotIn", "host-a"),
                    expression("other", "In", "host-a", "t1"),
                    IN_HOST,
                    IN_TENANT,
                )
            ],
            id="other operators and keys imply nothing",
        ),
    ],
)
def test_the_affinity_is_added_to_every_term(spec: dict[str, Any], terms: list[Any]) -> None:
    """The new spec has these terms, all else is as it was; the patch gives the same, and nobody's input changes."""
    before = copy.deepcopy(spec)
    result = placed(spec, BOTH)
    assert spec == before
    assert terms_of(result) == terms
    assert _without_required(result) == _without_required(spec)
    assert _patched(spec) == result
    assert placed(result, BOTH) == result
    assert _patched(result) == result


def test_nothing_wanted_adds_nothing() -> None:
    spec = spec_with(term(ZONE), nodeSelector={HOST_LABEL: "x"})
    result = placed(spec, ())
    assert result == spec
    assert result is not spec


def test_a_node_selector_that_says_the_same_stays() -> None:
    spec = {"nodeSelector": {HOST_LABEL: "host-a", "disk": "ssd"}}
    assert placed(spec, (HOST,))["nodeSelector"] == {HOST_LABEL: "host-a", "disk": "ssd"}


@pytest.mark.parametrize(
    "spec", [{"affinity": []}, spec_with("x"), spec_with(term("x")), spec_with({"matchExpressions": {}})]
)
def test_an_affinity_that_cannot_be_read_is_not_replaced(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not the spec of a Pod"):
        placed(spec, BOTH)


def test_each_operation_has_the_reason_of_its_requirement() -> None:
    """In a new term, which takes one operation, both reasons stand."""
    patch = Patch()
    added = plan_affinity(_view(spec_with(term(ZONE), term(IN_HOST))), {HOST: "h", TENANT: "t"}, patch)
    assert added == (HOST, TENANT)
    assert patch.reasons == ["h", "t", "t"]
    patch = Patch()
    plan_affinity(_view({}), {HOST: "h", TENANT: "t"}, patch)
    assert patch.reasons == ["h; t"] * 5


def test_a_pod_without_a_spec_gets_one() -> None:
    patch = Patch()
    plan_affinity(None, {TENANT: "t"}, patch)
    assert terms_of(patched({}, patch)["spec"]) == [term(IN_TENANT)]


def _view(spec: dict[str, Any]) -> PodSpec:
    return msgspec.convert(spec, PodSpec)


def _patched(spec: dict[str, Any]) -> Any:
    patch = Patch()
    plan_affinity(_view(spec), dict.fromkeys(BOTH, "because"), patch)
    return patched({"spec": spec}, patch)["spec"]


def _without_required(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything but the required node affinity, and what only holds it."""
    rest = copy.deepcopy(spec)
    affinity = rest.pop("affinity", None) or {}
    node = affinity.pop("nodeAffinity", None) or {}
    node.pop(REQUIRED, None)
    return {**rest, "affinity": {**affinity, "nodeAffinity": node}}
