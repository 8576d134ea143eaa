"""What a daemon finds that starts on a database and on classes of service that are already there."""

from __future__ import annotations

from collections.abc import Iterable

from app.devtools.rmd.classes import Classes
from app.devtools.rmd.failures import RefusedStart
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload


def restarted(classes: Classes, kept: Iterable[Workload], machine: Machine) -> Classes:
    """The classes of a daemon that starts with these records. Raises RefusedStart where they do not fit the machine.

    Which class is that of the shared pool is forgotten, and two records with one class do not fit, as in the daemon.
    """
    found = classes.restarted(machine)
    for one in kept:
        if (one.percentage is not None and machine.mba != "percentage") or (
            one.mbps is not None and machine.mba != "mbps"
        ):
            raise RefusedStart(
                "Workload in database contains MBA setting (percentage) not compatible with current configuration "
                f"({machine.mba})"
            )
        if one.cos_name and not found.mark_used(one.cos_name):
            raise RefusedStart(
                f"Problem with CLOS of workload from database: CLOS {one.cos_name} not found on available list"
            )
    return found
