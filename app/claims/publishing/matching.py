"""Which entries of the network status and which device are behind which selection of the Pod. Pure.

The rules give a one-to-one answer or none: a device and a selection are used once. The default network is matched by
its device alone, since Multus counts the devices for it apart (multus-cni tryLoadK8sPodDefaultNetwork).

Multus writes the entries of the default network, of networks that its own configuration gives to all Pods, and then of
the Pod's selections in the order of the annotation. A selection has an entry for each interface of the CNI result, or
none (multus-cni CmdAdd, network-attachment-definition-client CreateNetworkStatuses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.claims.network_status import Attached
from app.claims.publishing.devices import Device, identity
from app.claims.publishing.model import Attachment, Inputs
from app.claims.stored import ClaimPod
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
            entries = [entry for entry in self.entries if name and entry.interface == name]
            if entries:
                return entries[0]
        return next((entry for entry in self.entries if entry.interface), next(iter(self.entries), None))


_Pair = tuple[Device, Selected]


class Matching:
    """`certain` is whether all devices that Multus has seen are among `devices`; otherwise nothing is counted."""

    def __init__(
        self, pod: ClaimPod, devices: tuple[Device, ...], selected: tuple[Selected, ...], *, certain: bool
    ) -> None:
        self._plugins = pod.plugin_resources
        self._devices = devices
        self._all = selected
        self._selected = [selection for selection in selected if not selection.default]
        self.found: dict[Device, Selected] = {}
        self._keep(
            _unique(
                (device, selection)
                for device in devices
                for selection in selected
                if _addresses(selection) & device.ids
            )
        )
        self._without: list[Selected] = []
        """The selections to which Multus gives no device of their resource; it then uses the requested one."""
        if certain:
            self._by_order()
        self._keep(_unique(self._by_device_id()))
        self._keep(_unique(self._by_interface()))
        if certain:
            self._keep(self._by_exclusion())

    def left_for(self, device: Device) -> list[Selected]:
        """The selections that have interfaces and no device, and that may be those of this device."""
        return [
            selection
            for selection in self._free(self._selected)
            if selection.entries
            and selection.resource
            and _fit(device, selection)
            and not (
                selection in self._without and selection.device_id and device.ids and not _requested(selection, device)
            )
            and (selection.resource == device.resource or selection.resource not in self._plugins)
        ]

    def _keep(self, pairs: Iterable[_Pair]) -> None:
        self.found.update(list(pairs))

    def _free(self, selected: Iterable[Selected]) -> list[Selected]:
        taken = set(self.found.values())
        return [selection for selection in selected if selection not in taken]

    def _by_order(self) -> None:
        """Multus sorts the devices of a resource by id, and gives the n-th to the n-th selection of that resource."""
        numbered = [selection for selection in self._selected if selection.order]
        self._without += [selection for selection in numbered if not selection.resource]
        for resource in dict.fromkeys(selection.resource for selection in numbered if selection.resource):
            selected = [selection for selection in numbered if selection.resource == resource]
            devices = sorted(
                (device for device in self._devices if device.for_multus and device.resource == resource),
                key=lambda device: device.device_id,
            )
            pairs = list(zip(devices, selected, strict=False))
            if self._countable(resource, devices) and all(map(self._consistent, pairs)):
                ids = Counter(device.device_id for device in devices)
                self._keep([pair for pair in pairs if ids[pair[0].device_id] == 1])
                self._without += selected[len(devices) :]

    def _countable(self, resource: str, devices: list[Device]) -> bool:
        """Not where Multus has counted what is not known here.

        That is devices of device plugins, networks of its own configuration, and devices without a slice.
        """
        keys = self._numbered_keys()
        drivers = {device.key.driver for device in devices}
        return (
            resource not in self._plugins
            and all(
                selection.order or selection.key in keys or selection.resource != resource
                for selection in self._selected
            )
            and all(device.known or device.key.driver not in drivers for device in self._devices)
        )

    def _consistent(self, pair: _Pair) -> bool:
        device, selected = pair
        return (
            _fit(device, selected)
            and self.found.get(device, selected) is selected
            and (device in self.found or selected not in self.found.values())
        )

    def _by_device_id(self) -> Iterator[_Pair]:
        for selection in self._free(self._without):
            for device in self._unmatched():
                if _requested(selection, device) and _may_be(device, selection):
                    yield device, selection

    def _by_interface(self) -> Iterator[_Pair]:
        for selection in self._free(self._selected):
            names = {entry.interface for entry in selection.entries if entry.interface}
            yield from (
                (device, selection)
                for device in self._unmatched()
                if device.interface in names and _fit(device, selection)
            )

    def _by_exclusion(self) -> Iterator[_Pair]:
        """The only device that is left for the only selection that is left for it.

        Not where Multus may have taken the device from elsewhere: from a device plugin, by the selection's request, or,
        for entries that may be of several selections, by order.
        """
        keys = self._numbered_keys()
        drivers = {device.key.driver for device in self._devices if device.network}
        free = [
            device
            for device in self._unmatched()
            if device.network or (not device.known and device.key.driver in drivers)
        ]
        for device, selection in _unique((each, selection) for each in free for selection in self.left_for(each)):
            if (
                selection.resource not in self._plugins
                and not selection.device_id
                and (selection.order or selection.key not in keys)
            ):
                yield device, selection

    def _numbered_keys(self) -> set[str]:
        return {selection.key for selection in self._selected if selection.order}

    def _unmatched(self) -> list[Device]:
        return [device for device in self._devices if device not in self.found]


def _addresses(selected: Selected) -> frozenset[str]:
    return frozenset(identity(entry.pci_address) for entry in selected.entries if entry.pci_address)


def _requested(selected: Selected, device: Device) -> bool:
    return bool(selected.device_id) and identity(selected.device_id) in device.ids


def _may_be(device: Device, selected: Selected) -> bool:
    """The network status does not say that the selection has another device."""
    addresses = _addresses(selected)
    return not addresses or not device.pci_ids or bool(addresses & device.ids)


def _fit(device: Device, selected: Selected) -> bool:
    """Neither the network status nor the attachment says that the selection has another device."""
    return _may_be(device, selected) and (not device.resource or selected.resource in ("", device.resource))


def _unique(pairs: Iterable[_Pair]) -> list[_Pair]:
    """The pairs of which neither the device nor the selection is in another pair."""
    left = list(pairs)
    devices, selected = Counter(pair[0] for pair in left), Counter(pair[1] for pair in left)
    return [pair for pair in left if devices[pair[0]] == selected[pair[1]] == 1]


def selected_in(inputs: Inputs, status: Sequence[Attached]) -> tuple[Selected, ...]:
    """The selections of the annotation in their order, then the default network, then what is left of the status.

    Each entry of the status is in one of them.
    """
    selections = _parsed(inputs.pod.networks, NETWORKS, inputs.pod.key[0])
    keys = [_key(selection) for selection in selections]
    first = 1 + _before(status, keys)
    expected = [selection.interface or f"net{place}" for place, selection in enumerate(selections, start=first)]
    owners: dict[int, int] = {}
    for key in dict.fromkeys(keys):
        entries = [index for index, entry in enumerate(status) if entry.name == key and not entry.default]
        orders = [order for order, other in enumerate(keys) if other == key]
        names = [status[index].interface for index in entries]
        owners.update(zip(entries, _shares(names, orders, expected), strict=False))
    parsed = [
        _selected(
            inputs,
            selection,
            [status[index] for index in sorted(owners) if owners[index] == order],
            order + 1,
            expected,
        )
        for order, selection in enumerate(selections)
    ]
    left = {index: entry for index, entry in enumerate(status) if index not in owners}
    for selection in _parsed(inputs.pod.default_network, DEFAULT_NETWORK, inputs.home)[:1]:
        mine = [
            i
            for i, entry in left.items()
            if entry.name == _key(selection) and (entry.default or entry.name not in keys)
        ]
        parsed.append(_selected(inputs, selection, [left.pop(index) for index in mine], 0, ()))
    return (*parsed, *(_alone(inputs, entry, selections) for entry in left.values()))


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
    defaults = {entry.name for entry in status if entry.default}
    return len({entry.name for entry in status} - defaults - set(keys))


def _shares(names: Sequence[str], orders: Sequence[int], expected: Sequence[str]) -> Iterator[int]:
    """The selection of each entry of one attachment, by the names of its interfaces where these say it, else one each.

    Nothing where neither gives an answer: a CNI plugin may return several interfaces, and none for another selection.
    """
    resources = [expected[order] for order in orders]
    starts = [names.index(name) if name in names else -1 for name in resources]
    if len(orders) == 1 or all(start > before for start, before in zip(starts, [-1, *starts], strict=False)):
        for place in range(len(names)):
            yield orders[max(sum(start <= place for start in starts) - 1, 0)]
    elif len({*names}) == len(names) and len({*resources}) == len(resources) and {*names} <= {*resources}:
        yield from (orders[resources.index(name)] for name in names)
    elif len(names) == len(orders):
        fitting = all(name in ("", want) for name, want in zip(names, resources, strict=True))
        if fitting or not {*names} & {*resources}:
            yield from orders


def _selected(
    inputs: Inputs, selection: Selection, entries: Sequence[Attached], order: int, expected: Sequence[str]
) -> Selected:
    return Selected(
        key=_key(selection),
        order=order,
        default=not order,
        attachment=inputs.attachments.get(_key(selection)),
        ips=selection.ips,
        device_id=selection.device_id.strip(),
        entries=tuple(entries),
        expected=expected[order - 1] if order else selection.interface,
    )


def _alone(inputs: Inputs, entry: Attached, selections: Sequence[Selection]) -> Selected:
    ips = tuple(ip for selection in selections if _key(selection) == entry.name for ip in selection.ips)
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
