"""Checks the network data of one device against the network of its interface, and against others on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.claims.admission.stored import Address, HeldEntry
from app.claims.format import INTERFACE_NAME, IPS
from app.claims.publishing.model import Attachment
from app.text import quoted

_SHOWN = 4
"""Subnets that a message names."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the interface of an entry.

    `network` is NAMESPACE/NAME of its attachment, "" where Multus has not named the interface; then nothing is said
    about addresses. `attachment` is None where it does not exist. `holders` say which other interface of the network
    has an address. `pod` is NAMESPACE/NAME of the Pod, and `namesake` another device of it with the same interface
    name, "" for none. `shows_subnets`: whether a message may say which subnets the attachment has.
    """

    network: str = ""
    attachment: Attachment | None = None
    shows_subnets: bool = False
    holders: Mapping[Address, str] = field(default_factory=dict)
    pod: str = ""
    namesake: str = ""


def entry_problems(entry: HeldEntry, around: Surroundings, path: str) -> Iterator[str]:
    """What contradicts the surroundings, one line each, beginning with the field below `path`.

    Link-local addresses are passed over: each link has them, and no subnet names them.
    """
    if around.namesake:
        yield (
            f"{path}.{INTERFACE_NAME}: want a name that no other device of Pod {around.pod} has, got "
            f"{quoted(entry.interface)}, which {around.namesake} has"
        )
    for index, address in enumerate(entry.addresses if around.network else ()):
        if address is None or address.is_link_local:
            continue
        where = f"{path}.{IPS}[{index}]"
        if around.attachment is not None and around.attachment.excludes(address):
            yield (
                f"{where}: want an address in a subnet of network {around.network}"
                f"{_subnets(around.attachment) if around.shows_subnets else ''}, got {address}"
            )
        if address in around.holders:
            yield (
                f"{where}: want an address that nothing else on network {around.network} has, got {address}, which "
                f"{around.holders[address]} has"
            )


def _subnets(attachment: Attachment) -> str:
    shown = ", ".join(map(str, attachment.subnets[:_SHOWN]))
    return f" ({shown}, …)" if len(attachment.subnets) > _SHOWN else f" ({shown})"
