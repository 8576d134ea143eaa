"""What a Service says of its endpoints on another network, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.caches import stored_service
from app.services.model import Problem, ServicePort

JSON = dict[str, Any]


def service(
    network: str | None = "vlan",
    selector: str | None = "app=x",
    interface: str | None = None,
    request: str | None = None,
    **spec: Any,
) -> JSON:
    said = {"berth.dev/network": network, "berth.dev/selector": selector}
    said |= {"berth.dev/interface": interface, "berth.dev/request": request}
    annotations = {key: value for key, value in said.items() if value is not None}
    metadata = {"namespace": "ns", "name": "db", "uid": "u", "annotations": annotations}
    return {"metadata": metadata, "spec": {"clusterIP": "None", **spec}}


def problem(**more: Any) -> Problem:
    found = stored_service(service(**more))
    assert found is not None
    assert found.wish is None
    assert found.problem is not None
    return found.problem


@pytest.mark.parametrize(
    ("text", "network"),
    [("vlan", "ns/vlan"), (" vlan ", "ns/vlan"), ("other/vlan", "other/vlan"), ("a/b.c", "a/b.c")],
)
def test_networks(text: str, network: str) -> None:
    found = stored_service(service(text))
    assert found is not None
    assert found.problem is None
    assert found.wish is not None
    assert found.wish.network == network


@pytest.mark.parametrize(
    ("more", "device"),
    [
        ({"interface": "eth1"}, ("eth1", "")),
        ({"interface": " net1.5 "}, ("net1.5", "")),
        ({"request": "nic"}, ("", "nic")),
        ({"request": "nic/fast", "interface": "eth1"}, ("eth1", "nic/fast")),
    ],
)
def test_devices_in_place_of_a_network(more: JSON, device: tuple[str, str]) -> None:
    found = stored_service(service(None, **more))
    assert found is not None
    assert found.wish is not None
    assert (found.wish.network, found.wish.device) == ("", device)


def test_a_service_without_the_annotation_is_not_kept() -> None:
    assert stored_service(service(None)) is None


@pytest.mark.parametrize(
    ("more", "reason", "message"),
    [
        ({"network": ""}, "BadNetwork", "metadata.annotations[berth.dev/network]: an empty name is not allowed"),
        ({"network": "/vlan"}, "BadNetwork", "metadata.annotations[berth.dev/network]: an empty name"),
        ({"network": "a/b/c"}, "BadNetwork", "metadata.annotations[berth.dev/network]: 'a/b' is not a valid name"),
        ({"network": "Vlan"}, "BadNetwork", "want [namespace/]name of a NetworkAttachmentDefinition"),
        (
            {"interface": "eth1"},
            "BadDevice",
            "[berth.dev/interface]: stands beside berth.dev/network; want one of them",
        ),
        (
            {"network": None, "interface": ""},
            "BadDevice",
            "[berth.dev/interface]: '' names no interface; want a name such",
        ),
        ({"network": None, "interface": "a/b"}, "BadDevice", "'a/b' names no interface; want a name such as eth1"),
        ({"network": None, "interface": "x" * 16}, "BadDevice", "names no interface; want a name such as eth1"),
        ({"network": None, "request": "NIC"}, "BadDevice", "[berth.dev/request]: 'NIC' is not a valid name"),
        ({"network": None, "request": "nic/"}, "BadDevice", "[berth.dev/request]: an empty name is not allowed"),
        ({"network": None, "request": "a/b/c"}, "BadDevice", "want the name of a request in ResourceClaims"),
        ({"selector": None}, "BadSelector", "[berth.dev/selector]: is missing; want a label selector such as app=x"),
        ({"selector": " "}, "BadSelector", "[berth.dev/selector]: is empty; want a label selector such as app=x"),
        ({"selector": "app=x y"}, "BadSelector", "'app=x y' is not a requirement: use key=value"),
        ({"selector": "app=-"}, "BadSelector", "'-' is not a label value"),
    ],
)
def test_what_cannot_be_read(more: JSON, reason: str, message: str) -> None:
    """Its slices stay, and the message says so."""
    found = problem(**more)
    assert (found.reason, found.refused) == (reason, False)
    assert message in found.message
    assert found.message.endswith("The EndpointSlices that the Service has stay as they are")


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"selector": {"app": "x"}}, "SelectorNotAllowed", "spec.selector: "),
        ({"type": "ExternalName", "externalName": "example.com"}, "TypeNotAllowed", "spec.type: "),
    ],
)
def test_what_is_refused(spec: JSON, reason: str, field: str) -> None:
    found = stored_service({**service(), "spec": spec})
    assert found is not None
    assert found.problem is not None
    assert (found.problem.reason, found.problem.refused) == (reason, True)
    assert found.problem.message.startswith(field)


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv4", "IPv6")),
        ({"ipFamilies": ["IPv6"]}, ("IPv6",)),
        ({}, ("IPv4", "IPv6")),
        ({"clusterIP": "10.0.0.1"}, ("IPv4",)),
        ({"clusterIP": "fd00::1"}, ("IPv6",)),
    ],
)
def test_families(spec: JSON, families: tuple[str, ...]) -> None:
    found = stored_service(service(**spec))
    assert found is not None
    assert found.families == families


def test_labels_of_slices() -> None:
    """Those of the Service, but for the ones that say whose a slice is."""
    obj = service()
    obj["metadata"]["labels"] = {
        "team": "a",
        "kubernetes.io/service-name": "other",
        "endpointslice.kubernetes.io/managed-by": "other",
        "service.kubernetes.io/headless": "no",
    }
    found = stored_service(obj)
    assert found is not None
    ours = {"team": "a", "kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "berth"}
    assert dict(found.labels) == {**ours, "service.kubernetes.io/headless": ""}
    obj["spec"]["clusterIP"] = "10.0.0.1"
    found = stored_service(obj)
    assert found is not None
    assert dict(found.labels) == ours


def test_ports() -> None:
    ports = [{"port": 80}, {"name": "web", "port": 81, "targetPort": "http", "protocol": "UDP", "appProtocol": "x/y"}]
    found = stored_service(service(ports=ports))
    assert found is not None
    assert found.ports == (ServicePort("", "TCP", 80, ""), ServicePort("web", "UDP", "http", "x/y"))
