"""ResourceClaims with network data in their status, and values of network data with what is wrong with them."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
DRIVER = "dra.example"
API = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}

FORMATS: tuple[tuple[JSON, tuple[str, ...]], ...] = (
    ({}, ()),
    ({"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.5/24", "2001:db8::5/64"]}, ()),
    ({"interfaceName": "a" * 15}, ()),
    ({"interfaceName": "a" * 16}, ("interfaceName",)),
    ({"interfaceName": "é" * 7}, ()),
    ({"interfaceName": "é" * 8}, ("interfaceName",)),
    ({"interfaceName": "..."}, ()),
    ({"interfaceName": ".a"}, ()),
    ({"interfaceName": "..a"}, ()),
    ({"interfaceName": "net1.100@x"}, ()),
    *(({"interfaceName": name}, ("interfaceName",)) for name in (".", "..", "a b", "a/b", "a:b", "/", ":")),
    *(({"interfaceName": f"a{space}b"}, ("interfaceName",)) for space in "\t\n\x0b\f\r\u00a0"),
    ({"interfaceName": "net1\n"}, ("interfaceName",)),
    ({"hardwareAddress": "0A:bc:00:00:00:01"}, ()),
    ({"hardwareAddress": ":".join(["0a"] * 8)}, ()),
    ({"hardwareAddress": ":".join(["0a"] * 20)}, ()),
    *(({"hardwareAddress": ":".join(["0a"] * count)}, ("hardwareAddress",)) for count in (1, 5, 7, 9, 14, 19, 21)),
    *(
        ({"hardwareAddress": text}, ("hardwareAddress",))
        for text in ("not a mac !", "02-00-00-00-00-01", "0200.0000.0001", "020000000001", "0g:00:00:00:00:01", "1:2:3:4:5:6")
    ),
    ({"hardwareAddress": "02:00:00:00:00:01\n"}, ("hardwareAddress",)),
    ({"ips": ["10.0.0.5/32", "2001:db8::5/128", "10.255.255.255/8", "fe80::1/64", "169.254.0.1/16"]}, ()),
    ({"ips": ["10.0.0.5/24", "0.0.0.0/24"]}, ("ips[1]",)),
    ({"ips": ["::/64"]}, ("ips[0]",)),
    ({"ips": ["127.0.0.1/8", "127.255.0.1/32", "::1/128"]}, ("ips[0]", "ips[1]", "ips[2]")),
    ({"ips": ["224.0.0.1/24", "239.255.255.255/4", "ff02::1/64"]}, ("ips[0]", "ips[1]", "ips[2]")),
    ({"ips": ["255.255.255.255/32", "255.255.255.254/32"]}, ("ips[0]",)),
    ({"ips": ["10.0.0.5/0", "10.0.0.5/1", "2001:db8::1/0"]}, ("ips[0]", "ips[2]")),
    ({"ips": ["0.0.0.0/0"]}, ("ips[0]", "ips[0]")),
    ({"interfaceName": "a b", "hardwareAddress": "x", "ips": ["::1/0"]}, ("interfaceName", "hardwareAddress", "ips[0]", "ips[0]")),
)  # fmt: skip
"""Network data that the API server itself accepts, and its fields that are wrong, one for each thing that is wrong."""


def result(device: str, driver: str = DRIVER, request: str = "nic") -> JSON:
    return {"driver": driver, "pool": "n1", "device": device, "request": request}


def entry(device: str, driver: str = DRIVER, **network_data: Any) -> JSON:
    return {"driver": driver, "pool": "n1", "device": device, "networkData": network_data}


def claim(name: str, *entries: JSON, pods: tuple[str, ...] = (), namespace: str = "ns", **metadata: Any) -> JSON:
    """Reserved for these Pods, whose UID is their name with "-uid"; all devices of the entries are allocated."""
    consumers = [{"resource": "pods", "name": pod, "uid": f"{pod}-uid"} for pod in pods]
    results = [result(one["device"], one["driver"]) for one in entries]
    return {
        **API,
        "metadata": {"name": name, "namespace": namespace, "uid": f"{name}-uid", **metadata},
        "spec": {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "c"}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": consumers,
            "devices": list(entries),
        },
    }
