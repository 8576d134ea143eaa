"""View `why`: why an object is as it is, as `berth why` says it, and the chain of objects that this follows from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial

import msgspec

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import unchecked
from app.doctor.objects import Object
from app.errors import ApiError, UsageError
from app.kube.names import check_dns_label
from app.kube.resources import Resource
from app.text import printable, stamp
from app.ui.chain import Edge, Node, Picture, ordered, picture, with_states
from app.ui.subjects import Target, parse_search, target_of
from app.ui.verdicts import answer_on
from app.ui.view import Asked, Model, Parameter, View
from app.why.inquiry import JUDGES
from app.why.rendering import Answer

NODES = 60
"""Objects of a chain that are shown."""
HITS = 50
"""Objects that a search shows."""
_LONGEST = 4000


class Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The verdict on an object, by the members of `berth why -o json`."""

    subject: str
    state: str
    text: str
    since: str
    asks: str
    because: tuple[str, ...]
    so: str
    fix: tuple[str, ...]
    next: str
    codes: tuple[str, ...]
    more: str
    unread: tuple[str, ...]


class Chain(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects that a verdict was reached over, and the links between them; `more` is how many are left out."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    more: int

    @property
    def picture(self) -> Picture:
        """Where they stand in the picture."""
        return picture(self.nodes, self.edges)


class Hits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects whose names have the text that was searched for; `more` is whether there are others."""

    text: str
    targets: tuple[Target, ...]
    more: bool


class Why(Model, frozen=True, kw_only=True, rename="camel"):
    """Why an object is as it is. `said` and `chain` are null if no object was named, `hits` if one was.

    `problem` says what is wrong with the query, "" if nothing is.
    """

    problem: str = ""
    said: Said | None = None
    chain: Chain | None = None
    hits: Hits | None = None


async def _read(asked: Asked) -> Why:
    text, namespace = asked.query.get("q", "").strip(), asked.query.get("namespace", "").strip()
    if not text:
        return Why()
    try:
        if namespace:
            check_dns_label(namespace)
        meant = parse_search(text, namespace or "default")
        if isinstance(meant, str):
            return Why(hits=await asked.kept(("search", meant, namespace), partial(_search, meant, namespace)))
        answer = await answer_on(asked, meant)
    except ValueError as error:
        return Why(problem=f"namespace: {error}")
    except UsageError as error:
        return Why(problem=str(error))
    except ApiError as refusal:
        if refusal.status != 403:
            raise
        return Why(problem=plain(unchecked(refusal).message))
    rows, edges = ordered(answer.subject, answer.links)
    shown = rows[:NODES]
    targets = {subject: target_of(subject) for subject, _, _ in shown}
    linked = {subject: targets[subject] for subject, level, found in shown if level and found}
    said = {answer.subject: (answer.verdict.state.name, plain(answer.verdict.text))}
    said |= await _said_of(asked, {subject: target for subject, target in linked.items() if target is not None})
    chain = Chain(
        nodes=with_states(shown, targets, said),
        edges=tuple(edge for edge in edges if edge.source < NODES and edge.target < NODES),
        more=len(rows) - len(shown),
    )
    return Why(said=said_of(answer), chain=chain)


async def _said_of(asked: Asked, targets: Mapping[str, Target]) -> dict[str, tuple[str, str]]:
    """State and text of each of these objects; of one that cannot be judged, that."""

    async def judged(target: Target) -> tuple[str, str]:
        try:
            answer = await answer_on(asked, target)
        except (ApiError, UsageError) as refusal:
            return "", plain(refusal)
        return answer.verdict.state.name, plain(answer.verdict.text)

    answers = await asyncio.gather(*(judged(target) for target in targets.values()))
    return dict(zip(targets, answers, strict=True))


def said_of(answer: Answer) -> Said:
    """What the page shows of a verdict."""
    verdict = answer.verdict
    return Said(
        subject=plain(answer.subject),
        state=verdict.state.name,
        text=plain(verdict.text, _LONGEST),
        since=stamp(verdict.since) if verdict.since else "",
        asks=plain(verdict.asks, _LONGEST),
        because=tuple(plain(cause, _LONGEST) for cause in verdict.because),
        so=plain(verdict.so, _LONGEST),
        fix=tuple(printable(command) for command in verdict.fix.split("\n") if command),
        next=plain(verdict.next, _LONGEST),
        codes=verdict.codes,
        more=printable(verdict.more),
        unread=tuple(plain(text, _LONGEST) for text in answer.unread),
    )


async def _search(text: str, namespace: str, cluster: Cluster) -> Hits:
    """Objects of the kinds that have judges, of those that the caller may list."""
    targets: dict[Target, None] = {}
    for resource in JUDGES:
        async for target in _named(cluster, resource, text.lower(), namespace):
            targets[target] = None
            if len(targets) > HITS:
                return Hits(text=text, targets=tuple(targets)[:HITS], more=True)
    return Hits(text=text, targets=tuple(targets), more=False)


async def _named(cluster: Cluster, resource: Resource, text: str, namespace: str) -> AsyncIterator[Target]:
    if namespace and not resource.namespaced:
        return
    try:
        async for obj in cluster.paged(resource, namespace=namespace or None):
            it = Object(resource, obj)
            if text in it.name.lower():
                yield Target(kind=resource.kind, namespace=it.namespace, name=it.name)
    except ApiError:  # a kind that the caller may not list has nothing to show
        return


VIEW = View(
    "why",
    "Why",
    "Why an object is as it is, down to what can be changed, and the command that changes it.",
    Why,
    _read,
    "ui/templates/why.html",
    (
        Parameter("q", "the object, as `KIND/NAME` or `Kind namespace/name`, or a part of names"),
        Parameter("namespace", "the namespace of the object (default: `default`), or that of a search"),
    ),
)
