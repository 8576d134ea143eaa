"""All checks, in the order in which a person would go through a cluster. A check is entered here and nowhere else."""

from __future__ import annotations

from app.doctor.attachments import BrokenAttachments
from app.doctor.certificate import CertificateCheck
from app.doctor.clock import Clock
from app.doctor.companions import Companions
from app.doctor.definitions import Definitions
from app.doctor.deployments import Deployments
from app.doctor.leases import Leases
from app.doctor.model import Check
from app.doctor.permissions import Permissions
from app.doctor.pods import Pods
from app.doctor.reachability import Reachability
from app.doctor.registrations import Registrations
from app.doctor.rules import Rules
from app.doctor.switches import ControlSwitches
from app.doctor.tenants import Tenants

CHECKS: tuple[Check, ...] = (
    Clock(),
    Definitions(),
    Deployments(),
    Leases(),
    Registrations(),
    CertificateCheck(),
    Reachability(),
    Permissions(),
    ControlSwitches(),
    BrokenAttachments(),
    Pods(),
    Tenants(),
    Rules(),
    Companions(),
)
