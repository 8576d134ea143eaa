"""Finds the objects that are asked about, and answers for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from app.doctor.aiming import Aim
from app.doctor.catalog import listed as shown
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.objects import Object, named
from app.doctor.reachability import refused_in
from app.errors import ApiError, UsageError
from app.kube.resources import NAMESPACES, PODS, Resource
from app.why import installation
from app.why.inquiry import JUDGES, Inquiry, new
from app.why.kinds import parse_target, resources_of
from app.why.model import Asking, State, Unread, Verdict, absence, get, listed, or_else, read
from app.why.rendering import Answer
from app.wire import JSON, mapping


async def why(cluster: Cluster, words: Sequence[str], *, namespace: str) -> list[Answer]:
    """The answer for the object that the words name. Raises UsageError, and ApiError where it may not be read."""
    kind, name = parse_target(words)
    inquiry = Inquiry(cluster)
    meant = [await _served(cluster, versions) for versions in _by_kind(resources_of(kind, JUDGES))]
    objects, refusals = list[Object](), list[ApiError]()
    for resource in meant:
        try:
            it = await inquiry.find(resource, name, _home(resource, namespace))
        except ApiError as refusal:
            refusals.append(refusal)
        else:
            objects += [it] if it is not None else []
    if len(objects) > 1:
        choices = ", ".join(f"{it.plural}/{it.name}" for it in objects)
        raise UsageError(f"KIND: {kind} means more than one object here: want one of {choices}")
    if objects:
        answer = await _answer(inquiry, objects[0])
    elif refusals:
        raise refusals[0]
    else:
        answer = await _missing(inquiry, meant[0], name, _home(meant[0], namespace))
    return [_aimed(cluster.aim, answer)]


def _by_kind(resources: Iterable[Resource]) -> list[list[Resource]]:
    """The versions of each kind, the newest first, as the judges name them."""
    kinds: dict[tuple[str, str], list[Resource]] = {}
    for resource in resources:
        kinds.setdefault((resource.group, resource.plural), []).append(resource)
    return list(kinds.values())


async def _served(cluster: Cluster, versions: list[Resource]) -> Resource:
    """The first version that the API server has; the first of all where it cannot be asked."""
    if len(versions) > 1:
        for resource in versions:
            if await or_default(cluster.serves(resource), True):
                return resource
    return versions[0]


async def why_manifests(cluster: Cluster, manifests: Sequence[JSON], *, namespace: str) -> list[Answer]:
    """The answers for objects that are not in the cluster yet, among each other and what is there."""
    served = {(resource.api_version, resource.kind): resource for resource in JUDGES}
    objects, left_out = list[Object](), list[str]()
    for manifest in manifests:
        resource = served.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
        if resource is None:
            left_out.append(
                f"{manifest.get('kind')} of {manifest.get('apiVersion')}: berth why does not know this kind"
            )
            continue
        metadata = {**mapping(manifest.get("metadata"))}
        name = metadata.setdefault("name", metadata.get("generateName") or "")
        home = metadata.setdefault("namespace", namespace) if resource.namespaced else ""
        if not isinstance(name, str) or not isinstance(home, str):
            wrong = f"metadata.name {name!r}" if not isinstance(name, str) else f"metadata.namespace {home!r}"
            left_out.append(f"{resource.kind}: {wrong} is no text; put it in quotes")
            continue
        # What came out of a cluster is judged as what would be created.
        objects.append(new(resource, {**manifest, "metadata": metadata}))
    if not objects:
        kinds = ", ".join(sorted({resource.kind for resource in JUDGES}))
        raise UsageError(f"-f: {'; '.join(left_out) or 'there is no object'}: want one of {kinds}")
    inquiry = Inquiry(cluster, objects)
    answers = [await _answer(inquiry, it) for it in objects]
    answers[0] = replace(answers[0], unread=(*answers[0].unread, *dict.fromkeys(left_out)))
    return [_aimed(cluster.aim, answer) for answer in answers]


def _aimed(aim: Aim, answer: Answer) -> Answer:
    verdict = answer.verdict
    because = tuple(map(aim.prose, verdict.because))
    so, next_step = aim.prose(verdict.so), aim.prose(verdict.next)
    fix, more = aim.command(verdict.fix), aim.command(verdict.more)
    return replace(answer, verdict=replace(verdict, because=because, so=so, next=next_step, fix=fix, more=more))


async def _answer(inquiry: Inquiry, it: Object) -> Answer:
    verdict = await inquiry.verdict(it)
    # What others have led to is shown with them alone.
    reached, links = {it.subject}, list[tuple[str, str, bool]]()
    for link in reversed(inquiry.links):
        if link.source in reached:
            reached.add(link.target)
            links.insert(0, (link.source, link.target, link.found))
    return Answer(it.subject, verdict, inquiry.unread, tuple(links))


async def _missing(inquiry: Inquiry, resource: Resource, name: str, namespace: str) -> Answer:
    subject = named(resource, name, namespace).subject
    if resource in installation.JUDGES and not resource.namespaced:
        verdict = await inquiry.ask(installation.absent_configuration(resource, name))
        if verdict is not None:
            return Answer(subject, verdict, inquiry.unread)
    if namespace and (elsewhere := await inquiry.ask(_elsewhere(resource, name, namespace))) is not None:
        return Answer(subject, elsewhere, inquiry.unread)
    clause, near = await inquiry.ask(absence(resource, name, namespace))
    fix = ""
    if near:
        flag = f" -n {namespace}" if namespace else ""
        fix = f"berth why {resource.kind.lower()}/{near}{flag}"
    missing = Verdict(State.broken, "does not exist", because=(clause,), fix=fix)
    if resource == PODS:
        missing = await _missing_pod(inquiry, missing, namespace)
    return Answer(subject, missing, inquiry.unread)


async def _missing_pod(inquiry: Inquiry, missing: Verdict, namespace: str) -> Verdict:
    """With why a new one would be refused, and how to ask about one that is not there."""
    next_step = "berth why -f FILE says what would become of a Pod that is not there yet"
    missing = replace(missing, next=next_step)
    so = "new Pods that ask for something are refused: the API server cannot call Berth"
    if (refusing := await inquiry.ask(or_else(installation.uncalled(), None))) is not None:
        return replace(missing, so=so).after(refusing)
    reason = await inquiry.ask(or_else(read(partial(refused_in, namespace=namespace), key=("refused", namespace)), ""))
    if not reason:
        return missing
    because = (*missing.because, f"the API server cannot call Berth: {reason}")
    return replace(missing, because=because, so=so, codes=("BERTH0704",))


def _elsewhere(resource: Resource, name: str, namespace: str) -> Asking[Verdict | None]:
    """The verdict on an object that is in another namespace, or whose namespace is not there."""
    others = () if resource == PODS else (yield from or_else(listed(resource), []))  # Pods are too many to be listed
    homes = sorted(other.namespace for other in others if other.name == name)
    if homes:
        fix = f"berth why {resource.kind.lower()}/{name} -n {homes[0]}"
        return Verdict(State.broken, "does not exist", because=(f"it is in namespace {shown(homes)}",), fix=fix)
    try:
        home = yield from get(NAMESPACES, namespace)
    except Unread:
        return None
    if home is None:
        clause, near = yield from absence(NAMESPACES, namespace)
        fix = f"berth why {resource.kind.lower()}/{name} -n {near}" if near else ""
        return Verdict(State.broken, "does not exist", because=(clause,), fix=fix)
    return None


def _home(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""
