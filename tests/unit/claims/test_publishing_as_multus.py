"""The planner against Multus: whatever Multus attached, no device gets the interface of another one.

Multus is modelled after `getKubernetesDelegate` and `draclient` of multus-cni, and `CreateNetworkStatuses` of
network-attachment-definition-client. The model knows which device is behind which interface; the planner sees what Multus
publishes of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from app.claims.model import DEVICE_ID, NETWORK_STATUS, RESOURCE_NAME
from app.claims.publishing.model import Inputs, stored_attachment
from app.claims.publishing.planning import plan_pod
from app.claims.slices import stored_slice
from app.claims.stored import stored_claim, stored_pod
from app.networks.model import NETWORKS

FEW = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FOO, BAR = "example.com/foo", "example.com/bar"
NETWORK_OF = {"red": FOO, "green": FOO, "blue": BAR, "plain": ""}
DRIVER, GPU = "vf.example.com", "gpu.example.com"


@dataclass
class Card:
    """A device of the Pod. `route` says by which claim, or "plugin" for one of a device plugin."""

    name: str
    route: str
    resource: str
    id: str
    has_id: bool
    sliced: bool
    driver: str = DRIVER


@dataclass
class Choice:
    network: str
    interface: str
    device_id: str
    entries: int
    main: int
    tells: bool
    card: Card | None = None
    names: list[str] = field(default_factory=list)


@dataclass
class World:
    cards: list[Card]
    choices: list[Choice]

    def attach(self) -> bool:
        """Whether the Pod starts: an attachment with a resource fails without a device.

        On one node a device plugin or DRA serves an extended resource, never both.
        """
        routes = {(card.route, card.resource) for card in self.cards}
        if any(("plugin", resource) in routes and ("extended", resource) in routes for resource in (FOO, BAR)):
            return False
        ids: dict[str, list[Card]] = {}
        for card in self.cards:
            if card.route == "plugin" or (card.route != "direct" and card.has_id and card.sliced and card.resource):
                ids.setdefault(card.resource, []).append(card)
        for found in ids.values():
            found.sort(key=lambda one: one.id)
        used: dict[str, int] = {}
        for number, choice in enumerate(self.choices, start=1):
            resource = NETWORK_OF[choice.network]
            index = used.get(resource, 0)
            if resource and index < len(ids.get(resource, [])):
                choice.card, used[resource] = ids[resource][index], index + 1
            elif choice.device_id:
                choice.card = next((card for card in self.cards if card.id == choice.device_id), None)
            if resource and choice.card is None and not choice.device_id:
                return False
            main = choice.interface or f"net{number}"
            choice.names = [main if index == choice.main else f"aux{number}-{index}" for index in range(choice.entries)]
        cards = [id(choice.card) for choice in self.choices if choice.card is not None]
        names = [name for choice in self.choices for name in choice.names]
        return len(cards) == len(set(cards)) and len(names) == len(set(names))

    def inputs(self) -> Inputs:
        elements = [
            {"name": one.network}
            | ({"interface": one.interface} if one.interface else {})
            | ({"deviceID": one.device_id} if one.device_id else {})
            for one in self.choices
        ]
        status: list[Any] = [{"name": "cluster", "interface": "eth0", "default": True}]
        for one in self.choices:
            told = (
                {"device-info": {"type": "pci", "pci": {"pci-address": one.card.id}}} if one.card and one.tells else {}
            )
            status += [{"name": f"ns/{one.network}", "interface": name, "ips": [], **told} for name in one.names]
        plugins = {card.resource: "1" for card in self.cards if card.route == "plugin"}
        extended = [card for card in self.cards if card.route == "extended"]
        pod = {
            "metadata": {
                "namespace": "ns",
                "name": "app",
                "uid": "u",
                "annotations": {NETWORKS: json.dumps(elements), NETWORK_STATUS: json.dumps(status)},
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"resources": {"limits": plugins}}],
                "resourceClaims": [
                    {"name": "template", "resourceClaimTemplateName": "t"},
                    {"name": "direct", "resourceClaimName": "direct"},
                ],
            },
            "status": {
                "resourceClaimStatuses": [{"name": "template", "resourceClaimName": "template"}],
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "extended",
                    "requestMappings": [{"requestName": one.name, "resourceName": one.resource} for one in extended],
                },
            },
        }
        projected = stored_pod(pod)
        assert projected is not None
        attachments = [
            {
                "metadata": {
                    "namespace": "ns",
                    "name": name,
                    "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {},
                }
            }
            for name, resource in NETWORK_OF.items()
        ]
        return Inputs(
            projected,
            tuple(stored_claim(self._claim(route)) for route in ("template", "direct", "extended")),
            tuple(stored_slice(self._slice(card)) for card in self.cards if card.route != "plugin" and card.sliced),
            {one.key: one for one in map(stored_attachment, attachments)},
        )

    def _claim(self, route: str) -> Any:
        cards = [card for card in self.cards if card.route == route]
        owner = {"kind": "Pod", "name": "app", "uid": "u", "controller": True, "apiVersion": "v1"}
        results = [{"request": one.name, "driver": one.driver, "pool": one.name, "device": "d"} for one in cards]
        return {
            "metadata": {
                "namespace": "ns",
                "name": route,
                "uid": route,
                "ownerReferences": [] if route == "direct" else [owner],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}
                if route == "extended"
                else {},
            },
            "status": {
                "reservedFor": [{"resource": "pods", "name": "app", "uid": "u"}],
                "allocation": {"devices": {"results": results}},
            },
        }

    def _slice(self, card: Card) -> Any:
        attributes = {}
        if card.has_id:
            attributes[DEVICE_ID] = {"string": card.id}
        if card.resource:
            attributes[RESOURCE_NAME] = {"string": card.resource}
        pool = {"name": card.name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "d", "attributes": attributes}]
        return {
            "metadata": {"name": card.name},
            "spec": {"driver": card.driver, "nodeName": "n1", "pool": pool, "devices": devices},
        }


@st.composite
def worlds(draw: st.DrawFn, *, plain: bool) -> World:
    """A plain world has what Multus needs to know, and one interface for each attachment."""
    ids = draw(st.permutations([f"0000:3b:02.{number}" for number in range(8)]))
    cards = []
    for number in range(draw(st.integers(1, 4))):
        routes = ["template", "extended"] if plain else ["template", "extended", "direct", "plugin"]
        route = draw(st.sampled_from(routes))
        # Multus starts no Pod with a device of an extended resource that it does not find.
        sure = plain or route in ("extended", "plugin")
        cards.append(
            Card(
                f"card{number}",
                route,
                draw(st.sampled_from([FOO, BAR, FOO] if sure else [FOO, BAR, ""])),
                ids[number],
                has_id=sure or draw(st.integers(0, 3)) > 0,
                sliced=sure or draw(st.integers(0, 3)) > 0,
            )
        )
    if draw(st.booleans()):
        cards.append(Card("gpu", "template", "", ids[6], has_id=False, sliced=draw(st.booleans()), driver=GPU))
    choices = []
    for number in range(draw(st.integers(1, 4))):
        entries = 1 if plain else draw(st.sampled_from([1, 1, 1, 0, 2, 3]))
        choices.append(
            Choice(
                draw(st.sampled_from(list(NETWORK_OF))),
                draw(st.sampled_from(["", f"if{number}"])),
                draw(st.sampled_from(["", "", *(card.id for card in cards if card.driver == DRIVER), "0000:af:00.0"])),
                entries,
                draw(st.integers(0, max(entries - 1, 0))),
                tells=draw(st.booleans()),
            )
        )
    return World(cards, choices)


def found_in(world: World) -> dict[str, str]:
    """The interface that the planner gives to each device."""
    planned = plan_pod(world.inputs())
    return {device.pool: one.interface for found in planned.data.values() for device, one in found.items()}


@FEW
@given(world=worlds(plain=False))
def test_no_device_gets_the_interface_of_another(world: World) -> None:
    """What is not known is left out, and never guessed."""
    if not world.attach():
        return
    found = found_in(world)
    event("published" if found else "nothing published")
    truth = {one.card.name: one.names[one.main] for one in world.choices if one.card and one.names}
    assert {name: truth.get(name) for name in found} == found


@FEW
@given(world=worlds(plain=True))
def test_each_device_that_multus_attached_is_published(world: World) -> None:
    if not world.attach():
        return
    truth = {one.card.name: one.names[one.main] for one in world.choices if one.card is not None}
    assert found_in(world) == truth
