"""What the networks of a Pod ask for and what it lacks of that, in CEL, and the patch that adds it. Pure.

The rules are those of `app.networks` (interfaces, device_requests, podnetinfo, plan).
"""

from __future__ import annotations

from app.cel.literals import listed, literal
from app.networks.model import NETWORKS, RESOURCES_CONTAINER
from app.networks.podnetinfo import MOUNT_PATH, VOLUME
from app.policies.cel import Maps
from app.policies.leaving import (
    APPS,
    HAS_VOLUME,
    INITS,
    LABELS,
    Variables,
    annotation_of,
    chain,
    has_annotation,
)
from app.policies.model import Terms

_RESERVED = ("lo", "eth0", ".", "..", "all", "default")
_PATH = literal(f"^{MOUNT_PATH}/*$")


def demand(resources: Maps, selectors: Maps) -> Variables:
    """What the networks of a Pod ask for, and what of it the Pod has. `holders` are the containers that run with it.

    `needs` are resources, `amounts` for each of them the amount of each holder, -1 where it names none; `labels` the
    node selectors of its networks, `wanted` their keys.
    """
    sidecar = "has(c.restartPolicy) && c.restartPolicy == 'Always'"
    name = annotation_of(RESOURCES_CONTAINER)
    places = f"variables.holders.transformList(place, c, c.name == {name}, place)"
    texts = {
        "interfaces": (
            "variables.elements.transformList(place, element, "
            "element.contains('@') ? element.split('@')[1] : 'net' + string(place + 1))"
        ),
        "asked": f"variables.keys.map(key, {resources.value('key', literal(''))})",
        "needs": "variables.asked.filter(resource, resource != '').distinct()",
        "holders": f"{APPS} + {INITS}.filter(c, {sidecar})",
        "paths": (
            f"{APPS}.transformList(place, c, '/spec/containers/' + string(place)) + "
            f"{INITS}.transformList(place, c, {sidecar}, '/spec/initContainers/' + string(place))"
        ),
        "targets": f"{has_annotation(RESOURCES_CONTAINER)} ? {places} : [0]",
    }
    if selectors.texts:
        texts["labels"] = (
            f"variables.keys.distinct().filter(key, {selectors.has('key')})"
            f".map(key, {selectors.value('key', _no_labels(selectors))})"
        )
        texts["wanted"] = "variables.labels.map(labels, labels.map(key, key)).flatten().distinct()"
    named = [{"name": variable, "expression": text} for variable, text in texts.items()]
    return [*selectors.variables, *named]


def _no_labels(selectors: Maps) -> str:
    """An empty map of the type of the others."""
    return f"variables.{selectors.name}0[key]"


_END = "'"
_SIDES = ("requests", "limits")


def _holds(side: str, resource: str) -> str:
    return f"(has(c.resources) && has(c.resources.{side}) && {resource} in c.resources.{side})"


_QUANTITY = "quantity(string(c.resources.{side}[resource]))"


def _amount(side: str) -> str:
    return f"{_QUANTITY.replace('{side}', side)}.asInteger()"


def refused(terms: Terms, selectors: Maps) -> Variables:
    """`refused`: what is wrong with the Pod, as the webhook would say it, "" where nothing is."""
    whole = f"[{_QUANTITY}].all(amount, amount.isInteger() && amount.asInteger() >= 0)"
    fraction = " || ".join(f"({_holds(side, 'resource')} && !{whole.replace('{side}', side)})" for side in _SIDES)
    name = annotation_of(RESOURCES_CONTAINER)
    taken = f"variables.interfaces.exists(interface, interface in {listed(_RESERVED)})"
    doubled = "variables.interfaces.distinct().size() != variables.interfaces.size()"
    named = f"{annotation_of(NETWORKS)}.contains('@') && ({taken} || {doubled})"
    tests = [
        ("variables.left != ''", "''"),
        (
            named,
            literal(f"annotation {NETWORKS}: want a name of its own for each interface, such as net7"),
        ),
    ]
    if selectors.texts:
        clash = "variables.labels.exists(labels, key in labels && labels[key] != other[key])"
        tests.append(
            (
                f"variables.labels.exists(other, other.exists(key, {clash}))",
                literal("its network attachment definitions contradict each other: no node fits their node selectors"),
            )
        )
    tests += [
        (
            "variables.needs.size() > 0 && variables.targets.size() == 0",
            f"'annotation {RESOURCES_CONTAINER}: the Pod has no container ' + {name} + ' that runs with it'",
        ),
        (
            f"variables.needs.exists(resource, variables.holders.exists(c, {fraction}))",
            literal(
                "a container asks for a resource of its networks, and the amount is not a whole number of zero or more"
            ),
        ),
    ]
    if selectors.texts and terms.node_selector_conflict == "deny":
        differs = "string(object.spec.nodeSelector[key]) != labels[key]"
        conflict = f"labels.exists(key, key in object.spec.nodeSelector && {differs})"
        tests.append(
            (
                f"has(object.spec.nodeSelector) && variables.labels.exists(labels, {conflict})",
                literal("its node selector contradicts that of a network attachment definition"),
            )
        )
    return [{"name": "refused", "expression": chain(tests)}]


def injected() -> Variables:
    """`amounts` and `finals`: for each need the amount of each holder before and after, -1 where it has none."""
    sides = ", ".join(f"({_holds(side, 'resource')} ? {_amount(side)} : -1)" for side in _SIDES)
    bounded = "amount < 0 ? 0 : amount > 1000000 ? 1000000 : amount"
    need = "variables.asked.filter(resource, resource == variables.needs[index]).size()"
    held = f"variables.amounts[index].map(amount, {bounded}).sum()"
    amount = "variables.amounts[index][place]"
    more = "place == variables.targets[0] && variables.missing[index] > 0"
    whole = f"({amount} < 0 ? 0 : {amount}) + variables.missing[index]"
    texts = {
        "amounts": f"variables.needs.map(resource, variables.holders.map(c, [{sides}].max()))",
        "missing": f"variables.needs.transformList(index, resource, {need} - {held})",
        "finals": (
            "variables.needs.transformList(index, resource, variables.holders.transformList(place, c, "
            f"{more} ? {whole} : {amount}))"
        ),
    }
    return [{"name": name, "expression": text} for name, text in texts.items()]


def mutation(selectors: Maps) -> str:
    """The patch of a Pod, as one expression: [] where it is left, refused, or lacks nothing."""
    parts = [_resource_operations(), _mount_operations(), _volume_operations()]
    if selectors.texts:
        parts.append(_selector_operations())
    inert = "variables.left != '' || variables.refused != ''"
    return f"{inert} ? [] : ({' + '.join(parts)})"


def _operation(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _resource_operations() -> str:
    """The amounts of each holder, on both sides, behind the maps that they need."""
    holder = "variables.paths[place] + '/resources"
    final = "variables.finals[index][place]"
    sides = []
    for side in _SIDES:
        differs = f"{final} >= 0 && !({_holds(side, 'resource')} && {_amount(side)} == {final})"
        lacks = f"!(has(c.resources) && has(c.resources.{side}))"
        empty = f"({lacks} ? [{_operation(f'{holder}/{side}{_END}', '{}')}] : [])"
        path = f"{holder}/{side}/' + jsonpatch.escapeKey(resource)"
        set_all = f"variables.needs.transformList(index, resource, {differs}, {_operation(path, f'string({final})')})"
        sides.append(f"{empty} + {set_all}")
    some = "variables.finals.exists(amounts, amounts[place] >= 0)"
    base = f"(has(c.resources) ? [] : [{_operation(f'{holder}{_END}', '{}')}])"
    changed = f"{some} ? {base} + {' + '.join(sides)} : []"
    return f"variables.holders.transformList(place, c, {changed}).flatten()"


_OURS = f"object.spec.volumes.filter(volume, volume.name == {literal(VOLUME)})"
_MOUNTS = f"(variables.needs.size() > 0 && !({HAS_VOLUME} && !has({_OURS}[0].downwardAPI)))"
"""Whether network information is mounted: the Pod needs a device, and has no volume of another kind of this name."""


def _mount_operations() -> str:
    mount = f"{{'name': dyn({literal(VOLUME)}), 'readOnly': dyn(true), 'mountPath': dyn({literal(MOUNT_PATH)})}}"
    taken = (
        f"(has(c.volumeMounts) && c.volumeMounts.exists(mount, mount.name == {literal(VOLUME)} || "
        f"mount.mountPath.matches({_PATH}))) || "
        f"(has(c.volumeDevices) && c.volumeDevices.exists(device, device.devicePath.matches({_PATH})))"
    )
    gets = f"place < {APPS}.size() || place == variables.targets[0]"
    path = "variables.paths[place] + '/volumeMounts'"
    some = "has(c.volumeMounts) && c.volumeMounts.size() > 0"
    last = _operation(f"{path} + '/-'", mount)
    added = f"{some} ? {last} : {_operation(path, f'[{mount}]')}"
    return f"({_MOUNTS} ? variables.holders.transformList(place, c, ({gets}) && !({taken}), {added}) : [])"


def _file(path: str) -> str:
    return f"{{'path': dyn({literal(path)}), 'fieldRef': dyn({{'fieldPath': {literal(f'metadata.{path}')}}})}}"


def _volume_operations() -> str:
    labeled = f"has({LABELS}) && {LABELS}.size() > 0"
    both, one = f"[{_file('labels')}, {_file('annotations')}]", f"[{_file('annotations')}]"
    files = f"({labeled} ? {both} : {one})"
    volume = f"{{'name': dyn({literal(VOLUME)}), 'downwardAPI': dyn({{'items': {files}}})}}"
    some = "has(object.spec.volumes) && object.spec.volumes.size() > 0"
    whole = _operation(literal("/spec/volumes"), f"[{volume}]")
    fresh = f"[{some} ? {_operation(literal('/spec/volumes/-'), volume)} : {whole}]"
    index = f"object.spec.volumes.transformList(place, volume, volume.name == {literal(VOLUME)}, place)[0]"
    items = f"'/spec/volumes/' + string({index}) + '/downwardAPI/items"
    listed_items = f"{_OURS}[0].downwardAPI.items"
    present = f"has({listed_items}) && {listed_items}.size() > 0"
    missing = f"!{listed_items}.exists(item, item.path == file.path)"
    appended = f"{files}.filter(file, {missing}).map(file, {_operation(f'{items}/-{_END}', 'file')})"
    own = f"({present} ? {appended} : [{_operation(f'{items}{_END}', files)}])"
    return f"(!{_MOUNTS} ? [] : {HAS_VOLUME} ? {own} : {fresh})"


_WANTED = "variables.labels.filter(labels, key in labels)[0][key]"
_SELECTOR = "object.spec.nodeSelector"
_DIFFERS = f"!(has({_SELECTOR}) && key in {_SELECTOR} && string({_SELECTOR}[key]) == {_WANTED})"


def _selector_operations() -> str:
    path = "'/spec/nodeSelector/' + jsonpatch.escapeKey(key)"
    whole = _operation(literal("/spec/nodeSelector"), "{}")
    empty = f"(variables.wanted.size() > 0 && !has({_SELECTOR}) ? [{whole}] : [])"
    return f"{empty} + variables.wanted.filter(key, {_DIFFERS}).map(key, {_operation(path, _WANTED)})"


def complete(selectors: Maps) -> str:
    """The condition that a Pod that is not left or refused has the amounts and labels of its networks.

    It has not where another webhook adds the annotation: policies run before all webhooks, and one that did not match
    then is not evaluated again.
    """
    lacks = "variables.missing.exists(amount, amount > 0)"
    labels = f" || variables.wanted.exists(key, {_DIFFERS})" if selectors.texts else ""
    return f"variables.left != '' || variables.refused != '' || !({lacks}{labels})"
