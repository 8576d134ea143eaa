"""Selections as Multus reads them: its own code has answered a thousand values (`tests/peers/multus`)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from app.devtools.claims import annotations as stand_in
from app.devtools.sandbox.standins.sandboxes import NotAttached
from app.errors import Denied
from app.networks import selection
from app.networks.interfaces import chosen_by
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import decode_json
from tests.peers import ANSWERS as FILES
from tests.support.multus_inputs import cases

ANSWERS = [decode_json(line) for line in FILES["multus"].read_bytes().splitlines()]
"""One for each of `cases`, in its order; the program says what the members are."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def read(answer: dict[str, Any]) -> tuple[Any, tuple[selection.Selection, ...]]:
    """The default network and the others, as admission reads both. Raises Denied."""
    annotations = {NETWORKS: answer["networks"]}
    if "default" in answer:
        annotations[DEFAULT_NETWORK] = answer["default"]
    default, selections, _ = chosen_by(annotations, "default")
    if default is not None and not default.namespace:  # `app.networks.interfaces` looks there
        default = replace(default, namespace="kube-system")
    return default, selections


def refused(answer: dict[str, Any]) -> str:
    """Why Multus, or CNI, would not attach the networks; "" where they would."""
    if answer.get("error"):
        return str(answer["error"])
    default = answer.get("default_element") or {}
    names = ["lo", default.get("interface") or "eth0", *answer.get("names", ())]
    if len(set(names)) < len(names):
        return "interface name already exists"
    return "; ".join(answer.get("faults", ())) or str(answer.get("routes", ""))


def refused_later(answer: dict[str, Any]) -> Iterator[str]:
    """What Multus takes, and what then fails: at the API server, in Linux, in netlink."""
    for element in (*answer.get("elements", ()), *filter(None, [answer.get("default_element")])):
        if len(element["name"]) > 253 or not NAME.fullmatch(element["name"]):
            yield "no object has this name"
        if not LABEL.fullmatch(element["namespace"]):
            yield "no namespace has this name"
        interface = element.get("interface", "")
        if interface in ("all", "default") or set("%\0") & set(interface) or b"\xa0" in interface.encode():
            yield "net/core/dev.c: EINVAL; a name with a NUL cannot be in an environment"
        address = re.sub("[^0-9a-f]", "", element.get("mac", "").lower())
        if len(address) == 12 and (int(address[:2], 16) & 1 or not int(address, 16)):
            yield "is_valid_ether_addr: EADDRNOTAVAIL"
        if "<nil>" in element.get("default-route", ()):
            yield "netlink: either Dst.IP, Src.IP or Gw must be set"


def test_every_value_has_an_answer() -> None:
    """Else `python -m tests.peers multus` is to be run."""
    assert [{key: one[key] for key in ("networks", "default") if key in one} for one in ANSWERS] == cases()
    assert len(ANSWERS) > 900
    assert sum(not refused(one) for one in ANSWERS) > 300
    assert sum(bool(refused(one)) for one in ANSWERS) > 400


def test_what_multus_refuses_is_denied_and_nothing_else() -> None:
    """Of what is read, every name and address is the same. A denial names the annotation, and is short."""
    assert [fault for answer in ANSWERS for fault in differences(answer)] == []


def differences(answer: dict[str, Any]) -> Iterator[str]:
    asked = f"{answer['networks']!r}, default {answer.get('default')!r}"
    why = "; ".join([*filter(None, [refused(answer)]), *refused_later(answer)])
    try:
        default, selections = read(answer)
    except Denied as denial:
        message = str(denial)
        if not why:
            yield f"{asked}: denied: {message}"
        named = message.startswith((f"annotation {NETWORKS}: ", f"annotation {DEFAULT_NETWORK}: "))
        if not (named and message.isprintable() and len(message) < 600):
            yield f"{asked}: {message}"
        return
    expected = [*filter(None, [answer.get("default_element")]), *answer.get("elements", ())]
    got = [*map(shown, filter(None, (default, *selections)))]
    if why or got != [*map(told, expected)]:
        yield f"{asked}: read as {got}; {why}"


def test_the_stand_in_reads_them_as_multus() -> None:
    """It shares no reading with admission, and gives interfaces the names that Multus gives them."""
    assert [fault for answer in ANSWERS for fault in differences_of_the_stand_in(answer)] == []


def differences_of_the_stand_in(answer: dict[str, Any]) -> Iterator[str]:
    annotations = {NETWORKS: answer["networks"]}
    annotations |= {DEFAULT_NETWORK: answer["default"]} if "default" in answer else {}
    asked, why = f"{annotations}", "; ".join([*filter(None, [refused(answer)]), *refused_later(answer)])
    try:
        default, others = stand_in.selected({"metadata": {"namespace": "default", "annotations": annotations}})
    except NotAttached as error:
        if not why:
            yield f"{asked}: refused: {error}"
        return
    expected = [*filter(None, [answer.get("default_element")]), *answer.get("elements", ())]
    names = [*([expected[0].get("interface") or "eth0"] if default else []), *answer.get("names", ())]
    told_names = [told(element | {"interface": name}) for element, name in zip(expected, names, strict=True)]
    got = [read_by_stand_in(element) for element in (*filter(None, [default]), *others)]
    if why or got != told_names:
        yield f"{asked}: read as {got}; {why}"


def read_by_stand_in(element: stand_in.Element) -> tuple[Any, ...]:
    gateways = [str(getattr(address, "ipv4_mapped", None) or address) for address in element.gateways]
    texts = element.namespace, element.name, element.interface
    return *texts, list(element.ips), element.device_id, element.mac, gateways


def shown(one: selection.Selection) -> tuple[Any, ...]:
    routes = [
        str(getattr(address := ipaddress.ip_address(text), "ipv4_mapped", None) or address)
        for text in one.default_route
    ]
    return one.namespace, one.name, one.interface, list(one.ips), one.device_id, one.mac, routes


def told(one: dict[str, Any]) -> tuple[Any, ...]:
    texts = (one.get(member, "") for member in ("namespace", "name", "interface"))
    lists = one.get("ips", []), one.get("deviceID", ""), one.get("mac", ""), one.get("default-route", [])
    return (*texts, *lists)
