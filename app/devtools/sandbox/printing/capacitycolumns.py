"""Cells of quotas, budgets and claims, as the real API server prints them. Pure functions of one object."""

from __future__ import annotations

from collections.abc import Callable

from app.wire import JSON

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS = "volume.beta.kubernetes.io/storage-class"


def quota_cells(*, limits: bool) -> Callable[[JSON, float], str]:
    """What is used of what a quota allows: of limits, or of everything else."""

    def read(quota: JSON, _: float) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = sorted(name for name in hard if name.startswith("limits.") == limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


def budget_bound(name: str) -> Callable[[JSON, float], str]:
    """A bound of a PodDisruptionBudget, which may be a percentage."""
    return lambda budget, _: str((budget.get("spec") or {}).get(name, "N/A"))


def claim_state(claim: JSON, _: float) -> str:
    """Where a claim is: pending, allocated, reserved for consumers, or on its way out."""
    deleted, status = bool(claim["metadata"].get("deletionTimestamp")), claim.get("status") or {}
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def volume_phase(claim: JSON, _: float) -> str:
    if claim["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str((claim.get("status") or {}).get("phase", ""))


def volume_capacity(claim: JSON, _: float) -> str:
    """Of the volume that the claim is bound to."""
    status = claim.get("status") or {}
    return str((status.get("capacity") or {}).get("storage", "0")) if _is_bound(claim) else ""


def volume_modes(claim: JSON, _: float) -> str:
    modes = (claim.get("status") or {}).get("accessModes") or []
    return ",".join(short for mode, short in _MODES.items() if mode in modes) if _is_bound(claim) else ""


def volume_class(claim: JSON, _: float) -> str:
    named = (claim["metadata"].get("annotations") or {}).get(_CLASS)
    return str(named if named is not None else (claim.get("spec") or {}).get("storageClassName", ""))


def _is_bound(claim: JSON) -> bool:
    return bool((claim.get("spec") or {}).get("volumeName"))
