"""Why devices of a claim have no network data: planned by what the controller plans them with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from app.claims.model import DeviceKey
from app.claims.network_status import attached_to
from app.claims.publishing.caches import attachments_of
from app.claims.publishing.devices import Device, devices_of
from app.claims.publishing.entries import Rules, state_of
from app.claims.publishing.matching import selected_in
from app.claims.publishing.model import Attachment, Inputs, Planned, stored_attachment
from app.claims.publishing.planning import plan_pod
from app.claims.slices import Slice, stored_slice
from app.claims.stored import Claim, claim_pod, stored_claim
from app.claims.why.publishers import Publishers, has_run, publishers_of, remedy, unpublishing
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.kube.resources import NETWORK_ATTACHMENTS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.networks.why.makers import maker_of
from app.text import several
from app.why.model import Asking, State, Unread, Verdict, fine, get, read, stuck, told
from app.why.standing import describe

WITHOUT_DATA, SILENT = "BERTH5016", "BERTH5004"
_REFUSED = frozenset({"NetworkDataForbidden", "NetworkDataRejected", "NetworkDataErased"})
"""Reasons of Events on claims for data that are planned and not written."""
_UNPUBLISHED = _REFUSED | {"NetworkDataUnmatched"}
"""Those of Events on Pods and claims for data that are not published."""
_OVER = frozenset({"PodOver", "HostNetwork"})
"""Why a Pod has no network data where that is as it should be."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Lack:
    """Why a device has no network data."""

    state: State
    cause: str
    fix: str = ""
    code: str = ""
    next: str = ""


def judge_network_data(it: Object, claim: Claim, pod: Object, now: datetime) -> Asking[Verdict | None]:
    """How many of its network devices have network data, and why the others have none."""
    publishers = yield from read(publishers_of)
    text = f"{several(len(claim.results), 'device')} for Pod {pod.name}"
    try:
        inputs, missing = yield from _inputs(claim, pod, publishers)
    except Unread:
        # The controller has read what the user may not, and told it.
        if _have_data(claim):
            return fine(text)
        problem = (yield from told(it, _UNPUBLISHED)) or (yield from told(pod, _UNPUBLISHED))
        return stuck(text, because=(problem,), codes=(WITHOUT_DATA,), more=describe(it)) if problem else fine(text)
    devices = [it for it in devices_of(inputs, (claim,)) if it.network and not it.admin]
    planned = plan_pod(inputs)
    if not devices or any(finding.reason in _OVER for finding in planned.unpublished):
        return fine(text)
    shown, lacks, bare = list[str](), list[_Lack](), list[Device]()
    for device in devices:
        entry = claim.entries.get(device.key)
        if entry is not None and entry.network_data is not None:
            data = planned.data.get(claim.key, {}).get(device.key)
            where = f" on {data.network}" if data is not None else ""
            ips = " ".join(entry.network_data.get("ips") or ())
            interface = entry.network_data.get("interfaceName") or "no interface"
            shown.append(f"{device.key.device}: {interface} {ips}".rstrip() + where)
        elif (lack := (yield from _lack(it, claim, pod, device, inputs, planned, publishers, now))) is not None:
            lacks.append(lack)
            bare.append(device)
    causes = tuple(dict.fromkeys(lack.cause for lack in lacks))
    count, whole = len(shown), len(shown) + len(lacks)
    # A driver that publishes for itself needs no network of Multus.
    if missing and any(device.key.driver not in publishers.settings.claims_self_publishing for device in bare):
        cause = f"there is no NetworkAttachmentDefinition {missing[0]}, which Pod {pod.name} selects"
        causes = (*causes, cause)
    text = f"{count} of {several(whole, 'device')} {'has' if 1 in (count, whole) else 'have'} network data"
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    asks = "; ".join((f"devices for Pod {pod.name}", *shown[:_SHOWN])) + more
    worst = max((lack.state for lack in lacks), default=State.fine)
    return Verdict(
        worst,
        text,
        asks=asks,
        because=causes,
        fix=next((lack.fix for lack in lacks if lack.fix), ""),
        next=next((lack.next for lack in lacks if lack.fix), ""),
        codes=tuple(dict.fromkeys(lack.code for lack in lacks if lack.code and lack.state is worst)),
        more=describe(it),
    )


def _have_data(claim: Claim) -> bool:
    """Whether each of its devices has network data."""
    entries = (claim.entries.get(result.device) for result in claim.results)
    return all(entry is not None and entry.network_data is not None for entry in entries)


def _inputs(claim: Claim, pod: Object, publishers: Publishers) -> Asking[tuple[Inputs, list[str]]]:
    """What the controller plans the network data of the Pod with; and the networks of it that do not exist."""
    stored, settings = claim_pod(pod.json), publishers.settings
    claims = [claim]
    for name in stored.claim_names:
        other = (yield from get(RESOURCE_CLAIMS, name, pod.namespace)) if name != claim.key[1] else None
        claims += [stored_claim(other.json)] if other is not None else []
    by_pool = yield from read(_by_pool)
    pools = dict.fromkeys(result.device[:2] for claim in claims for result in claim.results)
    attachments, missing = dict[str, Attachment](), list[str]()
    for key in attachments_of(stored, settings.default_network_namespace):
        namespace, _, name = key.partition("/")
        try:
            attachment = yield from get(NETWORK_ATTACHMENTS, name, namespace)
        except Unread:
            continue
        if attachment is None:
            missing.append(key)
        else:
            attachments[key] = stored_attachment(attachment.json, settings.network_resource_name_keys)
    inputs = Inputs(
        stored,
        tuple(claims),
        tuple(part for pool in pools for part in by_pool.get(pool, ())),
        attachments,
        settings.default_network_namespace,
        unconfined=settings.unconfined_networks,
        excluded=settings.excluded,
    )
    return inputs, missing


async def _by_pool(cluster: Cluster) -> dict[tuple[str, str], list[Slice]]:
    by_pool: dict[tuple[str, str], list[Slice]] = {}
    for obj in await cluster.listed(RESOURCE_SLICES):
        part = stored_slice(obj)
        by_pool.setdefault((part.driver, part.pool), []).append(part)
    return by_pool


def _lack(
    it: Object,
    claim: Claim,
    pod: Object,
    device: Device,
    inputs: Inputs,
    planned: Planned,
    publishers: Publishers,
    now: datetime,
) -> Asking[_Lack | None]:
    """Why a device has none; None of one that its driver says to be ready without an interface."""
    name, driver, settings = device.key.device, device.key.driver, publishers.settings
    entry, ran = claim.entries.get(device.key), has_run(pod.json, now)
    if driver in settings.claims_self_publishing and not settings.claims_repair_after:
        if entry is not None and (entry.conditions or entry.data):
            return None
        cause = f"{name}: driver {driver} publishes network data for itself, and has written nothing"
        if not ran:
            return _Lack(State.waits, cause)
        attached = inputs.pod.network_status is not None
        work = partial(remedy, publishers=publishers, namespace=it.namespace, names=[pod.name], attached=attached)
        fix = yield from read(work, key=("remedy", pod.namespace, pod.name))
        again = "" if attached else (yield from maker_of(pod.json)).again
        return _Lack(State.stuck, cause, fix, SILENT, again)
    data = planned.data.get(claim.key, {}).get(device.key)
    if data is not None:
        rules = Rules(drivers=frozenset(settings.claims_drivers), conflict=settings.claims_conflict)
        return (
            yield from _unwritten(it, device.key, listed=state_of(device.key, entry, rules, overdue=True) != "unlisted")
        )
    of_claim = [finding for finding in planned.unpublished if finding.claim == claim.key]
    surplus = (yield from _surplus(pod, device, inputs)) if all(finding.device for finding in of_claim) else None
    if surplus is not None:
        return surplus
    for finding in of_claim:
        if finding.device in (None, device.key):
            ready = finding.reason == "NoNetworkStatus" and ran and bool(inputs.pod.networks)
            state = State.stuck if finding.problem or ready else State.waits
            return _Lack(state, f"{name}: {plain(finding.message)}", code=WITHOUT_DATA if state is State.stuck else "")
    return _Lack(State.waits, f"{name}: the cluster does not say what it is")


def _unwritten(it: Object, device: DeviceKey, *, listed: bool) -> Asking[_Lack]:
    """Its network data are known, and no role writes them."""
    if not listed:
        return _Lack(
            State.waits, f"{device.device}: driver {device.driver} is not in claims.drivers: none are published"
        )
    if refused := (yield from told(it, _REFUSED)):
        return _Lack(State.stuck, f"{device.device}: {refused}", code=WITHOUT_DATA)
    absent = yield from read(unpublishing)
    if absent is not None:
        cause, fix, code = absent
        return _Lack(State.stuck, cause, fix, code)
    return _Lack(State.waits, f"{device.device}: they are not written yet")


def _surplus(pod: Object, device: Device, inputs: Inputs) -> Asking[_Lack | None]:
    """Of a Pod that has more devices of a resource than it selects networks with it, that it has."""
    if not device.resource or inputs.pod.network_status is None:
        return None
    try:
        selected = selected_in(inputs, attached_to(inputs.pod.network_status))
    except ValueError:
        return None
    if any(network.order and network.attachment is None for network in selected):
        return None  # which resource these networks have is not known
    owned = [it for it in devices_of(inputs, inputs.claims) if it.resource == device.resource and not it.admin]
    networks = [
        network for network in selected if network.resource == device.resource and (network.order or network.default)
    ]
    if len(owned) <= len(networks):
        return None
    asks = f"Pod {pod.name} asks for {len(owned)} {device.resource} and selects {several(len(networks), 'network')}"
    how = f"select a network for each device, or ask for {len(networks)} {device.resource}"
    how = how if networks else f"select a network with {device.resource}"
    maker, cause = (yield from maker_of(pod.json)), f"{device.key.device}: none: {asks}"
    return _Lack(State.stuck, cause, maker.edit(), WITHOUT_DATA, maker.change(how))
