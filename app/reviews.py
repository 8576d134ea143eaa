"""The injectors and checks of all wings, and the chains that are made of them.

The webhook, `berth explain` and `berth doctor` take them from here, so that all three decide alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.admission.chain import Chain
from app.kube.client import KubeClient
from app.kube.lookup import Cache
from app.networks.attachments import Attachments
from app.networks.checking import AttachmentCheck
from app.networks.model import Attachment
from app.networks.switches import Switches
from app.networks.webhook import NetworksInjector, NetworksOptions
from app.placement.model import PlacementOptions
from app.placement.webhook import PlacementInjector, TenantLookup
from app.tenancy.model import ADMIN_NAME
from app.tenancy.webhook import TenantCheck
from app.workloads.tenant_pods import TenantPodCheck
from app.workloads.webhook import RuleCheck

WEBHOOKS = ("mutate", "validate")


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """What reviews are decided by.

    Without `tenants` no namespace is a tenant's. `client()` is asked for what the cache of attachments lacks.
    """

    options: NetworksOptions
    placement: PlacementOptions
    attachments: Cache[Attachment]
    switches: Callable[[], Switches]
    tenants: TenantLookup | None
    client: Callable[[], KubeClient | None] = lambda: None
    admin_names: Sequence[str] = (ADMIN_NAME,)


def injectors(context: ReviewContext) -> tuple[NetworksInjector, PlacementInjector]:
    """In the order in which they run."""
    lookup = Attachments(
        context.attachments, client=context.client, resource_name_keys=context.options.resource_name_keys
    )
    return (
        NetworksInjector(lookup, switches=context.switches, options=context.options),
        PlacementInjector(context.tenants, options=context.placement),
    )


def chains(context: ReviewContext, *, namespace: str) -> dict[str, Chain]:
    """The chain of each webhook. Pods in kube-system and in Berth's own `namespace` are not changed."""
    policy = context.placement.policy
    checks = (
        AttachmentCheck(context.options.resource_name_keys),
        RuleCheck(policy),
        TenantPodCheck(context.tenants, policy),
        TenantCheck(admin_names=context.admin_names),
    )
    return {
        "mutate": Chain(injectors=injectors(context), exempt_namespaces=frozenset({"kube-system", namespace})),
        "validate": Chain(checks=checks),
    }
