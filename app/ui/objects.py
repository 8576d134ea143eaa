"""Views that list the objects of a kind with their verdicts, page by page: the one of all kinds, and those of wings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object, plural
from app.errors import ApiError, UsageError
from app.kube.client import Page
from app.kube.names import check_dns_label
from app.kube.resources import PODS, Resource
from app.text import printable
from app.ui.details import Amount, Detail, Line, line
from app.ui.selection import label_selector
from app.ui.subjects import Target
from app.ui.verdicts import verdict_on
from app.ui.view import Asked, Model, Parameter, View
from app.why.inquiry import JUDGES
from app.why.kinds import resources_of
from app.why.model import Verdict
from app.wire import JSON

PAGE = 50
"""Objects of a page."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a list: `name` in the JSON, `heading` on the page, and its text out of an object.

    Without `value`, the detail of the object has it.
    """

    name: str
    heading: str
    value: Callable[[JSON], str] | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind that a view lists, with its further columns.

    `detail` says more of one object, which it gets with its verdict. It reads through `asked.kept` alone.
    """

    resource: Resource
    fields: tuple[Field, ...] = ()
    detail: Callable[[Asked, Object, Verdict | None], Awaitable[Detail]] | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object with its verdict.

    `because` is the nearest cause, `fix` the first command, "" without one. `cells` are the further columns, by name.
    `lines` are what belongs to it, `more` how many of them are left out; `amounts` what is used of it.
    """

    target: Target
    state: str
    text: str
    because: str
    fix: str
    cells: dict[str, str]
    amounts: tuple[Amount, ...] = ()
    lines: tuple[Line, ...] = ()
    more: int = 0


class Choice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is listed: the kind as kubectl takes it, the namespace ("" for all) and the label selector ("" for all).

    `kinds` are those that can be chosen. `headings` are the further columns, by name. `problem` says what is wrong with
    the query, or that the objects may not be listed.
    """

    kind: str
    namespace: str = ""
    labels: str = ""
    kinds: tuple[str, ...] = ()
    headings: dict[str, str] = {}
    problem: str = ""


class Rows(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of objects by their names. `following` is the word `after` of the next page, "" at the end."""

    rows: tuple[Row, ...] = ()
    following: str = ""


class Objects(Model, frozen=True, kw_only=True, rename="camel"):
    """Objects of a kind with their verdicts."""

    choice: Choice
    page: Rows


def kinds() -> dict[str, Resource]:
    """The kinds that have judges, as kubectl takes them; of several versions the newest."""
    known: dict[str, Resource] = {}
    for resource in JUDGES:
        known.setdefault(plural(resource), resource)
    return dict(sorted(known.items()))


async def _read(asked: Asked) -> Objects:
    word = asked.query.get("kind", "") or plural(PODS)
    try:
        resource = kinds().get(word) or resources_of(word, JUDGES)[0]
    except UsageError as error:
        return Objects(choice=Choice(kind="", kinds=tuple(kinds()), problem=str(error)), page=Rows())
    return await read_objects(asked, Listed(resource), kinds=tuple(kinds()))


async def read_objects(asked: Asked, listed: Listed, *, kinds: tuple[str, ...] = ()) -> Objects:
    """The page of objects that the query names, each with its verdict."""
    namespace, labels = asked.query.get("namespace", "").strip(), asked.query.get("labels", "").strip()
    resource, fields = listed.resource, listed.fields
    choice = Choice(
        kind=plural(resource),
        namespace=namespace if resource.namespaced else "",
        labels=labels,
        kinds=kinds,
        headings={field.name: field.heading for field in fields},
    )
    try:
        if choice.namespace:
            check_dns_label(choice.namespace)
        label_selector(labels)
        after = asked.query.get("after", "")
        key = ("page", resource, choice.namespace, labels, after)
        page = await asked.kept(key, partial(_page, resource, choice, after))
    except ValueError as error:
        return Objects(choice=msgspec.structs.replace(choice, problem=str(error)), page=Rows())
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        return Objects(choice=msgspec.structs.replace(choice, problem=plain(refusal)), page=Rows())
    rows = await asyncio.gather(*(_row(asked, Object(resource, obj), listed) for obj in page.items))
    return Objects(choice=choice, page=Rows(rows=tuple(rows), following=page.continue_token))


async def _page(resource: Resource, choice: Choice, after: str, cluster: Cluster) -> Page:
    try:
        return await cluster.client.list_page(
            resource,
            namespace=choice.namespace or None,
            label_selector=choice.labels,
            limit=PAGE,
            continue_token=after,
        )
    except ApiError as refusal:
        if not refusal.not_found:
            raise
        return Page([], "", "")


async def _row(asked: Asked, it: Object, listed: Listed) -> Row:
    target = Target(kind=it.resource.kind, namespace=it.namespace, name=it.name)
    verdict = await verdict_on(asked, it.resource, target)
    said = await _detail(asked, it, verdict, listed)
    return Row(
        target=target,
        state=verdict.state.name if verdict else "",
        text=plain(verdict.text) if verdict else "not judged",
        because=plain(next(iter(verdict.because), "")) if verdict else "",
        fix=printable(verdict.fix.split("\n")[0]) if verdict else "",
        cells={field.name: _cell(field, it, said) for field in listed.fields},
        amounts=said.amounts,
        lines=said.lines,
        more=said.more,
    )


async def _detail(asked: Asked, it: Object, verdict: Verdict | None, listed: Listed) -> Detail:
    if listed.detail is None:
        return Detail()
    try:
        return await listed.detail(asked, it, verdict)
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        return Detail(lines=(line(refusal),))
    except Exception:  # noqa: BLE001  the wall of an object, as of a cell
        return Detail()


def _cell(field: Field, it: Object, said: Detail) -> str:
    try:
        return said.cells.get(field.name, "") if field.value is None else plain(field.value(it.json))
    except Exception:  # noqa: BLE001  the wall of an object: what its author wrote must not hide the others
        return "?"


PARAMETERS = (
    Parameter("namespace", "objects of this namespace alone"),
    Parameter("labels", "objects with these labels alone, as `kubectl -l` takes them"),
    Parameter("after", "the object before the page: `following` of the page before"),
)
TEMPLATE = "ui/templates/objects.html"


def objects_view(name: str, title: str, text: str, *listed: Listed) -> View:
    """A view of the objects of one kind, or of one of several kinds: for the descriptor of a wing."""
    by_word = {plural(kind.resource): kind for kind in listed}

    async def read(asked: Asked) -> Objects:
        words = tuple(by_word) if len(listed) > 1 else ()
        word = asked.query.get("kind", "") or await _present(asked, listed)
        if word in by_word:
            return await read_objects(asked, by_word[word], kinds=words)
        problem = f"kind: want one of {', '.join(by_word)}"
        return Objects(choice=Choice(kind="", kinds=words, problem=problem), page=Rows())

    kind = (Parameter("kind", f"one of {', '.join(f'`{word}`' for word in by_word)}"),) if len(listed) > 1 else ()
    return View(name, title, text, Objects, read, TEMPLATE, (*kind, *PARAMETERS))


async def _present(asked: Asked, listed: tuple[Listed, ...]) -> str:
    """The first of several kinds that the cluster has; the first of all if it has none, or does not tell."""
    for kind in listed if len(listed) > 1 else ():
        try:
            if await asked.kept(("serves", kind.resource), partial(_served, kind.resource)):
                return plural(kind.resource)
        except ApiError as refusal:
            if not refusal.status or refusal.status == 401:
                raise
    return plural(listed[0].resource)


async def _served(resource: Resource, cluster: Cluster) -> bool:
    return await cluster.serves(resource)


VIEW = View(
    "objects",
    "Objects",
    "The objects of any kind that berth why knows, each with its verdict.",
    Objects,
    _read,
    TEMPLATE,
    (Parameter("kind", "the kind, as kubectl takes it (default: `pods`)"), *PARAMETERS),
)
