"""Which device is behind which selection of the Pod: rules that give a one-to-one answer or none. Pure.

A device and a selection are used once. The default network is matched by its device alone, since Multus counts the
devices for it apart (multus-cni tryLoadK8sPodDefaultNetwork).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from app.claims.publishing.devices import Device, identity
from app.claims.publishing.selected import Selected
from app.claims.stored.pods import ClaimPod

Pair = tuple[Device, Selected]


class Matching:
    """`certain` is whether all devices that Multus has seen are among `devices`; otherwise nothing is counted."""

    def __init__(
        self, pod: ClaimPod, devices: tuple[Device, ...], selected: tuple[Selected, ...], *, certain: bool
    ) -> None:
        self._plugins = pod.plugin_resources
        self._devices = devices
        self._all = selected
        self._selected = [one for one in selected if not one.default]
        self.found: dict[Device, Selected] = {}
        self._keep(_unique((device, one) for device in devices for one in selected if _addresses(one) & device.ids))
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
            one
            for one in self._free(self._selected)
            if one.entries
            and one.resource
            and _fit(device, one)
            and not (one in self._without and one.device_id and device.ids and not _requested(one, device))
            and (one.resource == device.resource or one.resource not in self._plugins)
        ]

    def _keep(self, pairs: Iterable[Pair]) -> None:
        self.found.update(list(pairs))

    def _free(self, selected: Iterable[Selected]) -> list[Selected]:
        taken = set(self.found.values())
        return [one for one in selected if one not in taken]

    def _by_order(self) -> None:
        """Multus sorts the devices of a resource by id, and gives the n-th to the n-th selection of that resource."""
        numbered = [one for one in self._selected if one.order]
        self._without += [one for one in numbered if not one.resource]
        for resource in dict.fromkeys(one.resource for one in numbered if one.resource):
            selected = [one for one in numbered if one.resource == resource]
            devices = sorted(
                (one for one in self._devices if one.for_multus and one.resource == resource),
                key=lambda one: one.device_id,
            )
            pairs = list(zip(devices, selected, strict=False))
            if self._countable(resource, devices) and all(map(self._consistent, pairs)):
                ids = Counter(one.device_id for one in devices)
                self._keep([pair for pair in pairs if ids[pair[0].device_id] == 1])
                self._without += selected[len(devices) :]

    def _countable(self, resource: str, devices: list[Device]) -> bool:
        """Not where Multus has counted what is not known here.

        That is devices of device plugins, networks of its own configuration, and devices without a slice.
        """
        keys = self._numbered_keys()
        drivers = {one.key.driver for one in devices}
        return (
            resource not in self._plugins
            and all(one.order or one.key in keys or one.resource != resource for one in self._selected)
            and all(one.known or one.key.driver not in drivers for one in self._devices)
        )

    def _consistent(self, pair: Pair) -> bool:
        device, selected = pair
        return (
            _fit(device, selected)
            and self.found.get(device, selected) is selected
            and (device in self.found or selected not in self.found.values())
        )

    def _by_device_id(self) -> Iterator[Pair]:
        for one in self._free(self._without):
            for device in self._unmatched():
                if _requested(one, device) and _may_be(device, one):
                    yield device, one

    def _by_interface(self) -> Iterator[Pair]:
        for one in self._free(self._selected):
            names = {entry.interface for entry in one.entries if entry.interface}
            yield from (
                (device, one) for device in self._unmatched() if device.interface in names and _fit(device, one)
            )

    def _by_exclusion(self) -> Iterator[Pair]:
        """The only device that is left for the only selection that is left for it.

        Not where Multus may have taken the device from elsewhere: from a device plugin, by the selection's request, or,
        for entries that may be of several selections, by order.
        """
        keys = self._numbered_keys()
        drivers = {one.key.driver for one in self._devices if one.network}
        free = [one for one in self._unmatched() if one.network or (not one.known and one.key.driver in drivers)]
        for device, one in _unique((each, one) for each in free for one in self.left_for(each)):
            if one.resource not in self._plugins and not one.device_id and (one.order or one.key not in keys):
                yield device, one

    def _numbered_keys(self) -> set[str]:
        return {one.key for one in self._selected if one.order}

    def _unmatched(self) -> list[Device]:
        return [one for one in self._devices if one not in self.found]


def _addresses(selected: Selected) -> frozenset[str]:
    return frozenset(identity(one.pci_address) for one in selected.entries if one.pci_address)


def _requested(selected: Selected, device: Device) -> bool:
    return bool(selected.device_id) and identity(selected.device_id) in device.ids


def _may_be(device: Device, selected: Selected) -> bool:
    """The network status does not say that the selection has another device."""
    addresses = _addresses(selected)
    return not addresses or not device.pci_ids or bool(addresses & device.ids)


def _fit(device: Device, selected: Selected) -> bool:
    """Neither the network status nor the attachment says that the selection has another device."""
    return _may_be(device, selected) and (not device.resource or selected.resource in ("", device.resource))


def _unique(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs of which neither the device nor the selection is in another pair."""
    found = list(pairs)
    devices, selected = Counter(pair[0] for pair in found), Counter(pair[1] for pair in found)
    return [pair for pair in found if devices[pair[0]] == selected[pair[1]] == 1]
