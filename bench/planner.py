"""`python -m bench.planner`: how dear a decision is without any server, as multiples of `json.loads` of the same bytes.

Three stages of the real chain (decode the review, plan the injection, encode the answer), attachments from a cache.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from app.admission.chain import Chain, Reviewed
from app.admission.decision import encode
from app.admission.review import decode
from app.kube.lookup import Lookup
from app.kube.resources import NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.networks.model import RESOURCE_NAME, Attachment, project
from app.networks.settings import Switches
from app.networks.webhook import NetworksInjector
from app.wire import JSON
from bench import reviews
from bench.surroundings import RESOURCES, attachment

_REPEATS = 9


@dataclass(frozen=True, slots=True)
class Cost:
    """Multiples of the time that `json.loads` takes for the review."""

    review: str
    decode: float
    plan: float
    encode: float

    @property
    def total(self) -> float:
        return self.decode + self.plan + self.encode


def cost(name: str, *, calls: int = 2000) -> Cost:
    """Time the stages for the review of that name; the best of some repeats, which noise cannot improve."""
    body = reviews.recorded(name)
    chain = Chain(injectors=[NetworksInjector(_attachments(), switches=Switches)])
    review = decode(body)
    decision, _ = _decided(chain.review(review.request))
    version, uid = review.api_version, review.request.uid
    unit = _seconds(lambda: json.loads(body), calls)
    return Cost(
        name,
        decode=_seconds(lambda: decode(body), calls) / unit,
        plan=_seconds(lambda: _decided(chain.review(review.request)), calls) / unit,
        encode=_seconds(lambda: encode(decision, api_version=version, uid=uid), calls) / unit,
    )


def main() -> None:
    table = Table(title="A decision without a server, json.loads of the review = 1", title_justify="left")
    for column in ("review", "decode", "plan", "encode", "together"):
        table.add_column(column, justify="left" if column == "review" else "right")
    for found in map(cost, reviews.NAMES):
        stages = (found.decode, found.plan, found.encode, found.total)
        table.add_row(found.review, *(f"{value:.2f}" for value in stages))
    Console().print(table)


def _attachments() -> Lookup[Attachment]:
    def projected(obj: JSON) -> Attachment:
        return project(obj, (RESOURCE_NAME,))

    store: Store[Attachment] = Store(projected)
    for name, resource in RESOURCES.items():
        store.upsert(attachment("default", name, resource))
    store.mark_synced()
    return Lookup(NETWORK_ATTACHMENTS, store, projected, client=lambda: None, called="attachment")


def _decided(found: Reviewed | object) -> Reviewed:
    """A decision that had nothing to wait for, so that no loop has a share in the time."""
    if not isinstance(found, Reviewed):
        raise RuntimeError("the decision waits for something: an attachment is not in the cache")  # noqa: TRY004
    return found


def _seconds(call: Callable[[], object], calls: int) -> float:
    return min(timeit.repeat(call, repeat=_REPEATS, number=calls)) / calls


if __name__ == "__main__":
    main()
