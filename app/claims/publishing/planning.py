"""What the network data of the devices of a Pod is. Pure."""

from __future__ import annotations

from app.claims.publishing.model import Inputs, Planned


def plan_pod(inputs: Inputs) -> Planned:
    """The network data of each device of the Pod's claims, whatever is written already; never raises.

    Every device of the claims of the Pod has network data or a reason why it has none.
    """
    raise NotImplementedError
