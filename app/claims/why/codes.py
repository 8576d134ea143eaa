"""Codes of the check `claims` for what the wing of Services judges: that check is the one of both wings. Pure."""

from __future__ import annotations

NOT_KEPT, NOT_SERVED = "BERTH5010", "BERTH5011"
WITHOUT_PODS, WITHOUT_ATTACHMENT, WITHOUT_ADDRESS = "BERTH5019", "BERTH5020", "BERTH5021"
