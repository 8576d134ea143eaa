"""The review of statuses of claims, and for which of them its webhook is called."""

from __future__ import annotations

from app.claims.changes import CHANGES_NETWORK_DATA
from app.kube.resources import RESOURCE_CLAIMS
from app.wiring import EXEMPT, Condition, ReviewRule, Term, Webhook

SERVED = "webhook.args.claims"
STATUS_REVIEW = ReviewRule(
    "claim-status", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.version, (f"{RESOURCE_CLAIMS.plural}/status",), ("UPDATE",)
)
STATUS_WEBHOOKS = (
    Webhook(
        "claim-status",
        "claim-status",
        values="claims",
        namespaces=(EXEMPT,),
        conditions=(Condition("changes-network-data", (Term(CHANGES_NETWORK_DATA),)),),
        when=SERVED,
        proven=True,
    ),
)
