"""What Berth ships is accepted: its definitions with their rules, and webhook configurations with their conditions."""

from __future__ import annotations

from typing import Any

import pytest

from app.definitions import INFRA, TENANT, definition_name, read_definitions
from app.kube.resources import NETWORK_ATTACHMENTS, Resource
from tests.integration.sandbox.test_crd_rules import CRDS
from tests.support.chart import Render, chart, render

__all__ = ["chart", "render"]

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


@pytest.mark.parametrize("resource", [*INFRA, *TENANT, NETWORK_ATTACHMENTS], ids=definition_name)
def test_a_definition_and_its_rules_are_accepted(served: Any, resource: Resource) -> None:
    (definition,) = read_definitions([resource])
    answer = served.request("POST", f"{CRDS}?dryRun=All&fieldValidation=Strict", definition)
    assert answer.status == 201, answer.body["message"]


def test_webhooks_and_their_conditions_are_accepted(served: Any, render: Render) -> None:
    rendered = render({"webhook": {"args": {"confineTenants": True}, "injectionLabels": ["company.example/rdma"]}})
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = rendered.of(kind)
        assert any(hook.get("matchConditions") for one in found for hook in one["webhooks"])
        for one in found:
            path = f"{REGISTRATIONS}/{kind.lower()}s?dryRun=All&fieldValidation=Strict"
            answer = served.request("POST", path, one)
            assert answer.status == 201, answer.body["message"]
