"""Which annotations of RDT classes a Pod is given, and which requests of cache ways are taken out of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.kube.names import DNS_LABEL_LIMIT
from app.rmd.classes import Classes, RdtClass, choose
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import astray
from app.rmd.wishes import Wisher, read_wishes
from app.text import quoted
from app.wire import JSON


@dataclass(slots=True)
class Given:
    """`classes` are the annotations to add, with the container; `taken` the places of requests of cache ways.

    With `problems` the Pod is refused.
    """

    classes: dict[str, tuple[RdtClass, Wisher]] = field(default_factory=dict)
    taken: list[tuple[str | int, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def give_classes(pod: JSON, classes: Classes) -> Given:
    """Each container that asks for something gets the class that serves it.

    An annotation that is there already stays, so that a Pod with its classes is given nothing. No node announces cache
    ways where the runtime has the classes: a request of them would keep the Pod from every node, and is taken out.
    """
    given = Given()
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    wishers, asking = read_wishes(pod), set[str]()
    for one in wishers:
        key = classes.key + one.container
        if not one.asks:
            # With an annotation it may have asked, and had its request taken out since.
            asking |= {one.container} if annotations.get(key) else set()
            continue
        asking.add(one.container)
        given.problems += one.problems
        given.warnings += one.warnings
        _give(one, key, annotations.get(key) or None, classes, given)  # an empty one names no class
        if key in given.classes and (whole := annotations.get(classes.pod_key)):
            given.warnings += _overruled(classes.pod_key, whole, given.classes[key][0], one)
        _take(pod, one, given)
    given.warnings += astray(pod.get("spec") or {}, annotations, asking)
    return given


def _give(one: Wisher, key: str, own: str | None, classes: Classes, given: Given) -> None:
    found = choose(one.wish, classes.classes)
    if own is not None:
        if one.wish.ways is not None or one.wish.policy:
            given.warnings += _other(key, own, found, one)
    elif one.problems:
        return
    elif fault := _unserved(one, key, found, classes):
        (given.problems if classes.no_class == "Deny" else given.warnings).append(fault)
    elif found is not None:
        given.classes[key] = (found, one)


def _other(key: str, own: str, found: RdtClass | None, one: Wisher) -> Iterator[str]:
    if found is None or found.name != own:
        wanted = f"class {quoted(found.name)} serves" if found else "no class of ours serves"
        yield f"metadata.annotations[{key}]: {quoted(own)} stays as it is; {wanted} {one.wish}"


def _overruled(key: str, whole: str, found: RdtClass, one: Wisher) -> Iterator[str]:
    if found.name != whole:
        yield (
            f"metadata.annotations[{key}]: {quoted(whole)} has no effect on container {one.container}: "
            f"class {quoted(found.name)} serves {one.wish}, and the class of a container wins over that of the Pod"
        )


def _unserved(one: Wisher, key: str, found: RdtClass | None, classes: Classes) -> str:
    name = key.rpartition("/")[2]
    if len(name) > DNS_LABEL_LIMIT:
        longest = DNS_LABEL_LIMIT - len(name) + len(one.container)
        return (
            f"{one.field}.name: want at most {longest} characters, so that an annotation can name its RDT class, "
            f"got {len(one.container)}"
        )
    if found is None:
        where = f"metadata.annotations[{one.container}_policy]" if one.wish.policy else one.field
        return f"{where}: no RDT class serves {one.wish}: there are {classes}"
    return ""


def _take(pod: JSON, one: Wisher, given: Given) -> None:
    kind, index = one.place
    resources: JSON = pod["spec"][kind][index].get("resources") or {}
    places = [part for part in ("limits", "requests") if L3_CACHE_WAYS in (resources.get(part) or {})]
    given.taken += [("spec", kind, index, "resources", part, L3_CACHE_WAYS) for part in places]
    if places:
        given.warnings.append(f"{one.field}.resources: {L3_CACHE_WAYS} is taken out: RDT classes serve cache ways here")
