"""Gives Pods the annotations of their RDT classes when they are created: the part of RMD in the chain that mutates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import methodcaller

from app.admission.chain import MutationPlan, audit_text, refuse
from app.admission.decision import read_or_deny
from app.admission.pods import Pod, crowded
from app.admission.review import Request, decode_object
from app.kube.configuration import Configuration
from app.kube.names import DNS_LABEL_LIMIT
from app.kube.quantity import parse_integer
from app.rmd.classes import Classes, RdtClass, Wish, choose
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import SETTINGS, astray, settings_of, ways_of
from app.rmd.requests import MOST_MBPS
from app.text import quoted
from app.wire import JSON, pointer

_REASON = "NoRdtClass"
_ENDS = tuple(f"_{setting}" for setting in SETTINGS)
_MOST = {"percentage": 100, "mbps": MOST_MBPS}


class RdtClassInjector:
    """Neutral to everything but the creation of Pods, and where `runtime` says that no RDT classes serve them."""

    name = "rdt-classes"

    def __init__(self, configuration: Configuration[Classes], *, runtime: Callable[[], bool]) -> None:
        self._configuration, self._runtime = configuration, runtime

    def inject(self, request: Request, plan: MutationPlan) -> None:
        """Raises Denied where no class serves a container, or where it asks for what cannot be."""
        if not request.creates_pod or not _may_ask(request.pod) or not self._runtime():
            return
        if request.pod.mirror:
            plan.skip("MirrorPod", "the Pod mirrors a static Pod: it runs already")
            return
        if where := request.pod.opted_out:
            plan.skip("OptedOut", f"a {where} turns injection off: the Pod gets no RDT classes")
            return
        spec = request.pod.spec
        what = "asks for cache ways, or has settings of RMD"
        refuse(list(crowded(len(spec.containers), len(spec.init_containers), what=what)), reason=_REASON)
        pod = decode_object(request.object, reason=_REASON)
        given = read_or_deny(lambda: _give_classes(pod, self._configuration.current), reason=_REASON)
        plan.warnings += given.warnings
        refuse(given.problems, reason=_REASON)
        _inject(request.pod, given, plan)


def _inject(pod: Pod, given: _Given, plan: MutationPlan) -> None:
    for key, (chosen, wisher) in given.classes.items():
        reason = f"container {wisher.container}: RDT class {chosen.name} serves {wisher.wish}"
        plan.patch.ensure("/metadata/annotations", {}, present=bool(pod.metadata.annotations), reason=reason)
        plan.patch.add(pointer("metadata", "annotations", key), chosen.name, reason=reason)
        plan.count("rdt-class")
    for place in given.taken:
        plan.patch.remove(pointer(*place), reason=f"{L3_CACHE_WAYS}: no node announces it where RDT classes serve")
        plan.count("cache-ways")
    if not (given.classes or given.taken):
        return
    if plan.reason != "Injected":
        plan.reason, plan.message = "Injected", ""
    plan.audit["decision"] = plan.reason
    reasons = [
        f"{rdt_class.name} for container {one.container} ({one.wish})" for rdt_class, one in given.classes.values()
    ]
    if reasons:
        plan.audit["rdt-classes"] = audit_text(reasons)


def _may_ask(pod: Pod) -> bool:
    """Most Pods do not: their whole object is not decoded."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container.resources is not None and L3_CACHE_WAYS in container.resources.limits:
            return True
    return any(map(_sets, pod.metadata.annotations))


_sets = methodcaller("endswith", _ENDS)


@dataclass(slots=True)
class _Given:
    """`classes` are the annotations to add, with the container; `taken` the places of requests of cache ways.

    With `problems` the Pod is refused.
    """

    classes: dict[str, tuple[RdtClass, _Wisher]] = field(default_factory=dict)
    taken: list[tuple[str | int, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _give_classes(pod: JSON, classes: Classes) -> _Given:
    """Each container that asks for something gets the class that serves it.

    An annotation that is there already stays, so that a Pod with its classes is given nothing. No node announces cache
    ways where the runtime has the classes: a request of them would keep the Pod from every node, and is taken out.
    """
    given = _Given()
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    wishers, asking = _read_wishes(pod), set[str]()
    for wisher in wishers:
        key = classes.key + wisher.container
        if not wisher.asks:
            # With an annotation it may have asked, and had its request taken out since.
            asking |= {wisher.container} if annotations.get(key) else set()
            continue
        asking.add(wisher.container)
        given.problems += wisher.problems
        given.warnings += wisher.warnings
        _give(wisher, key, annotations.get(key) or None, classes, given)  # an empty one names no class
        if key in given.classes and (whole := annotations.get(classes.pod_key)):
            given.warnings += _overruled(classes.pod_key, whole, given.classes[key][0], wisher)
        _take(pod, wisher, given)
    given.warnings += astray(pod.get("spec") or {}, annotations, asking)
    return given


def _give(wisher: _Wisher, key: str, own: str | None, classes: Classes, given: _Given) -> None:
    rdt_class = choose(wisher.wish, classes.classes)
    if own is not None:
        if wisher.wish.ways is not None or wisher.wish.policy:
            given.warnings += _other(key, own, rdt_class, wisher)
    elif wisher.problems:
        return
    elif fault := _unserved(wisher, key, rdt_class, classes):
        (given.problems if classes.no_class == "Deny" else given.warnings).append(fault)
    elif rdt_class is not None:
        given.classes[key] = (rdt_class, wisher)


def _other(key: str, own: str, rdt_class: RdtClass | None, wisher: _Wisher) -> Iterator[str]:
    if rdt_class is None or rdt_class.name != own:
        serving = f"class {quoted(rdt_class.name)} serves" if rdt_class else "no class of ours serves"
        yield f"metadata.annotations[{key}]: {quoted(own)} stays as it is; {serving} {wisher.wish}"


def _overruled(key: str, whole: str, rdt_class: RdtClass, wisher: _Wisher) -> Iterator[str]:
    if rdt_class.name != whole:
        yield (
            f"metadata.annotations[{key}]: {quoted(whole)} has no effect on container {wisher.container}: "
            f"class {quoted(rdt_class.name)} serves {wisher.wish}, "
            "and the class of a container wins over that of the Pod"
        )


def _unserved(wisher: _Wisher, key: str, rdt_class: RdtClass | None, classes: Classes) -> str:
    name = key.rpartition("/")[2]
    if len(name) > DNS_LABEL_LIMIT:
        longest = DNS_LABEL_LIMIT - len(name) + len(wisher.container)
        return (
            f"{wisher.field}.name: want at most {longest} characters, so that an annotation can name its RDT class, "
            f"got {len(wisher.container)}"
        )
    if rdt_class is None:
        where = f"metadata.annotations[{wisher.container}_policy]" if wisher.wish.policy else wisher.field
        return f"{where}: no RDT class serves {wisher.wish}: there are {classes}"
    return ""


def _take(pod: JSON, wisher: _Wisher, given: _Given) -> None:
    kind, index = wisher.place
    resources: JSON = pod["spec"][kind][index].get("resources") or {}
    places = [part for part in ("limits", "requests") if L3_CACHE_WAYS in (resources.get(part) or {})]
    given.taken += [("spec", kind, index, "resources", part, L3_CACHE_WAYS) for part in places]
    if places:
        given.warnings.append(
            f"{wisher.field}.resources: {L3_CACHE_WAYS} is taken out: RDT classes serve cache ways here"
        )


@dataclass(frozen=True, slots=True)
class _Wisher:
    """A container. `place` is the list that it is in, and its index; `problems` and `warnings` name the field."""

    container: str
    place: tuple[str, int]
    wish: Wish
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def field(self) -> str:
        return f"spec.{self.place[0]}[{self.place[1]}]"

    @property
    def asks(self) -> bool:
        return bool(self.problems) or self.wish != Wish()


def _read_wishes(pod: JSON) -> tuple[_Wisher, ...]:
    """What all containers ask for, in the order of the Pod, init containers first.

    The annotations are those that the node agent reads (`app.rmd.pods`). Neither the quality of service nor whole CPUs
    matter, and a container may ask by annotations alone: no node has to announce cache ways.
    """
    spec: JSON = pod.get("spec") or {}
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return tuple(
        _wisher(container, (kind, index), annotations)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec.get(kind) or ())
    )


def _wisher(container: JSON, place: tuple[str, int], annotations: Mapping[str, str]) -> _Wisher:
    name, problems, ways = container["name"], list[str](), 0
    try:
        ways = parse_integer(ways_of(container) or 0)
    except ValueError as error:
        problems.append(f"spec.{place[0]}[{place[1]}].resources.limits[{L3_CACHE_WAYS}]: {error}")
    settings = settings_of(name, ways, annotations, problems)
    least, mba = (
        settings["rdt"]["cache"]["min"],
        {unit: value for unit, value in settings["rdt"].get("mba", {}).items() if value},
    )
    problems += _out_of_range(name, ways, least, mba)
    policy = settings.get("policy", "")
    warnings = list(_without_effect(name, policy, annotations))
    if policy:
        return _Wisher(name, place, Wish(policy), tuple(problems), tuple(warnings))
    wish = Wish(ways=ways or None, least=least if 0 < least < ways else None, **mba)
    return _Wisher(name, place, wish, tuple(problems), tuple(warnings))


def _out_of_range(name: str, ways: int, least: int, mba: Mapping[str, int]) -> Iterator[str]:
    if 0 < ways < least:
        yield f"metadata.annotations[{name}_cache_min]: want at most the ways of the container, {ways}, got {least}"
    for unit, value in mba.items():
        if value > _MOST[unit]:
            yield f"metadata.annotations[{name}_mba_{unit}]: want 1 to {_MOST[unit]}, got {value}"
    if len(mba) > 1:
        yield f"metadata.annotations[{name}_mba_mbps]: excludes {name}_mba_percentage: want the one of the machines"


def _without_effect(name: str, policy: str, annotations: Mapping[str, str]) -> Iterator[str]:
    for key in (f"{name}_{setting}" for setting in SETTINGS):
        if key not in annotations:
            continue
        if "_pstate_" in key:
            yield f"metadata.annotations[{key}]: has no effect: an RDT class has no P-states"
        elif policy and not key.endswith("_policy"):
            yield f"metadata.annotations[{key}]: has no effect: policy {quoted(policy)} wins"
