"""The format rules, in Python and as the CEL of the policy: both find the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.cel.checking import check_parts
from app.cel.matchconditions import Attributes, UserInfo, holds
from app.cel.syntax import parse
from app.cel.types import DYN
from app.cel.values import evaluate
from app.claims.format import format_problems
from app.claims.model import changed_entries
from app.claims.permissions import STATUS_WEBHOOKS, format_policy
from app.text import MESSAGE
from tests.support.claim_statuses import FORMATS, claim, entry

JSON = dict[str, Any]
POLICY = format_policy()
VARIABLES = dict.fromkeys(("object", "oldObject", "variables"), DYN)


def _computed(expression: str, variables: JSON) -> Any:
    node = parse(expression)
    check_parts(expression, node, VARIABLES)
    return evaluate(node, variables)


def _evaluated(obj: JSON, old: JSON) -> JSON:
    variables: JSON = {"object": obj, "oldObject": old, "variables": {}}
    for one in POLICY["variables"]:
        variables["variables"][one["name"]] = _computed(one["expression"], variables)
    return variables


def refusals(obj: JSON, old: JSON) -> list[str]:
    """The messages of the policy."""
    variables = _evaluated(obj, old)
    return [
        _computed(one["messageExpression"], variables)
        for one in POLICY["validations"]
        if _computed(one["expression"], variables) is not True
    ]


def found_by_policy(obj: JSON, old: JSON) -> list[str]:
    """What the messages are cut from: they have a bound, and many findings are longer."""
    whole = [text for name, text in _evaluated(obj, old)["variables"].items() if name != "changed" and text]
    assert refusals(obj, old) == [text[:MESSAGE] for text in whole]
    return whole


def found_by_code(obj: JSON, old: JSON) -> list[str]:
    return [
        line
        for index, one in changed_entries(obj, old)
        for line in format_problems(one["networkData"], f"status.devices[{index}].networkData")
    ]


def _rules(lines: list[str]) -> list[str]:
    """Field and what is right, without the value: the code escapes it and cuts it, the policy joins its findings."""
    return sorted(part.partition(", got ")[0] for line in lines for part in re.split(r"; (?=status\.devices)", line))


def agree(obj: JSON, old: JSON) -> list[str]:
    found = _rules(found_by_policy(obj, old))
    assert found == _rules(found_by_code(obj, old))
    return found


@pytest.mark.parametrize(("data", "fields"), FORMATS)
def test_each_field_that_is_wrong_is_named(data: JSON, fields: tuple[str, ...]) -> None:
    found = list(format_problems(data, "networkData"))
    assert [line.partition(": want ")[0] for line in found] == [f"networkData.{field}" for field in fields]


@pytest.mark.parametrize(("data", "fields"), FORMATS)
def test_the_policy_says_the_same(data: JSON, fields: tuple[str, ...]) -> None:
    found = agree(claim("c", entry("d0", interfaceName="net1"), entry("d1", **data)), claim("c"))
    assert sorted(line.partition(": ")[0] for line in found) == sorted(
        f"status.devices[1].networkData.{field}" for field in fields
    )


_NAMES = st.text(alphabet="ab./: \n\x0b\u00a0é\\'", max_size=18)
_MACS = st.lists(st.text(alphabet="0fFg", min_size=1, max_size=3), max_size=21).map(":".join)
_BYTES = st.sampled_from((5, 6, 8, 20)).map(lambda count: ":".join(["0f"] * count))
_ADDRESSES = st.one_of(
    st.ip_addresses(),
    st.sampled_from(("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/120", "ff00::/8")).flatmap(
        lambda network: st.ip_addresses(network=network)
    ),
)
_IPS = st.builds("{}/{}".format, _ADDRESSES, st.integers(0, 33)) | st.text(max_size=9)
_DATA = st.fixed_dictionaries(
    {}, optional={"interfaceName": _NAMES, "hardwareAddress": _MACS | _BYTES, "ips": st.lists(_IPS, unique=True)}
)


@given(st.lists(_DATA, max_size=3))
@example([{"ips": [f"0.0.0.0/{length}" for length in range(8)] + ["::/0"]}])
def test_they_agree_on_any_text(data: list[JSON]) -> None:
    agree(claim("c", *(entry(f"d{index}", **one) for index, one in enumerate(data))), claim("c"))


BAD = {"interfaceName": "a b"}


def test_only_entries_that_change_are_looked_at() -> None:
    old = claim("c", entry("d0", **BAD), entry("d1", interfaceName="net1"))
    moved = claim("c", entry("d1", interfaceName="net2"), entry("d0", **BAD))
    assert agree(moved, old) == []
    worse = claim("c", entry("d0", **BAD), entry("d1", **BAD))
    assert [line.partition(":")[0] for line in agree(worse, old)] == ["status.devices[1].networkData.interfaceName"]
    for key in ("driver", "pool", "shareID"):
        other = claim("c", entry("d0", **BAD) | {key: "other"})
        assert len(agree(other, old)) == 1, key


def test_an_entry_without_network_data_is_passed_over() -> None:
    bare = {key: value for key, value in entry("d0").items() if key != "networkData"}
    assert agree(claim("c", bare), claim("c", entry("d0", **BAD))) == []
    assert len(agree(claim("c", entry("d0", **BAD)), claim("c", bare))) == 1
    assert agree({"metadata": {}}, {"metadata": {}}) == []


def test_the_message_has_no_control_characters_and_a_bound() -> None:
    names = [entry(f"d{index}", interfaceName="\n\x7f\x85"[index % 3] * 128) for index in range(32)]
    (message,) = refusals(claim("c", *names), claim("c"))
    assert len(message) == 1024
    assert message.isprintable()
    assert ", got control characters; status.devices[1]" in message
    (validation,) = (one for one in POLICY["validations"] if "interfaceNames" in one["expression"])
    assert "at most 15 bytes" in validation["message"], "what stands there where a message cannot be used"


@pytest.mark.parametrize(
    ("entries", "before", "metadata", "matched"),
    [
        ((entry("d0", **BAD),), (), {}, True),
        ((entry("d0", **BAD),), (entry("d0", **BAD),), {}, False),
        ((), (entry("d0", **BAD),), {}, False),
        ((entry("d0", **BAD),), (), {"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_the_policy_is_asked_about_changes_alone(
    entries: tuple[JSON, ...], before: tuple[JSON, ...], metadata: JSON, *, matched: bool
) -> None:
    request = Attributes(
        *("UPDATE", "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", "status", "ns", "c"),
        dry_run=False,
        user=UserInfo("a"),
        old_object=claim("c", *before),
        options=None,
    )
    for conditions in (POLICY["matchConditions"], _WEBHOOK_CONDITIONS):
        assert holds(conditions, request, claim("c", *entries, **metadata)) is matched


(_WEBHOOK,) = STATUS_WEBHOOKS
_WEBHOOK_CONDITIONS = [
    {"name": one.name, "expression": " || ".join(term.expression for term in one.terms)} for one in _WEBHOOK.conditions
]
