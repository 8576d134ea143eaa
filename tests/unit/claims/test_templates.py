"""What becomes of one ResourceClaimTemplate, and what is kept of who uses templates."""

from __future__ import annotations

from typing import Any

import pytest

from app.claims.claim_templates import (
    OwnTemplate,
    hash_of,
    next_action,
    stored_attachment,
    stored_pod,
    stored_template,
    template_body,
)
from app.claims.definitions import DeviceClass, class_template, of_class, parse_definitions
from app.kube.names import check_dns_subdomain, check_label_value
from tests.support.claim_reviews import PAIR, attachment, definitions, template

JSON = dict[str, Any]
KEY = ("team-a", "gpu-nic")
WANTED = template_body(KEY, parse_definitions(definitions(gpu_nic=PAIR))["gpu-nic"])
OURS = OwnTemplate(KEY, "u", deleting=False, made_from=hash_of(WANTED))
OLD = OwnTemplate(KEY, "u", deleting=False, made_from="another")
GOING = OwnTemplate(KEY, "u", deleting=True, made_from="another")


@pytest.mark.parametrize(
    ("wanted", "found", "used", "idle", "action"),
    [
        (WANTED, None, True, False, "create"),
        (WANTED, None, False, False, ""),
        (None, None, True, False, ""),
        (WANTED, OURS, True, False, ""),
        (WANTED, OURS, False, False, ""),
        (WANTED, OURS, False, True, "delete"),
        (WANTED, OURS, True, True, ""),
        (WANTED, OLD, True, False, "replace"),
        (WANTED, OLD, False, False, "delete"),
        (None, OURS, True, False, "delete"),
        (WANTED, GOING, True, False, ""),
        (None, GOING, False, True, ""),
    ],
)
def test_one_step_at_a_time(wanted: Any, found: Any, action: str, *, used: bool, idle: bool) -> None:
    assert next_action(wanted, found, used=used, idle=idle) == action


def test_what_was_written_is_ours_and_needs_nothing() -> None:
    stored = stored_template({**WANTED, "metadata": {**WANTED["metadata"], "uid": "u"}})
    assert stored is not None
    assert next_action(WANTED, stored, used=True, idle=False) == ""


def test_a_template_without_our_mark_is_not_ours() -> None:
    assert stored_template(template("gpu-nic", "a")) is None
    for key in WANTED["metadata"]["labels"]:
        rest = {name: value for name, value in WANTED["metadata"]["labels"].items() if name != key}
        assert stored_template({**WANTED, "metadata": {**WANTED["metadata"], "labels": rest}}) is None


def test_a_class_that_is_made_again_is_another_owner() -> None:
    """The garbage collector deletes what the class before owned."""
    bodies = [
        template_body(KEY, of_class(DeviceClass("vf.example.com", uid, "", ""), KEY[1])) for uid in ("first", "second")
    ]
    assert hash_of(bodies[0]) != hash_of(bodies[1])
    assert bodies[1]["metadata"]["ownerReferences"][0]["uid"] == "second"


@pytest.mark.parametrize("name", ["vf.example.com", "a" * 63, ".".join(["b" * 60] * 4)])
def test_names_of_templates_of_classes_can_be_names_and_labels(name: str) -> None:
    one = DeviceClass(name, "u", "", "")
    body = template_body(("ns", one.template), of_class(one, one.template))
    check_dns_subdomain(body["metadata"]["name"])
    for value in body["metadata"]["labels"].values():
        check_label_value(value)
    assert class_template(name) == one.template


def pod(*claims: JSON, phase: str = "Pending") -> JSON:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {"resourceClaims": claims},
        "status": {"phase": phase},
    }


def test_pods_use_the_templates_that_they_name_until_they_are_over() -> None:
    claims = ({"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimTemplateName": "t"})
    found = stored_pod(pod(*claims))
    assert found is not None
    assert found.keys == (("ns", "t"),)
    assert stored_pod(pod(*claims, phase="Failed")) is None
    assert stored_pod(pod({"name": "a", "resourceClaimName": "c"})) is None
    assert stored_pod({"metadata": {"name": "p", "namespace": "ns"}}) is None


def test_attachments_use_what_their_selections_need() -> None:
    by_class = stored_attachment(attachment("a", namespace="ns", device_class="vf.example.com"))
    assert by_class is not None
    assert by_class.keys == (("ns", "berth-class-vf.example.com"),)
    by_template = stored_attachment(attachment("a", namespace="ns", template="t"))
    assert by_template is not None
    assert by_template.keys == (("ns", "t"),)
    assert stored_attachment(attachment("a", resource="a/b")) is None
    assert stored_attachment(attachment("a", template="t", inject="false")) is None
