"""What AppWrappers add to the settings of the webhook and of the controller."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import field_validator

from app.settings.source import DnsSubdomain, Flag, Items, RoleSettings

_PANEL = "AppWrappers"
_KIND = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")
_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
WRAPPED_KINDS = (
    "pods",
    "services",
    "deployments.apps",
    "statefulsets.apps",
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "podgroups.scheduling.sigs.k8s.io",
    "podgroups.scheduling.x-k8s.io",
    "pytorchjobs.kubeflow.org",
    "rayclusters.ray.io",
    "rayjobs.ray.io",
)


class ConfigSettings(RoleSettings):
    """`appwrapper_config` is the name of the ConfigMap, in the namespace of the role."""

    appwrapper_config: Annotated[
        DnsSubdomain, Flag("ConfigMap with the configuration of AppWrappers, in the role's namespace", _PANEL)
    ] = "appwrapper-operator-config"


class AdmissionSettings(ConfigSettings):
    """Whether AppWrappers are reviewed, and whether users are asked for more than their peers ask."""

    appwrappers: Annotated[bool, Flag("Review AppWrappers", _PANEL)] = False
    appwrapper_strict: Annotated[
        bool,
        Flag(
            "Require more rights of the creator of an AppWrapper (delete, and create pods), check them again when it "
            "is resumed, require the same of who changes what runs, and let only users with the verb admit change "
            "spec.suspend and podSetInfos of one with a queue",
            _PANEL,
        ),
    ] = False

    appwrapper_controller: Annotated[
        str,
        Flag(
            "Service account of the controller of AppWrappers, as NAMESPACE/NAME: users get a warning about rights "
            "that it lacks",
            _PANEL,
        ),
    ] = ""

    @field_validator("appwrapper_controller")
    @classmethod
    def _account(cls, value: str) -> str:
        if value and not _ACCOUNT.fullmatch(value):
            raise ValueError(f"want NAMESPACE/NAME, got {value!r}")
        return value


class WrappedKindsSettings(ConfigSettings):
    """`wrapped_kinds` are those that the controller may write, as PLURAL.GROUP; one without a group is a core kind."""

    wrapped_kinds: Annotated[
        Items,
        Flag(
            "Comma list of PLURAL.GROUP, the kinds that AppWrappers may have",
            _PANEL,
            default=f"{WRAPPED_KINDS[0]} and {len(WRAPPED_KINDS) - 1} others",
        ),
    ] = WRAPPED_KINDS

    appwrapper_impersonation: Annotated[
        Literal["off", "constrained", "legacy"],
        Flag(
            "Create the objects of AppWrappers as the user who created the AppWrapper, so that admission and audit see "
            "this user: off, constrained (rights to impersonate for nothing but the creation of wrapped kinds; "
            "Kubernetes 1.36 or newer) or legacy (rights to impersonate any user for any request); "
            "wants strict admission",
            _PANEL,
        ),
    ] = "off"

    @field_validator("wrapped_kinds")
    @classmethod
    def _kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            if not _KIND.fullmatch(item):
                raise ValueError(f"want PLURAL.GROUP, such as jobs.batch, or the plural of a core kind, got {item!r}")
        return tuple(dict.fromkeys(value))
