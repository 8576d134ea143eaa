"""The policy for network data in statuses of claims, where the API server has the kind and where it has not."""

from __future__ import annotations

from app.claims.policy import format_policy
from app.kube.retry import get_or_none
from tests.integration.chart.test_access import POLICIES
from tests.support.chart import Render, Server
from tests.support.real_parts import real_minor

ALONE = {"webhook": {"enabled": False}, "claims": {"formatPolicy": "Deny"}}
NAME = "berth-claims-format"


def test_the_policy_is_that_of_the_code(render: Render) -> None:
    for action in ("Warn", "Deny"):
        rendered = render({"claims": {"formatPolicy": action}})
        assert rendered.one("ValidatingAdmissionPolicy", NAME)["spec"] == format_policy()
        binding = rendered.one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
        assert binding == {"policyName": NAME, "validationActions": [action]}
    assert render().of("ValidatingAdmissionPolicy") == []


async def test_a_release_of_the_policy_alone(server: Server) -> None:
    """The sandbox lacks the kind, and Kubernetes before 1.31 functions of its rules: the release goes without it."""
    await server.install(ALONE)
    found = await get_or_none(server.client, POLICIES, NAME)
    assert (found is None) is (server.cluster is not None or real_minor() < 31)
    if found is not None:
        assert found["spec"]["variables"] == format_policy()["variables"]
