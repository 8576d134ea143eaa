"""Finds the objects that are asked about, and answers for each."""

from __future__ import annotations

from collections.abc import Sequence

from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.errors import UsageError
from app.kube.resources import Resource
from app.why import installation
from app.why.inquiry import JUDGES, Inquiry, new
from app.why.kinds import parse_target, resources_of
from app.why.model import State, Verdict, absence
from app.why.rendering import Answer
from app.wire import JSON


async def why(cluster: Cluster, words: Sequence[str], *, namespace: str) -> list[Answer]:
    """The answer for the object that the words name. Raises UsageError, and ApiError where it may not be read."""
    kind, name = parse_target(words)
    meant = resources_of(kind, JUDGES)
    inquiry = Inquiry(cluster)
    found = [it for resource in meant if (it := await inquiry.find(resource, name, _home(resource, namespace)))]
    if len(found) > 1:
        choices = ", ".join(f"{it.plural}/{it.name}" for it in found)
        raise UsageError(f"KIND: {kind} means more than one object here: want one of {choices}")
    if not found:
        return [await _missing(inquiry, meant[0], name, _home(meant[0], namespace))]
    return [await _answer(inquiry, found[0])]


async def why_manifests(cluster: Cluster, manifests: Sequence[JSON], *, namespace: str) -> list[Answer]:
    """The answers for objects that are not in the cluster yet, among each other and what is there."""
    served = {(resource.api_version, resource.kind): resource for resource in JUDGES}
    objects = []
    for manifest in manifests:
        resource = served.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
        if resource is None:
            continue
        metadata = {**(manifest.get("metadata") or {})}
        metadata.setdefault("name", metadata.get("generateName", ""))
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        # What came out of a cluster is judged as what would be created.
        objects.append(new(resource, {**manifest, "metadata": metadata}))
    if not objects:
        raise UsageError(f"-f: no object of a kind that berth knows: want {', '.join(sorted(r.kind for r in JUDGES))}")
    inquiry = Inquiry(cluster, objects)
    return [await _answer(inquiry, it) for it in objects]


async def _answer(inquiry: Inquiry, it: Object) -> Answer:
    inquiry.unread.clear()
    inquiry.links.clear()
    verdict = await inquiry.verdict(it)
    links = tuple((link.source, link.target, link.found) for link in inquiry.links)
    return Answer(it.subject, verdict, tuple(inquiry.unread), links)


async def _missing(inquiry: Inquiry, resource: Resource, name: str, namespace: str) -> Answer:
    subject = f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
    if resource in installation.JUDGES and not resource.namespaced:
        verdict = await inquiry.ask(installation.absent_configuration(resource, name))
        if verdict is not None:
            return Answer(subject, verdict, tuple(inquiry.unread))
    clause, near = await inquiry.ask(absence(resource, name, namespace))
    fix = ""
    if near:
        flag = f" -n {namespace}" if namespace else ""
        fix = f"berth why {resource.kind.lower()}/{near}{flag}"
    return Answer(subject, Verdict(State.broken, "does not exist", because=(clause,), fix=fix), tuple(inquiry.unread))


def _home(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""
