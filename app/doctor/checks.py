"""All checks, in the order in which a person would look: at every cluster first, then at what each wing needs."""

from __future__ import annotations

from app.doctor.certificate import CertificateCheck
from app.doctor.clock import Clock
from app.doctor.definitions import Definitions
from app.doctor.deployments import Deployments
from app.doctor.leases import Leases
from app.doctor.model import Check
from app.doctor.permissions import Permissions
from app.doctor.reachability import Reachability
from app.doctor.registrations import Registrations
from app.registry import WINGS
from app.wiring import resolve

CHECKS: tuple[Check, ...] = (
    Clock(),
    Definitions(),
    Deployments(),
    Leases(),
    Registrations(),
    CertificateCheck(),
    Reachability(),
    Permissions(),
    *(resolve(check)() for wing in WINGS for check in wing.checks),
)
