"""Which Pods have all that policies add: a condition in CEL that costs less than to compute what a Pod lacks. Pure.

An API server evaluates a policy that has changed a Pod once more, and after that the policies that validate. A Pod for
which this condition holds needs neither: nothing is added to it, it is not refused, and it is not left. The condition
is sufficient, not necessary: policies evaluate a Pod that they have served in an unusual way as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.cel.literals import literal
from app.networks.model import NETWORKS, RESOURCES_CONTAINER
from app.networks.podnetinfo import VOLUME
from app.policies.cel import SHARD
from app.policies.leaving import (
    APPS,
    CONTAINERS,
    FEW_MOUNTS,
    LABELS,
    MOST_CHARACTERS,
    MOST_CONTAINERS,
    MOST_MOUNTS,
    MOST_NETWORKS,
    LeftOut,
    annotation_of,
    has_annotation,
)
from app.policies.model import Network, Terms

_SELECTOR = "object.spec.nodeSelector"
_FILES = "volume.downwardAPI.items"
_LABELED = f"has({LABELS}) && {LABELS}.size() > 0"
_VOLUME = (
    "has(object.spec.volumes) && object.spec.volumes.exists(volume, "
    f"volume.name == {literal(VOLUME)} && has(volume.downwardAPI) && has({_FILES}) && "
    f"{_FILES}.exists(item, item.path == 'annotations') && "
    f"(!({_LABELED}) || {_FILES}.exists(item, item.path == 'labels')))"
)
_SMALL = (
    f"{CONTAINERS}.size() <= {MOST_CONTAINERS} && object.spec.volumes.size() <= {MOST_MOUNTS} && "
    f"{annotation_of(NETWORKS)}.size() <= {MOST_CHARACTERS}"
)
_MOUNTED = f"{APPS}.all(c, has(c.volumeMounts) && c.volumeMounts.exists(mount, mount.name == {literal(VOLUME)}))"
_LIMITS, _REQUESTS = "c.resources.limits", "c.resources.requests"
_WHOLE = literal("^[0-9]{1,15}$")
_AGREE = (
    f"(!has(c.resources) || ((!has({_LIMITS}) || {_LIMITS}.all(key, !key.contains('/') || "
    f"(string({_LIMITS}[key]).matches({_WHOLE}) && has({_REQUESTS}) && key in {_REQUESTS} && "
    f"string({_REQUESTS}[key]) == string({_LIMITS}[key])))) && "
    f"(!has({_REQUESTS}) || {_REQUESTS}.all(key, !key.contains('/') || (has({_LIMITS}) && key in {_LIMITS})))))"
)
"""Both sides of each container name the same whole amounts of devices."""
_ENOUGH = (
    f"[{APPS}[0]].exists(c, keys.all(key, names[key] == '' || (has(c.resources) && has({_LIMITS}) && "
    f"names[key] in {_LIMITS} && int(string({_LIMITS}[names[key]])) >= "
    "keys.filter(other, names[other] == names[key]).size())))"
)
_CHOSEN = (
    f"keys.all(key, !(key in selectors) || (has({_SELECTOR}) && selectors[key].all(label, "
    f"label in {_SELECTOR} && {_SELECTOR}[label] == selectors[key][label])))"
)


def is_served(networks: Sequence[Network], terms: Terms) -> str:
    """The condition, for Pods that select these networks as plain names: the first of them by key, as many as fit."""
    names: list[str] = []
    selectors: list[str] = []
    room = SHARD - len(_text("", "", terms))
    for network in networks:
        entry = f"{literal(network.key)}: {literal(network.resource)}"
        chosen = f"{literal(network.key)}: {labels_of(network)}" if network.labels else ""
        room -= len(entry) + len(chosen) + 4
        if room < 0:
            break
        names.append(entry)
        selectors += [chosen] if chosen else []
    return _text(", ".join(names), ", ".join(selectors), terms) if names else "false"


def labels_of(network: Network) -> str:
    """The labels of its node selector, as a map."""
    return f"{{{', '.join(f'{literal(key)}: {literal(value)}' for key, value in network.labels)}}}"


def _text(names: str, selectors: str, terms: Terms) -> str:
    keys = f"{annotation_of(NETWORKS)}.split(',').map(element, request.namespace + '/' + element.trim())"
    demand = f"keys.size() <= {MOST_NETWORKS} && keys.all(key, key in names) && {_ENOUGH}"
    if selectors:
        demand += f" && [{{{selectors}}}].exists(selectors, {_CHOSEN})"
    tests = [
        _VOLUME,
        has_annotation(NETWORKS),
        f"!{has_annotation(RESOURCES_CONTAINER)}",
        _SMALL,
        _MOUNTED,
        f"{CONTAINERS}.all(c, {FEW_MOUNTS} && {_AGREE})",
        *(f"!({text})" for text in LeftOut(terms).besides_networks()),
        f"[{{{names}}}].exists(names, [{keys}].exists(keys, {demand}))",
    ]
    return " && ".join(tests)
