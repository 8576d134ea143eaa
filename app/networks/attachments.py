"""Which attachments a Pod selects: a search that asks for each of them, so that the caller looks it up. Pure.

Names are checked by the parser before an attachment is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TypeVar

from app.admission.chain import Plan
from app.errors import Denied
from app.networks.interfaces import chosen_by
from app.networks.model import DEFAULT_NETWORK, NETWORKS, Attachment, Networks
from app.networks.selection import Selection

Search = Generator[tuple[str, str], Attachment | None, Networks | None]
"""Yields the namespace and name of an attachment, and is sent what was found."""
L = TypeVar("L")


def networks_of(
    annotations: Mapping[str, str],
    namespace: str,
    *,
    home: str,
    plan: Plan,
    elsewhere: Callable[[str], bool] = lambda _: False,
) -> Search:
    """The networks of a Pod in `namespace`, the default one first; `home` is where Multus looks for that.

    Warnings go into the `plan`. `elsewhere` says whether some namespace has an attachment of a name: which one is not
    for everybody's eyes.

    Returns None where an element needs the Pod's namespace and it is "". Raises Denied for what does not exist.
    """
    networks: list[tuple[str, Attachment]] = []
    default, selections, ignored = chosen_by(annotations, namespace)
    if ignored:
        plan.warnings += ignored
    if default is not None:
        networks.append((DEFAULT_NETWORK, (yield from _default_network(default, namespace, home, plan, elsewhere))))
    for selected in selections:
        if not selected.namespace:
            return None
        attachment = yield selected.namespace, selected.name
        if attachment is None:
            raise _not_found(selected.namespace, selected.name, NETWORKS, elsewhere)
        networks.append((NETWORKS, attachment))
    return tuple(networks)


def looked_up(search: Search, lookup: L) -> Generator[tuple[L, str, str], Attachment | None, Networks | None]:
    """The result of a search, as steps for `app.kube.lookup.follow`."""
    found = None
    try:
        while True:
            found = yield lookup, *search.send(found)
    except StopIteration as end:
        networks: Networks | None = end.value
        return networks


def _default_network(
    selected: Selection, namespace: str, home: str, plan: Plan, elsewhere: Callable[[str], bool]
) -> Generator[tuple[str, str], Attachment | None, Attachment]:
    """The default network, looked up where Multus does; in the Pod's namespace only where it is not there."""
    home = selected.namespace or home
    attachment = yield home, selected.name
    if attachment is None and not selected.namespace and namespace and namespace != home:
        attachment = yield namespace, selected.name
        if attachment is not None:
            plan.warnings.append(
                f"annotation {DEFAULT_NETWORK}: {selected.name} is not in namespace {home}, where Multus looks for "
                f"it; the one in {namespace} is used: write {namespace}/{selected.name}"
            )
    if attachment is None:
        raise _not_found(home, selected.name, DEFAULT_NETWORK, elsewhere)
    return attachment


def _not_found(namespace: str, name: str, annotation: str, elsewhere: Callable[[str], bool]) -> Denied:
    key = f"{namespace}/{name}"
    hint = f"; another namespace has an attachment of this name: write NAMESPACE/{name}" if elsewhere(name) else ""
    return Denied(
        f"could not find network attachment definition '{key}': could not get Network Attachment Definition {key}: "
        f"the server could not find the requested resource (selected by annotation {annotation}){hint}",
        reason="AttachmentNotFound",
    )
