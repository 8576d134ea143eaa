"""Pods at random, near the edges of what networks ask of a Pod: all that an API server may store, and some it refuses."""

from __future__ import annotations

import copy
import random
from typing import Any

from app.networks.model import NETWORKS
from tests.support.policy_stage import JSON, network, pod_with

HOME = "generated"
RESOURCES = ("example.com/foo", "example.com/bar", "other.example/a.b_c")
ATTACHMENTS = [
    network("foo", "example.com/foo", HOME),
    network("foo2", " example.com/foo ", HOME),
    network("bar", "example.com/bar", HOME, **{"k8s.v1.cni.cncf.io/nodeSelector": "disk=nvme"}),
    network(
        "odd", "other.example/a.b_c", HOME, **{"k8s.v1.cni.cncf.io/nodeSelector": "disk=nvme,example.com/zone=a.b"}
    ),
    network("ssd", "example.com/foo", HOME, **{"k8s.v1.cni.cncf.io/nodeSelector": "disk=ssd"}),
    network("plain", "", HOME),
    network("labeled", "", HOME, **{"k8s.v1.cni.cncf.io/nodeSelector": "rack"}),
    network("broken", "no domain/", HOME),
    network("dots.in.name", "example.com/foo", HOME),
    network("foo", "example.com/foo", "elsewhere"),
    network("short", "short", HOME),
]
_NETWORKS = ["foo", "foo", "foo2", "bar", "odd", "plain", "labeled", f"{HOME}/foo"]
_RARE = [
    "ssd",
    *("broken", "dots.in.name", "elsewhere/foo", "short", "missing", "", " ", "Foo", "foo@", "foo@lo", "foo@eth0"),
    *("bar@net1", "foo@a/b", "foo@@x", "a/b/c", "foo@sixteencharacters", "foo@.", "/foo", "f\u00f6o", "foo'", 'fo"o'),
    *("foo\\", "foo\n", "foo@\u0131", "\u00a0foo\u2003", "-foo", "foo-", "[foo]"),
]
_AMOUNTS = ("0", "1", "1", "2", "3", "1k", "500m", "1e3", "2Ki", "999999999999999", "1000000000000000", "9E", "-1")
_PATHS = ("/etc/podnetinfo", "/etc/podnetinfo/", "/etc/podnetinfo/below", "/etc", "/data", "/etc/podnetinfo//")
_COMMON = 8
"""Of so many choices one is rare."""


def random_pod(chance: random.Random) -> JSON:
    """A Pod; the same for a source of chance with the same seed."""
    pod = pod_with(_networks(chance))
    metadata, spec = pod["metadata"], pod["spec"]
    apps = [f"app{index}" for index in range(chance.choice((1, 1, 2, 3)))]
    inits = [f"init{index}" for index in range(chance.choice((0, 0, 1, 2)))]
    spec["volumes"] = _volumes(chance)
    names = [volume["name"] for volume in spec["volumes"]]
    spec["containers"] = [_container(chance, name, names) for name in apps]
    spec["initContainers"] = [_container(chance, name, names) | _restart(chance) for name in inits]
    if _rarely(chance):
        metadata["annotations"]["berth.dev/resources-container"] = chance.choice((*apps, *inits, "none", "it's", ""))
    if chance.random() < 0.5:
        metadata["labels"] = {"app": "x"}
    if chance.random() < 0.3:
        spec["nodeSelector"] = chance.choice(
            ({"disk": "nvme"}, {"disk": "hdd"}, {"rack": ""}, {"example.com/zone": "b"})
        )
    _opt_out(chance, metadata, spec)
    return pod


def touched(chance: random.Random, pod: JSON) -> JSON:
    """A Pod that has been served, after another has changed one thing of it: it may lack something again."""
    pod = copy.deepcopy(pod)
    pod.pop("status", None)
    chance.choice(
        (_touch_networks, _touch_annotations, _touch_amounts, _touch_containers, _touch_volumes, _touch_rest)
    )(chance, pod)
    return pod


def _touch_networks(chance: random.Random, pod: JSON) -> None:
    annotations = pod["metadata"]["annotations"]
    more = f"{annotations[NETWORKS]},{chance.choice(_NETWORKS)}"
    annotations[NETWORKS] = chance.choice((more, more, " ,".join(_NETWORKS), "bar,foo@x", "missing", "elsewhere/foo"))


def _touch_annotations(chance: random.Random, pod: JSON) -> None:
    key = chance.choice(("berth.dev/resources-container", "berth.dev/inject"))
    pod["metadata"]["annotations"][key] = chance.choice((pod["spec"]["containers"][-1]["name"], "false"))


def _touch_amounts(chance: random.Random, pod: JSON) -> None:
    sides = chance.choice(pod["spec"]["containers"]).get("resources") or {}
    if chance.randrange(3) == 0:
        sides.pop("requests", None)
    for amounts in sides.values():
        for resource in RESOURCES:
            if resource in amounts:
                amounts[resource] = chance.choice(_AMOUNTS)


def _touch_containers(chance: random.Random, pod: JSON) -> None:
    spec = pod["spec"]
    late = {"name": "late", "image": "registry.example/app", "resources": _sides(chance)}
    kind = chance.choice(("containers", "initContainers"))
    spec[kind] = [*(spec.get(kind) or []), late | (_restart(chance) if kind == "initContainers" else {})]


def _touch_volumes(chance: random.Random, pod: JSON) -> None:
    spec = pod["spec"]
    container = chance.choice(spec["containers"])
    container["volumeMounts"] = (container.get("volumeMounts") or [])[chance.randrange(2) :]
    for volume in spec.get("volumes") or ():
        if volume["name"] == "podnetinfo" and "downwardAPI" in volume:
            volume["downwardAPI"]["items"] = (volume["downwardAPI"].get("items") or [])[chance.randrange(2) :]


def _touch_rest(chance: random.Random, pod: JSON) -> None:
    if chance.randrange(2):
        pod["spec"].pop("nodeSelector", None)
    else:
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), "late": "x"}


def _rarely(chance: random.Random) -> bool:
    return chance.randrange(_COMMON) == 0


def _networks(chance: random.Random) -> str | None:
    if chance.randrange(20) == 0:
        return chance.choice(
            (None, "", " ", '[{"name": "foo"}]', '[{"name": "foo", "interface": "net5"}]', "foo,", "[]")
        )
    elements = []
    for index in range(chance.choice((1, 1, 2, 3, 5))):
        element = chance.choice(_NETWORKS)
        if chance.random() < 0.2:
            element += f"@if{index}"
        elements.append(element)
    if chance.randrange(10) == 0:
        elements[-1] = chance.choice(_RARE)
    return chance.choice((",", ", ", " ,\t")).join(elements)


def _container(chance: random.Random, name: str, volumes: list[str]) -> JSON:
    container: JSON = {"name": name, "image": "registry.example/app"}
    if chance.random() < 0.6:
        container["resources"] = _sides(chance)
    if volumes and chance.random() < 0.6:
        container["volumeMounts"] = [{"name": chance.choice(volumes), "mountPath": chance.choice(_PATHS)}]
    return container


def _sides(chance: random.Random) -> JSON:
    """Requests and limits: the same, one of them, or any."""
    form = chance.choice(("same", "same", "same", "requests", "limits", "any", "none"))
    amounts = [_amounts(chance), _amounts(chance)]
    if form == "same":
        return dict.fromkeys(("requests", "limits"), amounts[0])
    if form == "any":
        return dict(zip(("requests", "limits"), amounts, strict=True))
    return {} if form == "none" else {form: amounts[0]}


def _amounts(chance: random.Random) -> dict[str, str]:
    amounts = {"cpu": "1"} if chance.random() < 0.5 else {}
    if chance.random() < 0.7:
        amounts[chance.choice(RESOURCES)] = chance.choice(_AMOUNTS if chance.randrange(12) == 0 else _AMOUNTS[:5])
    return amounts


def _restart(chance: random.Random) -> JSON:
    return {"restartPolicy": "Always"} if chance.random() < 0.5 else {}


def _volumes(chance: random.Random) -> list[JSON]:
    volumes: list[JSON] = [{"name": "scratch", "emptyDir": {}}] if chance.random() < 0.6 else []
    if chance.random() < 0.2:
        files = [_file("labels"), _file("annotations"), _file("labels", "other")]
        chosen = chance.sample(files, chance.randrange(len(files) + 1))
        ours: Any = chance.choice(({"emptyDir": {}}, {"downwardAPI": {"items": chosen}}, {"downwardAPI": {}}))
        volumes.insert(chance.randrange(len(volumes) + 1), {"name": "podnetinfo", **ours})
    return volumes


def _file(field: str, path: str = "") -> JSON:
    return {"path": path or field, "fieldRef": {"fieldPath": f"metadata.{field}"}}


def _opt_out(chance: random.Random, metadata: JSON, spec: JSON) -> None:
    choice = chance.randrange(40)
    if choice == 0:
        spec["hostNetwork"] = True
    elif choice in (1, 2):
        metadata["labels"] = {"berth.dev/inject": chance.choice(("false", "False", "true", ""))}
    elif choice == 3:
        metadata["annotations"]["berth.dev/inject"] = chance.choice(("false", "FALSE", "no"))
    elif choice == 4:
        metadata["annotations"]["v1.multus-cni.io/default-network"] = f"{HOME}/foo"
    elif choice == 5:
        metadata["annotations"]["berth.dev/dpu-of-host"] = "host"
