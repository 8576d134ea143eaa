"""Descriptors: what the rest of Berth has to know of a wing and of a role.

Data alone. What a reference (`"module:name"`) names is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

Scope = Literal["cluster", "release", "system", "tenants"]
"""Where: everywhere; in the namespace of the release; in the namespace `universe`; in the namespace of each tenant."""
READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Permission:
    """These verbs on these resources of a group; with `names`, on those objects alone.

    `when` is the setting of the role that has to be on. A name `{field}` stands for the values of that setting.
    """

    scope: Scope
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    when: str = ""


Permissions = Mapping[str, tuple[Permission, ...]]
"""What a wing needs, by role."""


@dataclass(frozen=True, slots=True)
class Wing:
    """A feature: a folder of `app`, and all that the rest of Berth has to know of it.

    `permissions` is a reference to its `Permissions`. `roles` are those that exist for this wing alone.
    """

    name: str
    permissions: str = ""
    roles: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """A port that a role listens on, and the port of its Service that leads to it."""

    name: str
    number: int
    service: int


@dataclass(frozen=True, slots=True)
class Argument:
    """A flag that the chart writes for a field of the settings: with `text`, or with what `source` says.

    A source is a path in the chart's values, or a template of the chart, whose name begins with `berth.`. Without one
    the value is the one with the name of the field below `<role>.args`. The flag is left out where the source `when` is
    off, and where the value is empty, unless it is written `always`.
    """

    field: str
    source: str = ""
    text: str = ""
    when: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """How the chart runs a role: `kind` is the kind of its workload, `enabled` the source that turns it on.

    `tls` is the source of the name of the Secret that is mounted at /etc/berth/tls, `volumes` are the names of
    templates of further volumes, by directory below /etc/berth. `grace` are the seconds from SIGTERM to the end, or
    fields that hold them. The ports at the end of `egress` (sources) may be reached beside DNS and the API server.
    """

    kind: Literal["Deployment", "DaemonSet"] = "Deployment"
    enabled: str = ""
    ports: tuple[Port, ...] = ()
    arguments: tuple[Argument, ...] = ()
    tls: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict, compare=False)
    grace: tuple[int | str, ...] = (10,)
    egress: tuple[str, ...] = ()


TLS_FILES = (
    Argument("tls_cert_file", text="/etc/berth/tls/tls.crt"),
    Argument("tls_private_key_file", text="/etc/berth/tls/tls.key"),
)


@dataclass(frozen=True, slots=True)
class Role:
    """A process of Berth that runs until it is stopped.

    `command` are the words that start it, `settings` and `run` are references (`"module:name"`): the class of its
    settings, and the function that runs a role with such settings and returns the exit status. `ignored` are flags of
    a peer that are accepted and have no effect. `needs` is a reference to the kinds that have to be defined where it
    runs, `lease` the Lease that it works by, `chart` how the chart runs it.

    The rest is what `berth doctor` says follows: when no replica runs, when none holds the Lease, when its certificate
    has expired, and, by resource ("" for any other), when a right is missing.
    """

    name: str
    command: tuple[str, ...]
    settings: str
    run: str
    summary: str
    examples: tuple[str, ...]
    notes: str = ""
    ignored: tuple[str, ...] = ()
    needs: str = ""
    lease: str = ""
    chart: Chart = Chart()
    when_down: str = ""
    when_idle: str = ""
    when_expired: str = ""
    when_refused: Mapping[str, str] = field(default_factory=dict, compare=False)


def resolve(reference: str) -> Any:
    """What a reference names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
