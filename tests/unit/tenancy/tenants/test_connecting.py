"""The condition Connected: what follows from what is noted of a tenant's agent, and from the time."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.kube.controller import Result
from app.placement.model import PlacementOptions
from app.tenancy.controller.controller import TenantCaches
from app.tenancy.controller.state import TenantState, project_state
from app.tenancy.controller.status import judge
from app.tenancy.model import (
    AGENT_CONNECTED,
    AGENT_SILENT,
    CERTIFICATE_REFUSED,
    CLUSTER,
    CLUSTER_TAKEN,
    MOVED,
    NO_CONTACT,
    OTHER_CLUSTER,
    SUSPENDED,
    Link,
    holder_of,
    link_of,
)
from app.text import stamp
from tests.support.kits import offline_kit
from tests.support.tenants import tenant

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return stamp(NOW - timedelta(seconds=seconds))


def refusal(seconds: float, reason: str = CERTIFICATE_REFUSED, **more: str) -> dict[str, Any]:
    return {"time": ago(seconds), "reason": reason, "message": "as it was said", **more}


def state(*, cluster: str = "", spec: Any = None, **status: Any) -> TenantState:
    obj = tenant("tenant1", **(spec or {}))
    obj["metadata"]["annotations"] = {CLUSTER: cluster} if cluster else {}
    return project_state(obj | {"status": status})


PINNED = {"identity": {"names": ["n"], "certificates": [{"sha256": "a" * 64, "until": ago(1)}]}}


@pytest.mark.parametrize(
    ("noted", "truth", "reason"),
    [
        (state(), "Unknown", NO_CONTACT),
        (state(lastContact=ago(0)), "True", AGENT_CONNECTED),
        (state(lastContact=ago(119)), "True", AGENT_CONNECTED),
        (state(lastContact=ago(120)), "False", AGENT_SILENT),
        (state(lastContact=ago(-30)), "True", AGENT_CONNECTED),
        (state(lastContact=ago(-119)), "True", AGENT_CONNECTED),
        (state(lastContact=ago(-121)), "Unknown", NO_CONTACT),
        (state(lastContact="9999-12-31T23:59:59Z"), "Unknown", NO_CONTACT),
        (state(lastContact="9999-12-31T23:59:59Z", lastRefusal=refusal(1)), "False", CERTIFICATE_REFUSED),
        (state(lastContact="0001-01-01T00:00:00+23:59"), "False", AGENT_SILENT),
        (state(lastRefusal=refusal(0)), "False", CERTIFICATE_REFUSED),
        (state(lastContact=ago(60), lastRefusal=refusal(1)), "True", AGENT_CONNECTED),
        (state(lastContact=ago(130), lastRefusal=refusal(1)), "False", CERTIFICATE_REFUSED),
        (state(lastContact=ago(130), lastRefusal=refusal(131)), "False", AGENT_SILENT),
        (state(lastRefusal=refusal(1, OTHER_CLUSTER)), "False", OTHER_CLUSTER),
        (state(lastContact=ago(1), spec={"suspended": True}), "False", SUSPENDED),
        (state(spec=PINNED, lastContact=ago(130)), "False", CERTIFICATE_REFUSED),
        (state(lastContact="yesterday", lastRefusal="no"), "Unknown", NO_CONTACT),
        (state(cluster="one", lastContact=ago(1)), "True", AGENT_CONNECTED),
        (state(cluster="two", lastContact=ago(1)), "False", CLUSTER_TAKEN),
        (state(lastRefusal=refusal(1, CLUSTER_TAKEN, cluster="two")), "False", CLUSTER_TAKEN),
        (state(lastRefusal=refusal(299, CLUSTER_TAKEN, cluster="two")), "False", CLUSTER_TAKEN),
        (state(lastRefusal=refusal(300, CLUSTER_TAKEN, cluster="two")), "Unknown", NO_CONTACT),
        (state(lastContact=ago(400), lastRefusal=refusal(300, CLUSTER_TAKEN, cluster="two")), "False", AGENT_SILENT),
        (state(lastRefusal=refusal(1, CLUSTER_TAKEN, cluster="free")), "Unknown", NO_CONTACT),
        (state(lastRefusal=refusal(1, CLUSTER_TAKEN, cluster="one")), "Unknown", NO_CONTACT),
    ],
)
def test_what_follows_from_what_is_noted(noted: TenantState, truth: str, reason: str) -> None:
    holders = {"one": "tenant1", "two": "tenant2"}
    found = judge(noted, holder_of=lambda cluster: holders.get(cluster, ""), now=NOW)
    assert (found.truth, found.reason) == (truth, reason)
    assert found.message


def test_messages_say_what_an_operator_needs() -> None:
    none = lambda _: ""  # noqa: E731
    refused = judge(state(lastRefusal=refusal(1)), holder_of=none, now=NOW)
    assert refused.message == "the gateway refuses the agent: as it was said"
    silent = judge(state(lastContact=ago(600)), holder_of=none, now=NOW)
    assert f"last contact {ago(600)}" in silent.message
    taken = judge(state(cluster="two"), holder_of=lambda _: "tenant2", now=NOW)
    assert "belongs to tenant tenant2" in taken.message
    assert "berth tenant add tenant1 --move tenant2" in taken.message


def test_a_condition_does_not_change_with_each_contact() -> None:
    """Else the status of each Tenant would be written once more a minute."""
    earlier = judge(state(lastContact=ago(60)), holder_of=lambda _: "", now=NOW)
    later = judge(state(lastContact=ago(0)), holder_of=lambda _: "", now=NOW)
    assert earlier.shown == later.shown
    assert (earlier.until, later.until) == (60, 120)


def test_a_cluster_that_changes_hands_concerns_those_it_is_noted_on_and_those_refused_for_it() -> None:
    """They are found by an index: at a start each of thousands of Tenants would otherwise be compared with all."""
    kit, links = offline_kit(), set[Hashable]()
    caches = TenantCaches(kit, PlacementOptions(), ())
    controller = kit.reconcile("links", never, keys=tuple, wakes=caches.links_woken())
    controller.enqueue = links.add  # type: ignore[method-assign]
    caches.claims.tenants.values = None
    about = {"lastRefusal": refusal(1, CLUSTER_TAKEN, cluster="c")}
    made = {"noted": ("c", {}), "refused": ("", about), "other": ("d", {})}
    for name, (cluster, status) in made.items():
        caches.claims.tenants.upsert(of(name, cluster) | {"status": status})
    links.clear()
    caches.claims.tenants.upsert(of("new", "c"))
    assert links == {"new", "noted", "refused"}


async def never(key: Hashable) -> Result:
    raise AssertionError(key)


def of(name: str, cluster: str) -> dict[str, Any]:
    obj: dict[str, Any] = tenant(name)
    obj["metadata"] |= {"uid": name, "annotations": {CLUSTER: cluster} if cluster else {}}
    return obj


def test_a_refusal_in_the_cluster_of_another_passes_without_a_change_of_an_object() -> None:
    """The agent there has the bundle of the other tenant again, and nothing more comes of this one."""
    noted = state(lastRefusal=refusal(60, CLUSTER_TAKEN, cluster="two"))
    assert judge(noted, holder_of=lambda _: "tenant2", now=NOW).until == 240


def test_which_tenant_has_a_cluster() -> None:
    moved = link_of({"metadata": {"annotations": {CLUSTER: "c", MOVED: ago(9)}, "creationTimestamp": ago(1)}})
    again = link_of({"metadata": {"annotations": {CLUSTER: "c", MOVED: ago(5)}, "creationTimestamp": ago(0)}})
    old, new = Link("c", created=ago(50)), Link("c", created=ago(40))
    assert holder_of("c", []) == ""
    assert holder_of("", [("a", Link())]) == ""
    assert holder_of("c", [("a", new), ("b", old), ("d", Link("other"))]) == "b"
    assert holder_of("c", [("b", old), ("a", old)]) == "a"
    assert holder_of("c", [("a", new), ("b", old), ("m", moved)]) == "m"
    assert holder_of("c", [("a", new), ("m", moved), ("n", again)]) == "n"
