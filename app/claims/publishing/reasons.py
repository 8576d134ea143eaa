"""Why a claim or a device of a Pod has no network data, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.claims.model import DEVICE_ID, NETWORK_STATUS, RESOURCE_NAME
from app.claims.publishing.devices import Device
from app.claims.publishing.model import Reason, Unpublished
from app.claims.publishing.selected import Selected
from app.claims.stored.claims import Claim
from app.claims.stored.pods import ClaimPod
from app.text import cut

Why = tuple[Reason, str]

_PROBLEMS: frozenset[Reason] = frozenset({"SharedClaim", "PodGroup", "BadNetworkStatus"})
"""Of whole claims: a user should look at these where a device of the claim is a network device."""
_NAMED = 4


def pod_refused(pod: ClaimPod) -> Why | None:
    """Why no device of the Pod has an interface of it."""
    if pod.over:
        return "PodOver", f"Pod {_name(pod)} has ended"
    if pod.host_network:
        return "HostNetwork", f"Pod {_name(pod)} uses the network of its node"
    return None


def claim_refused(claim: Claim, pod: ClaimPod) -> Why | None:
    """Why the devices of the claim are not those of this Pod alone."""
    if not claim.allocated:
        return "NotAllocated", "no devices are allocated to the claim"
    other = next((one for one in claim.consumers if one.resource != "pods"), None)
    if other is not None:
        return "PodGroup", f"the claim is reserved for {other.resource}/{other.name}; want it reserved for one Pod"
    if pod.uid not in {one.uid for one in claim.consumers}:
        return "NotReserved", f"the claim is not reserved for Pod {_name(pod)} with UID {pod.uid}"
    if len(claim.consumers) > 1:
        count = len(claim.consumers)
        return "SharedClaim", f"the claim is reserved for {count} Pods; want a claim for each Pod, by a template"
    return None


def status_refused(pod: ClaimPod, error: ValueError | None) -> Why | None:
    """Why it is not known what is attached to the Pod; `error` is what is wrong with its network status."""
    if not pod.network_status:
        return "NoNetworkStatus", f"Pod {_name(pod)} has no annotation {NETWORK_STATUS} yet"
    if error is not None:
        want = "want the JSON list that Multus writes"
        return "BadNetworkStatus", f"annotation {NETWORK_STATUS} of Pod {_name(pod)}: {cut(str(error), 256)}; {want}"
    return None


def of_claim(claim: Claim, why: Why, devices: Sequence[Device]) -> Unpublished:
    reason, message = why
    network = any(one.network for one in devices if one.claim == claim.key)
    return Unpublished(claim.key, None, reason, message, reason in _PROBLEMS and network)


def of_device(device: Device, reason: Reason, message: str, *, problem: bool = False) -> Unpublished:
    return Unpublished(device.claim, device.key, reason, message, problem)


def unmatched(
    device: Device, left: Sequence[Selected], selected: Sequence[Selected], missing: Sequence[str]
) -> Unpublished:
    """`left` are the selections that may be those of the device, `missing` the claims of the Pod that are not known."""
    if not device.known:
        where = f"no complete generation of pool {device.key.pool} of driver {device.key.driver}"
        message = f"{where} has device {device.key.device}: its attributes are not known"
        return of_device(device, "NoSlice", message, problem=device.network)
    if not device.network:
        message = f"neither an attribute {RESOURCE_NAME} nor its configuration says that it is a network device"
        return of_device(device, "NotNetwork", message)
    if not left:
        wanted = bool(device.resource) and any(one.resource == device.resource for one in selected)
        resource = f" of resource {device.resource}" if device.resource else ""
        message = f"no entry of {NETWORK_STATUS} is left for a device{resource}"
        return of_device(device, "NoInterface", message, problem=wanted)
    if missing:
        message = f"the devices of {', '.join(missing[:_NAMED])} are not known, and may be those of the same interfaces"
        return of_device(device, "Ambiguous", message)
    names = ", ".join(f"{one.key} ({(one.entries[0].interface or 'no interface')})" for one in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    message = (
        f"it may be behind {names}{more}, and nothing says which; want an attribute {DEVICE_ID} in its "
        f"ResourceSlice, device-info in the network status, or the name of its interface in the claim's configuration"
    )
    return of_device(device, "Ambiguous", message, problem=True)


def not_distinguished(device: Device, entries: Sequence[Selected]) -> Unpublished:
    """`entries` are those of an attachment that is selected more than once."""
    names = ", ".join(one.entries[0].interface or "no interface" for one in entries[:_NAMED])
    message = f"the entries of {entries[0].key} ({names}) may be of either selection; want an interface name in each"
    return of_device(device, "Ambiguous", message, problem=True)


def _name(pod: ClaimPod) -> str:
    return "/".join(pod.key)
