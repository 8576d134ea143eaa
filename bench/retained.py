"""`python -m bench --only retained`: what one review costs the webhook for each object that it retains.

A webhook with every wing stands for each of `SIZES`: so many attachments, claims with network data, the Pods of these,
claim templates, namespaces, nodes and DeviceClasses. They take turns with the same reviews, from the bytes of the body
to those of the answer. Processor time of this process counts, and of each size the least of the rounds, which other
programs disturb little. AppWrappers are reviewed; the webhook retains none of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.admission.endpoint import Answer, ReviewEndpoint, Waiting
from app.admission.memo import Memo
from app.admission.parts import Context, ReviewCaches, chains
from app.appwrappers.model import APP_WRAPPERS
from app.claims.definitions import class_template
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, Resource
from app.registry import parts_of, settings_of
from app.rmd.model import RMD_WORKLOADS
from app.wire import JSON
from bench.figures import Figure
from bench.rounds import MeasureError, Progress
from tests.support import claim_reviews, claim_statuses, rmd_reviews
from tests.support.appwrappers import app_wrapper
from tests.support.appwrappers import pod as wrapped_pod
from tests.support.claim_status_reviews import attached, attachment, network_pod

SIZES = (0, 1_000, 10_000, 100_000)
"""Objects of each kind, beside those that the reviews name."""
RATIO_GOAL = 1.2
"""Of a review with the most objects to one with none."""
SHARED = "10.200.0.1"
SYSTEM, TEAM = "berth-system", "team"
_ROUNDS, _CALLS = 15, 100
_OTHERS = 200
"""Namespaces over which the others are spread."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A kind of review; `body` makes the one of a number. `allowed` is what each is answered."""

    name: str
    path: str
    body: Callable[[int], bytes]
    allowed: bool = True


@dataclass(slots=True)
class Webhook:
    """The endpoints of a webhook whose caches have `count` other objects of each kind."""

    count: int
    caches: ReviewCaches = field(default_factory=ReviewCaches)
    endpoints: dict[str, ReviewEndpoint] = field(init=False)

    def __post_init__(self) -> None:
        given = {"insecure": True, "claims": True, "confine_tenants": True, "rmd_backend": "auto"}
        settings = settings_of("webhook").load(given, environment=False)
        made = chains(parts_of(Context(settings, SYSTEM, self.caches)), namespace=SYSTEM)
        memo = Memo()
        self.caches.on_changed(memo.clear)
        self.endpoints = {
            name: ReviewEndpoint(name, chain, finished=_unused, proven=True, memo=memo if name == "mutate" else None)
            for name, chain in made.items()
        }
        for obj in (*_named(), *(obj for number in range(self.count) for obj in _others(number))):
            self.store(obj)
        for cached in self.caches.all:
            cached.store.mark_synced()

    def store(self, obj: JSON) -> None:
        for cached in self.caches.all:
            if cached.resource.kind == obj["kind"]:
                cached.store.upsert(obj)

    async def answer(self, asked: Asked, body: bytes) -> Answer:
        found = self.endpoints[asked.path].decide(body)
        return await found.answer if isinstance(found, Waiting) else found


@dataclass(frozen=True, slots=True)
class Slope:
    """Seconds of one review by size, in each round."""

    asked: Asked
    seconds: dict[int, list[float]]

    def least(self, size: int) -> float:
        """Of the rounds, as other work only adds to the time."""
        return min(self.seconds[size])

    def nanoseconds(self, size: int) -> float:
        """For each of so many objects."""
        return (self.least(size) - self.least(min(self.seconds))) / size * 1e9


def measure(progress: Progress, *, sizes: Sequence[int] = SIZES, rounds: int = _ROUNDS) -> list[Slope]:
    """Raises MeasureError for a review that is answered otherwise than it should be."""
    webhooks = []
    for size in sizes:
        progress(f"retained: a webhook with {size:,} objects of each kind")
        webhooks.append(Webhook(size))
    gc.collect()
    gc.freeze()  # this and the thresholds as in the webhook when its caches are filled
    usual = gc.get_threshold()
    gc.set_threshold(20_000, 20, 20)
    progress(f"retained: {rounds} rounds of each review")
    try:
        return asyncio.run(_slopes(webhooks, rounds))
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


async def _slopes(webhooks: Sequence[Webhook], rounds: int) -> list[Slope]:
    slopes = [Slope(asked, {webhook.count: [] for webhook in webhooks}) for asked in REVIEWS]
    for turn in range(rounds + 1):
        for slope in slopes:
            bodies = [slope.asked.body(turn * _CALLS + number) for number in range(_CALLS)]
            # Each of them is the first as often as the last.
            for webhook in webhooks if turn % 2 else reversed(webhooks):
                seconds = await _seconds(webhook, slope.asked, bodies)
                if turn:  # the first round fills what reviews keep
                    slope.seconds[webhook.count].append(seconds)
    return slopes


async def _seconds(webhook: Webhook, asked: Asked, bodies: list[bytes]) -> float:
    began = time.process_time()
    answers = [await webhook.answer(asked, body) for body in bodies]
    seconds = (time.process_time() - began) / len(bodies)
    for answer in answers:
        if answer.status != 200 or answer.decision.allowed != asked.allowed:
            raise MeasureError(f"{asked.name}: HTTP {answer.status}: {answer.decision.message}")
    return seconds


def figures_of(slopes: Sequence[Slope]) -> list[Figure]:
    """The ratios, which are kept, and what follows from them for each object."""
    found = []
    for slope in slopes:
        few, *_, many = slope.seconds
        name = f"{slope.asked.name}: with {many:,} retained objects of each kind / with {few:,}"
        # Objects make no review cheaper: what is below 1 is noise, by which no later run shall be measured.
        found.append(Figure(name, max(1.0, slope.least(many) / slope.least(few)), RATIO_GOAL, "less"))
        for size in list(slope.seconds)[1:]:
            name = f"{slope.asked.name}: for each of {size:,} retained objects"
            found.append(Figure(name, max(0.0, slope.nanoseconds(size)), None, "less", unit="ns"))
    return found


def _unused(_outcome: object) -> None:
    raise AssertionError("these reviews are decided, and not served")


def _named() -> Iterator[JSON]:
    """What the reviews name."""
    for name in (TEAM, "default"):
        yield NAMESPACES.body({"name": name, "labels": {}})
    for name in ("foo", "bar"):
        yield claim_reviews.attachment(name, namespace=TEAM, resource=f"example.com/{name}")
    yield claim_reviews.attachment("classy", namespace=TEAM, device_class="vf.example.com")
    yield claim_reviews.device_class("vf.example.com", "example.com/vf")
    yield attachment("lan", "10.0.0.0/8", namespace=TEAM)
    interfaces = (
        attached("net1", "10.1.2.3", SHARED, network=f"{TEAM}/lan"),
        attached("net2", SHARED, network=f"{TEAM}/own"),
    )
    yield network_pod("holder", *interfaces, namespace=TEAM)
    yield rmd_reviews.node("n", "11", pool="one")


def _others(number: int) -> Iterator[JSON]:
    """One object of each kind. All claims and Pods share an address, as those of networks that are local to a node."""
    namespace, name = f"ns-{number % _OTHERS}", f"other-{number}"
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    yield NAMESPACES.body({"name": name, "labels": {"berth.dev/tenant": f"t{number}"}})
    yield attachment(f"lan-{number}", "10.0.0.0/8", namespace=namespace)
    # Every second one is on a network of its own, the others are on the one that the reviewed claims are on.
    network = f"{TEAM}/lan" if number % 2 else f"{namespace}/lan-{number}"
    yield network_pod(name, attached("net1", address, SHARED, network=network), namespace=namespace)
    entry = claim_statuses.entry("vf0", interfaceName="net1", ips=[f"{address}/8", f"{SHARED}/8"])
    yield claim_statuses.claim(name, entry, pods=(name,), namespace=namespace)
    yield claim_reviews.template(name, "vf.example.com", namespace=namespace)
    yield claim_reviews.device_class(f"class-{number}.example.com")
    yield rmd_reviews.node(name, "11")


def _body(kind: Resource, obj: JSON, *, old: JSON | None = None, subresource: str = "") -> bytes:
    metadata = obj["metadata"]
    request: dict[str, Any] = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "subResource": subresource,
        "name": metadata["name"],
        "namespace": TEAM,
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


def _pod(networks: str) -> Callable[[int], bytes]:
    """No two are alike, so that none is answered from the memo."""
    return lambda number: _body(PODS, claim_reviews.pod(networks, {"name": f"c{number}"}))


def _replica(number: int) -> bytes:
    pod = claim_reviews.pod("foo,bar")
    return _body(PODS, {**pod, "metadata": {**pod["metadata"], "name": f"p-{number}"}})


def _cache_ways(number: int) -> bytes:
    return _body(PODS, rmd_reviews.pod(rmd_reviews.container(f"c{number}")))


def _attachment(number: int) -> bytes:
    return _body(NETWORK_ATTACHMENTS, attachment(f"new-{number}", "10.0.0.0/8", namespace=TEAM))


def _app_wrapper(number: int) -> bytes:
    wrapper = app_wrapper("w", wrapped_pod("p"))
    changed = {**wrapper, "metadata": {**wrapper["metadata"], "labels": {"turn": str(number)}}}
    return _body(APP_WRAPPERS, changed, old=wrapper)


def _made_from_a_class(number: int) -> bytes:
    """As it comes again after its injection, with a container that asks for devices itself."""
    amounts = {"requests": {"example.com/vf": "1"}, "limits": {"example.com/vf": "1"}}
    pod = claim_reviews.pod("foo", {"name": f"c{number}", "resources": amounts})
    claims = [{"name": "nic", "resourceClaimTemplateName": class_template("vf.example.com")}]
    return _body(PODS, {**pod, "spec": {**pod["spec"], "resourceClaims": claims}})


def _rmd_workload(number: int) -> bytes:
    workload = rmd_reviews.workload(f"w{number}", TEAM, coreIds=[str(number % 8)], nodeSelector={"pool": "one"})
    return _body(RMD_WORKLOADS, workload | {"spec": workload["spec"] | {"rdt": {"cache": {"max": 1, "min": 1}}}})


def _claim_status(interface: str, address: str) -> Callable[[int], bytes]:
    return lambda number: _status_of(interface, address, number)


def _status_of(interface: str, address: str, number: int) -> bytes:
    entry = claim_statuses.entry(f"vf{number}", interfaceName=interface, ips=[f"{address}/8"])
    claim = claim_statuses.claim("c", entry, pods=("holder",), namespace=TEAM)
    old = {**claim, "status": {**claim["status"], "devices": []}}
    return _body(RESOURCE_CLAIMS, claim, old=old, subresource="status")


REVIEWS = (
    Asked("Pod with networks", "mutate", _pod("foo,bar")),
    Asked("Pod with networks, a replica", "mutate", _replica),
    Asked("Pod with a network that is a claim", "mutate", _pod("classy")),
    Asked("Pod with a claim for a DeviceClass", "mutate", _made_from_a_class),
    Asked("Pod with a network that does not exist", "mutate", _pod("none"), allowed=False),
    Asked("Pod with cache ways", "validate", _cache_ways),
    Asked("NetworkAttachmentDefinition", "validate", _attachment),
    Asked("AppWrapper, defaults", "mutate", _app_wrapper),
    Asked("AppWrapper", "validate", _app_wrapper),
    Asked("RmdWorkload with a node selector", "validate", _rmd_workload),
    Asked("status of a claim", "validate", _claim_status("net1", "10.1.2.3")),
    Asked("status of a claim, an address of all", "validate", _claim_status("net1", SHARED)),
    Asked("status of a claim, an address of other networks", "validate", _claim_status("net2", SHARED)),
)
