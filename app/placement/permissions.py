"""What injection into Pods, and confinement of tenants' Pods, need at an API server: webhooks and permissions."""

from __future__ import annotations

from dataclasses import replace

from app.admission.pods import INJECT
from app.placement.model import DPU_OF_HOST, OF_TENANT_BY_NAME, TENANT_LABEL
from app.wiring import (
    CONFINED,
    EXEMPT,
    NEVER_ASKED,
    READ,
    Condition,
    Permission,
    Permissions,
    Requirement,
    Term,
    Webhook,
)

ASKS = (DPU_OF_HOST, Term(OF_TENANT_BY_NAME, when=CONFINED))
_OPTED_OUT = (
    f"has(object.metadata.labels) && '{INJECT}' in object.metadata.labels"
    f" && object.metadata.labels['{INJECT}'] == 'false'"
)
_NOT_OPTED_OUT = Requirement(INJECT, "NotIn", ("false",))
WEBHOOKS = (
    Webhook(
        "pods",
        "pods",
        values="pods",
        # Where tenants are confined, their labeled namespaces have the second webhook.
        namespaces=(EXEMPT, _NOT_OPTED_OUT, Requirement(TENANT_LABEL, "DoesNotExist", when=CONFINED)),
        objects=(replace(_NOT_OPTED_OUT, when=f"!{CONFINED}"),),
        conditions=(
            Condition("asks-for-something"),
            # In place of the selector, which cannot match the beginning of a namespace's name: in a tenant's namespace
            # that has lost its label, too, no Pod can opt out. Without conditions the webhook itself decides.
            Condition("has-not-opted-out", (Term(f"!({_OPTED_OUT})"), Term(OF_TENANT_BY_NAME)), when=CONFINED),
        ),
        when="webhook.webhooks.pods.enabled",
    ),
    # No opt-out and no conditions: a tenant cannot take its Pods off the tenant's DPUs.
    Webhook(
        "tenant-pods",
        "pods",
        values="tenantPods",
        namespaces=(Requirement(TENANT_LABEL, "Exists"), NEVER_ASKED),
        when=CONFINED,
    ),
)

PERMISSIONS: Permissions = {"webhook": (Permission("cluster", "", ("namespaces",), READ, when="confine_tenants"),)}
