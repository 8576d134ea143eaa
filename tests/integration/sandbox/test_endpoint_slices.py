"""What EndpointSlices may say, and Services without a selector."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import MERGE, table

JSON = dict[str, Any]


def endpoint_slice(**fields: Any) -> JSON:
    """An IPv4 slice with one endpoint and one port; fields that are None are left out."""
    base = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


def endpoint(*addresses: str, **fields: Any) -> JSON:
    return endpoint_slice(endpoints=[{"addresses": list(addresses), **fields}])


ACCEPTED: dict[str, JSON] = {
    "ok": endpoint_slice(),
    "v6ok": endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["2001:db8::1"]}]),
    "fqdn": endpoint_slice(addressType="FQDN", endpoints=[{"addresses": ["a.example.com"]}]),
    "dupaddr": endpoint("10.0.0.1", "10.0.0.1"),
    "nodeok": endpoint(
        "10.0.0.1",
        nodeName="n1",
        zone="z1",
        hostname="h",
        conditions={"ready": True, "serving": True, "terminating": False},
        targetRef={"kind": "Pod", "name": "p", "namespace": "n", "uid": "u"},
    ),
    "hints": endpoint("10.0.0.1", hints={"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]}),
    "hintsnone": endpoint("10.0.0.1", hints={"forZones": [{}]}),
    "topo": endpoint("10.0.0.1", deprecatedTopology={"a": "b"}),
    "topobad": endpoint("10.0.0.1", deprecatedTopology={"a b": "b"}),
    "1000": endpoint_slice(endpoints=[{"addresses": ["10.0.0.1"]}] * 1000),
    "ports101": endpoint_slice(ports=[{"port": i, "name": f"p{i}"} for i in range(1, 102)]),
    "portnone": endpoint_slice(ports=[{}]),
    "portzero": endpoint_slice(ports=[{"port": 0}]),
    "portbig": endpoint_slice(ports=[{"port": 70000}]),
    "appok": endpoint_slice(ports=[{"port": 1, "appProtocol": "kubernetes.io/h2c"}]),
    "noports": endpoint_slice(ports=None),
    "noendpoints": endpoint_slice(endpoints=None),
}
REFUSED: dict[str, tuple[JSON, str]] = {
    "notype": (endpoint_slice(addressType=None), "addressType: Required value"),
    "type": (
        endpoint_slice(addressType="x"),
        'addressType: Unsupported value: "x": supported values: "FQDN", "IPv4", "IPv6"',
    ),
    "v6": (
        endpoint_slice(addressType="IPv6"),
        'endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address',
    ),
    "v4in6": (endpoint("2001:db8::1"), 'endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address'),
    "fqdnbad": (
        endpoint_slice(addressType="FQDN", endpoints=[{"addresses": ["a"]}]),
        'endpoints[0].addresses[0]: Invalid value: "a": should be a domain with at least two segments separated by dots',
    ),
    "fqdnbad2": (
        endpoint_slice(addressType="FQDN", endpoints=[{"addresses": ["A_.b"]}]),
        'endpoints[0].addresses[0]: Invalid value: "A_.b": a lowercase RFC 1123 subdomain',
    ),
    "noaddr": (endpoint_slice(endpoints=[{}]), "endpoints[0].addresses: Required value"),
    "emptyaddr": (endpoint(), "endpoints[0].addresses: Required value"),
    "noaddr-last": (
        endpoint_slice(endpoints=[{"nodeName": "N_"}]),
        'endpoints[0].nodeName: Invalid value: "N_": a lowercase RFC 1123 subdomain',
    ),
    "manyaddr": (
        endpoint(*[f"10.0.0.{i}" for i in range(101)]),
        "endpoints[0].addresses: Too many: 101: must have at most 100 items",
    ),
    "badaddr": (
        endpoint("10.0.0"),
        'endpoints[0].addresses[0]: Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    "zeros": (endpoint("10.0.0.01"), 'endpoints[0].addresses[0]: Invalid value: "10.0.0.01": must not have leading 0s'),
    "cidr": (
        endpoint("10.0.0.1/24"),
        'endpoints[0].addresses[0]: Invalid value: "10.0.0.1/24": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    "unspec": (
        endpoint("0.0.0.0"),
        'endpoints[0].addresses[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
    ),
    "loop": (
        endpoint("127.0.0.1"),
        'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    "linklocal": (
        endpoint("169.254.1.1"),
        'endpoints[0].addresses[0]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
    ),
    "multi": (
        endpoint("224.0.0.1"),
        'endpoints[0].addresses[0]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)',
    ),
    "v6canon": (
        endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["2001:DB8::1"]}]),
        'endpoints[0].addresses[0]: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")',
    ),
    "v6mapped": (
        endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["::ffff:10.0.0.1"]}]),
        'endpoints[0].addresses[0]: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped IPv6 address',
    ),
    "v6ll": (
        endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["fe80::1"]}]),
        'endpoints[0].addresses[0]: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
    ),
    "v6bad": (
        endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["x"]}]),
        'endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    "v6loop": (
        endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["::1"]}]),
        'endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    "node": (
        endpoint("10.0.0.1", nodeName="N_"),
        'endpoints[0].nodeName: Invalid value: "N_": a lowercase RFC 1123 subdomain',
    ),
    "host": (
        endpoint("10.0.0.1", hostname="H_"),
        'endpoints[0].hostname: Invalid value: "H_": a lowercase RFC 1123 label',
    ),
    "hintsdup": (
        endpoint("10.0.0.1", hints={"forZones": [{"name": "z"}, {"name": "z"}]}),
        'endpoints[0].hints.forZones[1].name: Duplicate value: "z"',
    ),
    "hintsmany": (
        endpoint("10.0.0.1", hints={"forZones": [{"name": f"z{i}"} for i in range(9)]}),
        "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
    ),
    "hintsbad": (
        endpoint("10.0.0.1", hints={"forZones": [{"name": "-"}]}),
        'endpoints[0].hints.forZones[0].name: Invalid value: "-": a valid label must be',
    ),
    "hintsnode": (
        endpoint("10.0.0.1", hints={"forNodes": [{"name": "N_"}]}),
        'endpoints[0].hints.forNodes[0].name: Invalid value: "N_": a lowercase RFC 1123 subdomain',
    ),
    "nodesmany": (
        endpoint("10.0.0.1", hints={"forNodes": [{"name": f"n{i}"} for i in range(9)]}),
        "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
    ),
    "many": (
        endpoint_slice(endpoints=[{"addresses": ["10.0.0.1"]}] * 1001),
        "endpoints: Too many: 1001: must have at most 1000 items",
    ),
    "manyports": (
        endpoint_slice(ports=[{"port": 1, "name": f"p{i}"} for i in range(20001)]),
        "ports: Too many: 20001: must have at most 20000 items",
    ),
    "portdup": (endpoint_slice(ports=[{"port": 1}, {"port": 2}]), 'ports[1].name: Duplicate value: ""'),
    "portname": (
        endpoint_slice(ports=[{"name": "A_", "port": 1}]),
        'ports[0].name: Invalid value: "A_": a lowercase RFC 1123 label',
    ),
    "portproto": (
        endpoint_slice(ports=[{"protocol": "x", "port": 1}]),
        'ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
    ),
    "app": (
        endpoint_slice(ports=[{"port": 1, "appProtocol": "a b"}]),
        'ports[0].appProtocol: Invalid value: "a b": name part must consist',
    ),
}


def path(namespace: str, name: str = "") -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices" + (f"/{name}" if name else "")


@pytest.mark.parametrize("case", ACCEPTED)
def test_an_endpoint_slice_is_accepted(served: Any, namespace: str, case: str) -> None:
    answer = served.request("POST", f"{path(namespace)}?dryRun=All", {"metadata": {"name": case}, **ACCEPTED[case]})
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", REFUSED)
def test_an_endpoint_slice_is_refused(served: Any, namespace: str, case: str) -> None:
    body, message = REFUSED[case]
    answer = served.request("POST", f"{path(namespace)}?dryRun=All", {"metadata": {"name": case}, **body})
    assert answer.status == 422, answer.body
    cause = answer.body["details"]["causes"][0]
    assert f"{cause['field']}: {cause['message']}".startswith(message)


def test_what_is_left_out_has_defaults(served: Any, namespace: str) -> None:
    answer = served.request("POST", path(namespace), {"metadata": {"name": "a"}, **endpoint_slice()})
    assert answer.body["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]
    assert answer.body["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {}}]
    bare = served.request("POST", path(namespace), {"metadata": {"name": "b"}, "addressType": "IPv6"})
    assert (bare.body["endpoints"], bare.body["ports"]) == (None, None)


def test_the_old_topology_is_dropped_and_names_are_warned_of(served: Any, namespace: str) -> None:
    body = {"metadata": {"name": "a"}, **endpoint("10.0.0.1", deprecatedTopology={"a": "b"})}
    assert "deprecatedTopology" not in served.request("POST", path(namespace), body).body["endpoints"][0]
    names = endpoint_slice(addressType="FQDN", endpoints=[{"addresses": ["a.example.com"]}])
    answer = served.request("POST", path(namespace), {"metadata": {"name": "b"}, **names})
    assert "FQDN endpoints are deprecated" in answer.headers["Warning"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8::1"]}]}, "addressType: {0}"),
        (
            {"addressType": "IPv6", "endpoints": [{}]},
            "[addressType: {0}, endpoints[0].addresses: Required value]",
        ),
        ({"addressType": None}, "[addressType: Required value, addressType: {0}]"),
    ],
)
def test_the_address_type_is_immutable(served: Any, namespace: str, change: JSON, text: str) -> None:
    served.request("POST", path(namespace), {"metadata": {"name": "a"}, **endpoint_slice()})
    answer = served.request("PATCH", path(namespace, "a"), change, content_type=MERGE)
    assert answer.status == 422
    assert answer.body["message"].endswith(f"is invalid: {text.format('Invalid value: null: field is immutable')}")


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        ({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "berth"}}}, 2),
        ({"metadata": {"annotations": {"a": "b"}}}, 1),
        ({"endpoints": [{"addresses": ["10.0.0.2"]}]}, 2),
    ],
)
def test_labels_and_endpoints_are_generations(served: Any, namespace: str, change: JSON, generation: int) -> None:
    served.request("POST", path(namespace), {"metadata": {"name": "a"}, **endpoint_slice()})
    answer = served.request("PATCH", path(namespace, "a"), change, content_type=MERGE)
    assert answer.body["metadata"]["generation"] == generation


def test_a_service_needs_no_selector(served: Any, namespace: str) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}
    answer = served.request("POST", f"/api/v1/namespaces/{namespace}/services", body)
    assert answer.status == 201
    assert "selector" not in answer.body["spec"]


def test_columns_show_the_first_three(served: Any, namespace: str) -> None:
    many = {
        "ports": [{"name": f"p{number}", "port": number} for number in range(1, 6)],
        "endpoints": [{"addresses": [f"10.0.0.{number}"]} for number in range(1, 6)],
    }
    few = {"ports": [{"port": 80}, {"name": "b"}], "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}]}
    for name, fields in (("a", {}), ("b", few), ("c", many)):
        served.request("POST", path(namespace), {"metadata": {"name": name}, "addressType": "IPv4", **fields})
    columns, rows = table(served, path(namespace))
    assert columns == ["Name", "AddressType", "Ports", "Endpoints", "Age"]
    assert rows == [
        ["a", "IPv4", "<unset>", "<unset>"],
        ["b", "IPv4", "80,b", "10.0.0.1,10.0.0.2"],
        ["c", "IPv4", "1,2,3 + 2 more...", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."],
    ]
