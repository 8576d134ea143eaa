"""What the network data of the devices of a Pod is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from app.claims.format import INTERFACE_NAME, is_well_formed
from app.claims.model import DeviceKey
from app.claims.network_status import Attached, attached_to
from app.claims.publishing import reasons
from app.claims.publishing.addresses import addressed, hardware_address
from app.claims.publishing.devices import Device, devices_of
from app.claims.publishing.entries import withheld_message
from app.claims.publishing.matching import Matching
from app.claims.publishing.model import Inputs, NetworkData, Planned, Unpublished, may_publish
from app.claims.publishing.selected import Selected, selected_in
from app.claims.stored.claims import Claim
from app.kube.store import Key


def plan_pod(inputs: Inputs) -> Planned:
    """The network data of each device of the Pod's claims, whatever is written already; never raises.

    Every device of the claims of the Pod has network data or a reason why it has none. Claims that are not the Pod's
    are left out.
    """
    pod = inputs.pod
    names = frozenset(pod.claim_names)
    mine = (one for one in inputs.claims if one.key[0] == pod.key[0] and one.key[1] in names)
    claims = tuple(sorted(mine, key=lambda one: one.key))
    status, error = _status(pod.network_status)
    devices = devices_of(inputs, claims)
    whole = reasons.pod_refused(pod)
    refused: dict[Key, reasons.Why] = {}
    for claim in claims:
        why = whole or reasons.claim_refused(claim, pod) or reasons.status_refused(pod, error)
        if why is not None:
            refused[claim.key] = why
    data: dict[Key, dict[DeviceKey, NetworkData]] = {}
    unpublished = [reasons.of_claim(one, refused[one.key], devices) for one in claims if one.key in refused]
    for device, answer in _answers(inputs, claims, devices, status):
        if device.claim in refused:
            continue
        if isinstance(answer, NetworkData):
            data.setdefault(device.claim, {})[device.key] = answer
        else:
            unpublished.append(answer)
    return Planned(data, tuple(unpublished))


def _status(text: str | None) -> tuple[tuple[Attached, ...], ValueError | None]:
    try:
        return attached_to(text or "[]"), None
    except ValueError as error:
        return (), error


def _answers(
    inputs: Inputs, claims: tuple[Claim, ...], devices: tuple[Device, ...], status: tuple[Attached, ...]
) -> Iterator[tuple[Device, NetworkData | Unpublished]]:
    """Devices that are not published are matched too: their interfaces are not those of other devices."""
    selected = selected_in(inputs, status)
    allocated = {one.key[1] for one in claims if one.allocated}
    missing = [name for name in inputs.pod.claim_names if name not in allocated]
    matching = Matching(inputs.pod, devices, selected, certain=not missing)
    for device in devices:
        one = matching.found.get(device)
        if device.admin:
            message = "allocated with admin access: its interface is that of another claim"
            yield device, reasons.of_device(device, "AdminAccess", message)
        elif one is None:
            yield device, reasons.unmatched(device, matching.left_for(device), selected, missing)
        else:
            shared = [other for other in selected if other.key == one.key and not other.order and not other.default]
            certain = one.entries or not shared
            yield device, _network_data(inputs, device, one) if certain else reasons.not_distinguished(device, shared)


def _network_data(inputs: Inputs, device: Device, selected: Selected) -> NetworkData | Unpublished:
    entry = selected.entry(device.interface)
    if entry is None:
        return reasons.of_device(device, "NoInterface", f"the network status has no entry for {selected.key}")
    attachment, unconfined = selected.attachment, selected.key in inputs.unconfined
    found = addressed(
        entry.ips,
        requested=selected.ips,
        attachment=attachment,
        driver=device.ips,
        may_publish=partial(may_publish, attachment=attachment, unconfined=unconfined, excluded=inputs.excluded),
    )
    data = NetworkData(
        interface=entry.interface if is_well_formed(INTERFACE_NAME, entry.interface) else "",
        hardware_address=hardware_address(entry.mac),
        ips=found.ips,
        unknown_prefixes=found.unknown,
        dropped=found.dropped,
        network=selected.key,
        withheld=found.withheld,
        confined=unconfined or (attachment is not None and attachment.has_subnets),
    )
    if data.body():
        return data
    if data.withheld:
        return reasons.of_device(device, "NoInterface", withheld_message(data), problem=True)
    message = f"the entry of {selected.key} has no interface, no addresses and no hardware address"
    return reasons.of_device(device, "NoInterface", message)
