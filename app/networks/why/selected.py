"""What a Pod selects: the attachments that are there, and those that are not, with the one that was meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.claims.roads import demands_of
from app.doctor import objects
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.errors import Denied
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks.interfaces import Chosen, chosen_by
from app.networks.model import DEFAULT_NETWORK, NETWORKS, Attachment, project_with_claims
from app.networks.selection import is_json
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, parse_switches, text_of
from app.networks.why.attachments import networks_settings
from app.networks.why.lacking import Nearest
from app.why.calls import home_of
from app.why.model import Asking, Unread, get, listed, once, or_else, read

_NAMED = 4


@dataclass(frozen=True, slots=True)
class Missing:
    """An attachment that is not there.

    `corrected` is the value of the annotation with the one that was meant, and with those before; "" without one.
    `own` is False where the control switches inject it.
    """

    clause: str
    annotation: str
    corrected: str = ""
    own: bool = True


@dataclass(slots=True)
class Selected:
    """`attachments` are those that are there, each as often as it is selected; `refused` is why nothing is selected.

    `switches` is the ConfigMap that injects networks by labels, None where there is none. `unread` are those
    that may not be read.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    attachments: list[tuple[Object, Attachment]] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    refused: str = ""
    switches: Object | None = None
    unread: list[str] = field(default_factory=list)

    @property
    def distinct(self) -> list[tuple[Object, Attachment]]:
        return list({attachment.key: (it, attachment) for it, attachment in self.attachments}.values())

    @property
    def asks(self) -> str:
        """`default/foo, 2 times -> example.com/foo: 2`, of each; the name alone of one that may not be read."""
        counts = Counter(attachment.key for _, attachment in self.attachments)
        asks = [_asks(attachment, counts[attachment.key]) for _, attachment in self.distinct]
        return several_of([*asks, *dict.fromkeys(self.unread)], _NAMED)


def _asks(attachment: Attachment, count: int) -> str:
    devices = [f"{'DeviceClass ' if by_class else ''}{name}: {count}" for name, by_class in demands_of(attachment)]
    if attachment.claim is not None and attachment.claim.template:
        devices = [f"claim of template {attachment.claim.template}: {count}"]
    times, arrow = f", {count} times" if count > 1 else "", " -> " if devices else ""
    return plain(f"{attachment.key}{times}{arrow}{', '.join(devices)}")


def selected_by(pod: Object) -> Asking[Selected | None]:
    """What a Pod selects, by its annotations and by what its labels inject; None where it selects nothing."""
    metadata = pod.json["metadata"]
    annotations, labels = metadata.get("annotations") or {}, objects.labels(pod.json)
    selects = NETWORKS in annotations or DEFAULT_NETWORK in annotations
    # Labels of the control switches have this value.
    if not selects and all(str(value).lower() != "true" for value in labels.values()):
        return None
    settings, home = (yield from read(networks_settings)), (yield from read(home_of))
    switches = yield from or_else(get(CONFIG_MAPS, CONFIG_MAP_NAME, home), None)
    initial, text = settings.initial_switches, text_of(switches.json) if switches else None
    selected = Selected(annotations, switches=switches)
    try:
        selected.annotations = (
            parse_switches(text, initial=initial).merged(annotations, labels, namespace=pod.namespace).annotations
        )
        chosen = chosen_by(selected.annotations, pod.namespace)
    except Denied as refusal:
        selected.refused = plain(refusal)
        return selected
    yield from _look_up(selected, chosen, pod, settings)
    return selected if selects or selected.attachments or selected.missing or selected.unread else None


def _look_up(selected: Selected, chosen: Chosen, pod: Object, settings: NetworksSettings) -> Asking[None]:
    places = [(selection, NETWORKS, [selection.namespace]) for selection in chosen.selections]
    if (default := chosen.default) is not None:
        homes = [default.namespace] if default.namespace else [settings.default_network_namespace, pod.namespace]
        places.insert(0, (default, DEFAULT_NETWORK, homes))
    gone, values = set[tuple[str, str]](), dict(pod.json["metadata"].get("annotations") or {})
    for selection, annotation, namespaces in places:
        try:
            it = yield from _first(selection.name, namespaces)
        except Unread:
            selected.unread.append(f"{namespaces[0]}/{selection.name}")
            continue
        if it is not None:
            selected.attachments.append((it, project_with_claims(it.json, settings.resource_name_keys)))
        elif (namespaces[0], selection.name) not in gone:
            gone.add((namespaces[0], selection.name))
            missing = yield from _missing((namespaces[0], selection.name), annotation, values.get(annotation) or "")
            values[annotation] = missing.corrected or values.get(annotation)
            selected.missing.append(missing)


def _first(name: str, namespaces: list[str]) -> Asking[Object | None]:
    for namespace in namespaces:
        if (it := (yield from get(NETWORK_ATTACHMENTS, name, namespace))) is not None:
            return it
    return None


def _missing(key: tuple[str, str], annotation: str, value: str) -> Asking[Missing]:
    clause, near = yield from once(("attachment meant", key), lambda: _meant(*key))
    return Missing(
        clause, annotation, _corrected(value, key, near) if near else "", own=bool(_written(key).search(value))
    )


def _meant(namespace: str, name: str) -> Asking[tuple[str, str]]:
    """The clause that an attachment is missing, and the one that was meant, or "".

    It is looked for in its namespace first: a user may not be allowed to read others.
    """
    clause = f"there is no attachment {namespace}/{name}"
    beside = yield from or_else(listed(NETWORK_ATTACHMENTS, namespace), None)
    near = _nearest(beside or [], namespace, name)
    if not near:
        everywhere = yield from or_else(listed(NETWORK_ATTACHMENTS), [])
        near = _nearest(everywhere, namespace, name)
    if near or beside is None:
        return clause + (f"; there is {near}" if near else ""), near
    names = sorted(it.name for it in beside)
    return clause + (f"; {namespace} has {several_of(names)}" if names else f", and {namespace} has none"), ""


def _nearest(attachments: list[Object], namespace: str, name: str) -> str:
    return Nearest(lambda: [(it.namespace, it.name) for it in attachments]).to(namespace, name)


def _written(key: tuple[str, str]) -> re.Pattern[str]:
    """How an annotation names an attachment."""
    namespace, name = map(re.escape, key)
    return re.compile(rf"(?<![\w./-])({namespace}/)?{name}(?![\w.-])")


def _corrected(value: str, key: tuple[str, str], near: str) -> str:
    """The value with the name that was meant.

    "" where it is not clear what to change: the name is there twice, or it is JSON, and the namespace is another.
    """
    namespace, _, name = near.partition("/")
    moves = namespace != key[0]
    if len(_written(key).findall(value)) != 1 or (moves and is_json(value)):
        return ""
    return _written(key).sub(lambda match: near if moves else f"{match[1] or ''}{name}", value)
