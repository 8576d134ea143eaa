"""Views that list the objects of a kind with their verdicts, page by page: the one of all kinds, and those of wings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from app.ui.selection import label_selector
from app.ui.subjects import Target
from app.ui.verdicts import verdict_on
from app.ui.view import Asked, Model, Parameter, View
from app.why.inquiry import JUDGES
from app.why.kinds import resources_of
from app.wire import JSON

PAGE = 50
"""Objects of a page."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a list: `name` in the JSON, `heading` on the page, and its text out of an object."""

    name: str
    heading: str
    value: Callable[[JSON], str]


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object with its verdict.

    `because` is the nearest cause, `fix` the first command, "" without one. `cells` are the further columns, by name.
    """

    target: Target
    state: str
    text: str
    because: str
    fix: str
    cells: dict[str, str]


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
    return await read_objects(asked, resource, kinds=tuple(kinds()))


async def read_objects(
    asked: Asked, resource: Resource, fields: tuple[Field, ...] = (), *, kinds: tuple[str, ...] = ()
) -> Objects:
    """The page of objects that the query names, each with its verdict."""
    namespace, labels = asked.query.get("namespace", "").strip(), asked.query.get("labels", "").strip()
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
    rows = await asyncio.gather(*(_row(asked, Object(resource, obj), fields) for obj in page.items))
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


async def _row(asked: Asked, it: Object, fields: tuple[Field, ...]) -> Row:
    target = Target(kind=it.resource.kind, namespace=it.namespace, name=it.name)
    verdict = await verdict_on(asked, it.resource, target)
    return Row(
        target=target,
        state=verdict.state.name if verdict else "",
        text=plain(verdict.text) if verdict else "not judged",
        because=plain(next(iter(verdict.because), "")) if verdict else "",
        fix=printable(verdict.fix.split("\n")[0]) if verdict else "",
        cells={field.name: _cell(field, it) for field in fields},
    )


def _cell(field: Field, it: Object) -> str:
    try:
        return plain(field.value(it.json))
    except Exception:  # noqa: BLE001  the wall of an object: what its author wrote must not hide the others
        return "?"


PARAMETERS = (
    Parameter("namespace", "objects of this namespace alone"),
    Parameter("labels", "objects with these labels alone, as `kubectl -l` takes them"),
    Parameter("after", "where the page begins: `following` of the page before"),
)
TEMPLATE = "ui/templates/objects.html"


def objects_view(name: str, title: str, text: str, resource: Resource, fields: tuple[Field, ...] = ()) -> View:
    """A view of the objects of one kind: for the descriptor of a wing."""

    async def read(asked: Asked) -> Objects:
        return await read_objects(asked, resource, fields)

    return View(name, title, text, Objects, read, TEMPLATE, PARAMETERS)


VIEW = View(
    "objects",
    "Objects",
    "The objects of any kind that berth why knows, each with its verdict.",
    Objects,
    _read,
    TEMPLATE,
    (Parameter("kind", "the kind, as kubectl takes it (default: `pods`)"), *PARAMETERS),
)
