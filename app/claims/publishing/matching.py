"""Which device is behind which selection of the Pod: rules that give a one-to-one answer or none. Pure.

A device and a selection are used once. The default network is matched by its device alone, since Multus counts the
devices for it apart (multus-cni tryLoadK8sPodDefaultNetwork).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from app.claims.publishing.devices import Device, identity
from app.claims.publishing.selected import Selected
from app.claims.stored import ClaimPod

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
        without = self._by_order() if certain else []
        self._keep(_unique(self._by_device_id(without)))
        self._keep(_unique(self._by_interface()))
        if certain:
            self._keep(_unique(self._by_exclusion()))

    def left_for(self, device: Device) -> list[Selected]:
        """The selections that have interfaces and no device, and that may be those of this device."""
        return [
            one
            for one in self._free(self._selected)
            if one.entries
            and one.resource
            and _fit(device, one)
            and (not one.device_id or not device.ids or identity(one.device_id) in device.ids)
            and (one.resource == device.resource or one.resource not in self._plugins)
        ]

    def _keep(self, pairs: Iterable[Pair]) -> None:
        self.found.update(pairs)

    def _free(self, selected: Iterable[Selected]) -> list[Selected]:
        taken = set(self.found.values())
        return [one for one in selected if one not in taken]

    def _by_order(self) -> list[Selected]:
        """Multus sorts the devices of a resource by id, and gives the n-th to the n-th selection of that resource.

        Returned are the selections to which it gives none.
        """
        numbered = [one for one in self._selected if one.order]
        without = [one for one in numbered if not one.resource]
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
                without += selected[len(devices) :]
        return without

    def _countable(self, resource: str, devices: list[Device]) -> bool:
        """Not where Multus has counted what is not known here.

        That is devices of device plugins, networks of its own configuration, and devices without a slice.
        """
        keys = {one.key for one in self._selected if one.order}
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

    def _by_device_id(self, selected: list[Selected]) -> Iterator[Pair]:
        """The device that a selection asks for, which Multus heeds where it has no other for it."""
        for one in self._free(selected):
            for device in self._unmatched():
                if one.device_id and identity(one.device_id) in device.ids and _fit(device, one):
                    yield device, one

    def _by_interface(self) -> Iterator[Pair]:
        for one in self._free(self._selected):
            names = {entry.interface for entry in one.entries if entry.interface}
            yield from (
                (device, one) for device in self._unmatched() if device.interface in names and _fit(device, one)
            )

    def _by_exclusion(self) -> Iterator[Pair]:
        """The only device that is left for the only selection that is left for it."""
        drivers = {one.key.driver for one in self._devices if one.network}
        for device in self._unmatched():
            if device.network or (not device.known and device.key.driver in drivers):
                yield from ((device, one) for one in self.left_for(device) if one.resource not in self._plugins)

    def _unmatched(self) -> list[Device]:
        return [one for one in self._devices if one not in self.found]


def _addresses(selected: Selected) -> frozenset[str]:
    return frozenset(identity(one.pci_address) for one in selected.entries if one.pci_address)


def _fit(device: Device, selected: Selected) -> bool:
    """Nothing says that the selection has another device."""
    addresses = _addresses(selected)
    known_otherwise = addresses and device.pci_ids and not addresses & device.ids
    return not known_otherwise and (not device.resource or selected.resource in ("", device.resource))


def _unique(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs of which neither the device nor the selection is in another pair."""
    found = list(pairs)
    devices, selected = Counter(pair[0] for pair in found), Counter(pair[1] for pair in found)
    return [pair for pair in found if devices[pair[0]] == selected[pair[1]] == 1]
