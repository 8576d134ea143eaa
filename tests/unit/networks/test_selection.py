"""The parser of the network annotations, beyond what the goldens show."""

from __future__ import annotations

import pytest

from app.errors import Denied
from app.networks import selection
from app.networks.interfaces import check_together
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
        ("a@.", "Linux keeps this name"),
        ("a@all", "Linux keeps this name"),
        ("a@net1:0", "at most 15 characters without"),
        ("a@n%d", "'%'"),
        ('[{"name":"ns/a"}]', "use namespace for what stands before '/'"),
        ('[{"name":"a@net1"}]', "use interface for what stands after '@'"),
        ('[{"name":"a","default-route":"10.0.0.1"}]', "default-route is '10.0.0.1'; want a list of addresses"),
        ('[{"name":"a","default-route":["10.0.0.1/24"]}]', "want 10.0.0.1, without a prefix"),
        ('[{"name":"a","portMappings":[{"hostPort":"80"}]}]', "portMappings[0].hostPort is '80'; want a whole number"),
        ('[{"name":"a","bandwidth":{"ingressRate":"1M"}}]', "bandwidth.ingressRate is '1M'; want a whole number"),
        ('[{"name":"a","cni-args":["x"]}]', "cni-args is a list; want an object"),
        ('[{"name":"a","ips":["10.0.0.1/255.0.0.0"]}]', "neither an IP address nor a CIDR block; want 10.0.0.2/24"),
        ('[{"name":"a","Ips":[true]}]', "true in ips"),
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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/a", ["element 1 '/a': the namespace before '/' is empty"]),
        ("a@", ["element 1 'a@': the interface after '@' is empty"]),
        ('[{"name":"a","macRequest":"x"}]', ["{name: 'a'}: Multus does not read macRequest; did you mean mac?"]),
        ('[{"name":"a","ip":"10.0.0.1"}]', ["Multus does not read ip; did you mean ips?"]),
        ('[{"name":"a","mac":"020000000001"}]', ["built with Go before 1.26 refuses mac without colons"]),
        ('[{"name":"a","nmae":"b","zzz":1}]', ["read nmae; did you mean name?", "does not read zzz"]),
        ('[{"name":"a","mac":null},{"name":"b","ips":null}]', ["element 1 {name: 'a'}: mac is null", "ips is null"]),
        ('[{"name":"a","mac":"02:00:00:00:00:01","MAC":"02:00:00:00:00:02"}]', ["mac is there more than once"]),
        ('[{"name":"a","bandwidth":{"rate":1}}]', ["Multus does not read bandwidth.rate"]),
        ('[{"name":"a","cni-args":null,"ipam-claim-reference":"x","NameSpace":"b"}]', []),
    ],
)
def test_what_multus_passes_over_is_named(value: str, words: list[str]) -> None:
    """A line for each; Go programs write `cni-args` as null, and other plugins read `ipam-claim-reference`."""
    ignored = selection.read(value, annotation="networks", default_namespace="default").ignored
    assert len(ignored) == len(words)
    for line, part in zip(ignored, words, strict=True):
        assert line.startswith("annotation networks: element ")
        assert part in line


def test_the_lines_about_what_is_passed_over_are_bounded() -> None:
    members = ",".join(f'"m{number}":1' for number in range(5000))
    assert len(selection.read(f'[{{"name":"a",{members}}}]', annotation="n", default_namespace="d").ignored) == 50


def test_json_within_the_depth_of_either_reader_is_read_or_denied() -> None:
    """The two readers do not end at the same depth."""
    denials: list[str] = []
    for depth in range(900, 1010):
        value = '[{"name":"a","cni-args":{"x":' + "[" * depth + "]" * depth + "}}]"
        try:
            parse(value)
        except Denied as denial:
            denials.append(str(denial))
    assert [one for one in denials if "not valid JSON" not in one] == []
    assert 0 < len(denials) < 110


@pytest.mark.parametrize(
    ("networks", "default", "words"),
    [
        ("a,b@net1", "", "element 2 'b': interface net1 is the name of element 1 'a' (by its place, as it names none)"),
        ("a@net2,b", "", "element 2 'b': interface net2 (by its place, as it names none) is the name of element 1 'a'"),
        ("a@eth0", "", "eth0 is the name of the Pod's default network"),
        ("a@lo", "", "lo is the name of the loopback interface"),
        ("a,b", "x@net2", "net2 (by its place, as it names none) is the name of the Pod's default network"),
        ('[{"name":"a","mac":"e7:00:00:00:00:01"}]', "", "mac 'e7:00:00:00:00:01' is that of a group of stations"),
        ('[{"name":"a","mac":"0000.0000.0000"}]', "", "has zeros alone"),
        ("a", '[{"name":"x","mac":"f1:00:00:00:00:01"}]', "default-network: element 1 'x': mac"),
        (
            '[{"name":"a","default-route":["10.0.0.1"]},{"name":"b","default-route":["10.1.0.1"]}]',
            "",
            "default-route has 2 addresses of IPv4 in all (10.0.0.1, 10.1.0.1); want one at most",
        ),
        (
            '[{"name":"a","default-route":["fd00::1"]}]',
            '[{"name":"x","default-route":["fd00::2"]}]',
            "2 addresses of IPv6",
        ),
    ],
)
def test_what_cannot_be_attached_together(networks: str, default: str, words: str) -> None:
    first = selection.parse_default(default, annotation="d", default_namespace="default")
    with pytest.raises(Denied) as caught:
        check_together(parse(networks), first)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("networks", "default"),
    [
        ("a@net9,b,c@net1", ""),
        ("a@eth0", "x@eth1"),
        ("a,a,a", "x@eth0"),
        ('[{"name":"a","default-route":["10.0.0.1","fd00::1"]}]', ""),
        ('[{"name":"a","mac":"00:00:00:00:00:00:00:00"}]', ""),
        ("", '[{"name":"x","default-route":["10.0.0.1","10.0.0.2"]}]'),
    ],
)
def test_what_can_be_attached_together(networks: str, default: str) -> None:
    first = selection.parse_default(default, annotation="d", default_namespace="default")
    check_together(parse(networks), first)
