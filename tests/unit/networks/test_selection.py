"""The parser of the network annotations, beyond what the goldens show."""

from __future__ import annotations

import pytest

from app.errors import Denied
from app.networks import selection
from app.networks.selection import Selection


def parse(value: str, namespace: str = "default") -> list[Selection]:
    return list(selection.parse(value, annotation="networks", default_namespace=namespace))


def test_text_form() -> None:
    """Every part is trimmed; the Pod's namespace stands in where an element has none."""
    assert parse(" a , ns / b @ net1 ,c@eth0.1") == [
        Selection("default", "a", ""),
        Selection("ns", "b", "net1"),
        Selection("default", "c", "eth0.1"),
    ]


def test_json_form() -> None:
    """Null members are absent, unknown ones ignored, the old name of `interface` is understood."""
    value = '[{"name":"a","namespace":null,"cni-args":{"x":[1]}},{"name":"b","namespace":"ns","interfaceRequest":"n"}]'
    assert parse(value) == [Selection("default", "a", ""), Selection("ns", "b", "n")]


def test_requested_addresses_and_device_are_kept() -> None:
    value = '[{"name":"a","ips":["10.0.0.1/24","fd00::1"],"deviceID":"0000:3B:02.1"},{"name":"a","ips":null}]'
    assert parse(value) == [
        Selection("default", "a", "", ("10.0.0.1/24", "fd00::1"), "0000:3B:02.1"),
        Selection("default", "a"),
    ]


def test_no_namespace_at_all_stays_empty() -> None:
    """The caller decides what becomes of an element whose namespace nobody knows."""
    assert parse("a", namespace="") == [Selection("", "a", "")]


@pytest.mark.parametrize("mac", ["02:00:00:00:00:01", "02-00-00-00-00-01", "0200.0000.0001", "02:00:00:00:00:00:00:01"])
def test_hardware_addresses_of_every_form(mac: str) -> None:
    """What Go parses as a hardware address is accepted."""
    assert len(parse(f'[{{"name":"a","mac":"{mac}","infiniband-guid":"{mac}"}}]')) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/a", "empty namespace"),
        ("a@", "empty interface"),
        ("a@n/b", "'a@n/b'"),
        ("a@" + "ü" * 8, "at most 15 characters"),
        ("a b", "not a valid name"),
        ("a" * 64 + "/b", "has 64 characters"),
        ("аpple", "not a valid name"),  # noqa: RUF001  a Cyrillic letter
        ("a\u202eb", "\\u202e"),
        ('[{"name":"a","interface":"a b"}]', "at most 15 characters"),
        ('[{"name":"a","ips":"10.0.0.1"}]', "want a list of addresses"),
        ('[{"name":"a","ips":[1]}]', "in ips"),
        ('[{"name":"a","mac":1}]', "want a string"),
        ('[{"name":{}}]', "want a string"),
        ('[{"name":"' + "a" * 254 + '"}]', "has 254 characters"),
        ("[1]", "want an object"),
        ("{}", "no list"),
        ("[" * 50_000, "not valid JSON"),
        (",".join(["a"] * 257), "at most 256"),
        ("a," * 150_000, "larger than 262144 bytes"),
        ("[" + "9" * 5000 + "]", ""),
    ],
)
def test_refused_with_a_message_for_the_author(value: str, words: str) -> None:
    """The message names the annotation, shows no control characters and is never as long as the value."""
    with pytest.raises(Denied) as caught:
        parse(value)
    message = str(caught.value)
    assert message.startswith("annotation networks: ")
    assert words in message
    assert message.isprintable()
    assert len(message) < 600
    assert caught.value.reason == "BadNetworkAnnotation"


def test_long_values_are_parsed_like_short_ones() -> None:
    """The cache holds short values only; the result is the same."""
    names = [f"network-{index}" for index in range(200)]
    assert [one.name for one in parse(",".join(names))] == names
