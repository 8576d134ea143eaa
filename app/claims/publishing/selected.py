"""Which entries of the network status belong to which selection of the Pod. Pure.

Multus writes the entries of the default network, of networks that its own configuration gives to all Pods, and then of
the Pod's selections in the order of the annotation. A selection has an entry for each interface of the CNI result, or
none (multus-cni CmdAdd, network-attachment-definition-client CreateNetworkStatuses).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.claims.network_status import Attached
from app.claims.publishing.model import Attachment, Inputs
from app.errors import Denied
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import Selection, parse


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """A selection with its entries. At most one device is behind them, since Multus gives it one.

    `key` is NAMESPACE/NAME of the attachment, or the name of the cluster's own network. `order` is its place in
    the annotation, from 1 on; 0 for entries whose selection is not known. `ips` and `device_id` are what it asks for.
    """

    key: str
    order: int
    default: bool
    attachment: Attachment | None
    ips: tuple[str, ...]
    device_id: str
    entries: tuple[Attached, ...]
    expected: str
    """The name of its interface, by the annotation or else as Multus numbers them."""

    @property
    def resource(self) -> str:
        return self.attachment.resource if self.attachment is not None else ""

    def entry(self, interface: str) -> Attached | None:
        """The entry of its device: that of this interface, of the expected one, else the first with an interface."""
        for name in (interface, self.expected):
            found = [one for one in self.entries if name and one.interface == name]
            if found:
                return found[0]
        return next((one for one in self.entries if one.interface), next(iter(self.entries), None))


def selected_in(inputs: Inputs, status: Sequence[Attached]) -> tuple[Selected, ...]:
    """The selections of the annotation in their order, then the default network, then what is left of the status.

    Each entry of the status is in one of them.
    """
    selections = _parsed(inputs.pod.networks, NETWORKS, inputs.pod.key[0])
    keys = [_key(one) for one in selections]
    first = 1 + _before(status, keys)
    expected = [one.interface or f"net{place}" for place, one in enumerate(selections, start=first)]
    owners: dict[int, int] = {}
    for key in dict.fromkeys(keys):
        entries = [index for index, one in enumerate(status) if one.name == key and not one.default]
        orders = [order for order, one in enumerate(keys) if one == key]
        names = [status[index].interface for index in entries]
        owners.update(zip(entries, _shares(names, orders, expected), strict=False))
    found = [
        _selected(
            inputs, one, [status[index] for index in sorted(owners) if owners[index] == order], order + 1, expected
        )
        for order, one in enumerate(selections)
    ]
    left = {index: one for index, one in enumerate(status) if index not in owners}
    for one in _parsed(inputs.pod.default_network, DEFAULT_NETWORK, inputs.home)[:1]:
        mine = [i for i, entry in left.items() if entry.name == _key(one) and (entry.default or entry.name not in keys)]
        found.append(_selected(inputs, one, [left.pop(index) for index in mine], 0, ()))
    return (*found, *(_alone(inputs, entry, selections) for entry in left.values()))


def _parsed(text: str, annotation: str, namespace: str) -> tuple[Selection, ...]:
    """Multus reads the annotation as strictly: a status beside one that cannot be read is of an earlier text."""
    try:
        return parse(text, annotation=annotation, default_namespace=namespace)
    except Denied:
        return ()


def _key(selection: Selection) -> str:
    return f"{selection.namespace}/{selection.name}"


def _before(status: Sequence[Attached], keys: Sequence[str]) -> int:
    """How many networks of its own configuration Multus has numbered before the Pod's."""
    defaults = {one.name for one in status if one.default}
    return len({one.name for one in status} - defaults - set(keys))


def _shares(names: Sequence[str], orders: Sequence[int], expected: Sequence[str]) -> Iterator[int]:
    """The selection of each entry of one attachment, by the names of its interfaces where these say it, else one each.

    Nothing where neither gives an answer: a CNI plugin may return several interfaces, and none for another selection.
    """
    wanted = [expected[order] for order in orders]
    starts = [names.index(name) if name in names else -1 for name in wanted]
    if len(orders) == 1 or all(start > before for start, before in zip(starts, [-1, *starts], strict=False)):
        for place in range(len(names)):
            yield orders[max(sum(start <= place for start in starts) - 1, 0)]
    elif len({*names}) == len(names) and len({*wanted}) == len(wanted) and {*names} <= {*wanted}:
        yield from (orders[wanted.index(name)] for name in names)
    elif len(names) == len(orders):
        fitting = all(name in ("", want) for name, want in zip(names, wanted, strict=True))
        if fitting or not {*names} & {*wanted}:
            yield from orders


def _selected(
    inputs: Inputs, one: Selection, entries: Sequence[Attached], order: int, expected: Sequence[str]
) -> Selected:
    return Selected(
        key=_key(one),
        order=order,
        default=not order,
        attachment=inputs.attachments.get(_key(one)),
        ips=one.ips,
        device_id=one.device_id.strip(),
        entries=tuple(entries),
        expected=expected[order - 1] if order else one.interface,
    )


def _alone(inputs: Inputs, entry: Attached, selections: Sequence[Selection]) -> Selected:
    ips = tuple(ip for one in selections if _key(one) == entry.name for ip in one.ips)
    return Selected(
        key=entry.name,
        order=0,
        default=entry.default,
        attachment=inputs.attachments.get(entry.name),
        ips=ips,
        device_id="",
        entries=(entry,),
        expected="",
    )
