"""Goldens of network data: a Pod and the objects around it as manifests, and what is planned for its devices."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from app.claims.publishing.caches import PublishingCaches
from app.claims.publishing.model import Inputs, NetworkData, Planned, stored_attachment
from app.claims.publishing.planning import plan_pod
from app.claims.slices import stored_slice
from app.claims.stored import stored_claim, stored_pod
from app.kube.store import Key, Store
from app.networks.model import RESOURCE_NAME
from app.wire import JSON, load_yaml
from tests.support.kits import offline_kit, waking

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.yaml"))


def planned(case: JSON) -> Planned:
    pod = stored_pod(case["pod"])
    assert pod is not None
    attachments = [stored_attachment(one) for one in case["attachments"]]
    return plan_pod(
        Inputs(
            pod=pod,
            claims=tuple(stored_claim(one) for one in case["claims"]),
            slices=tuple(stored_slice(one) for one in case["slices"]),
            attachments={one.key: one for one in attachments},
            unconfined=case.get("unconfined", ()),
        )
    )


def shown(data: NetworkData) -> JSON:
    more: dict[str, Any] = {
        "unknownPrefixes": list(data.unknown_prefixes),
        "dropped": data.dropped,
        "withheld": list(data.withheld),
    }
    return {"network": data.network, "networkData": data.body(), **{name: one for name, one in more.items() if one}}


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    case = load_yaml(path.read_text())
    before, expected = copy.deepcopy(case), case["expected"]
    found = planned(case)
    assert case == before
    data = {key[1]: {str(device): shown(one) for device, one in of.items()} for key, of in found.data.items()}
    assert data == expected["data"]
    assert len(found.unpublished) == len(expected["unpublished"]), found.unpublished
    for one, wanted in zip(found.unpublished, expected["unpublished"], strict=True):
        device = None if one.device is None else str(one.device)
        answer = {"claim": one.claim[1], "device": device, "reason": one.reason, "problem": one.problem}
        assert {**answer, "message": wanted["message"]} == wanted
        assert one.message.startswith(wanted["message"])


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_the_caches_have_all_that_counts(path: Path) -> None:
    """They look up a part of what there is; a plan is the same as with all of it. Each object wakes the Pod."""
    case, woken, kit = load_yaml(path.read_text()), set[Key](), offline_kit()
    caches = PublishingCaches(
        kit,
        keys=(RESOURCE_NAME,),
        home="kube-system",
        unconfined=case.get("unconfined", ()),
    )
    waking(kit, caches.wakes(), woken.add)
    caches.pods.upsert(case["pod"])
    (pod,) = caches.pods.values()
    stores: dict[str, Store[Any]]
    stores = {"claims": caches.claims, "slices": caches.slices, "attachments": caches.attachments}
    for name, store in stores.items():
        for one in case[name]:
            before = plan_pod(caches.inputs_of(pod))
            woken.clear()
            store.upsert(one)
            changes = plan_pod(caches.inputs_of(pod)) != before
            assert not changes or woken == {pod.key}, one["metadata"]["name"]
    assert plan_pod(caches.inputs_of(pod)) == planned(case)


def test_goldens_do_not_depend_on_order() -> None:
    for path in GOLDENS:
        case = load_yaml(path.read_text())
        turned = {**case, **{name: case[name][::-1] for name in ("claims", "slices", "attachments")}}
        assert planned(turned) == planned(case), path.stem
