"""What the wing needs at an API server: reviews and permissions."""

from __future__ import annotations

from app.claims.changes import CHANGES_NETWORK_DATA, NOT_DELETED
from app.kube.resources import RESOURCE_CLAIMS
from app.wiring import EXEMPT, Condition, Permission, Permissions, ReviewRule, Term, Webhook

STATUS_REVIEW = ReviewRule(
    "claim-status", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.version, (f"{RESOURCE_CLAIMS.plural}/status",), ("UPDATE",)
)
REVIEWS = (STATUS_REVIEW,)
SERVED = "webhook.args.claims"
WEBHOOKS = (
    Webhook(
        "claim-status",
        "claim-status",
        values="claims",
        namespaces=(EXEMPT,),
        conditions=(
            Condition("changes-network-data", (Term(CHANGES_NETWORK_DATA),)),
            Condition("not-deleted", (Term(NOT_DELETED),)),
        ),
        when=SERVED,
    ),
)
_ADMISSION = (
    Permission("cluster", RESOURCE_CLAIMS.group, (RESOURCE_CLAIMS.plural,), ("list", "watch"), when="claims"),
    Permission("cluster", "", ("pods",), ("list", "watch"), when="claims"),
)
"""What the webhook needs: the addresses and interfaces of claims and Pods. Attachments it reads in any case."""
PERMISSIONS: Permissions = {"webhook": _ADMISSION}
