"""The settings of `berth agent`, and the options of an agent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from app.kube.names import check_dns_label
from app.settings.source import CLUSTER, DnsLabel, DnsSubdomain, Flag, NotEmpty, RoleSettings
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

CONFIG_MAP_NAME = "workload-plugin-config"
"""The ConfigMap whose key `config` names the namespaces to watch, as Universe's workload plugin calls it."""
_GATEWAY, _WORK = "Gateway", "Work"
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")


class AgentSettings(RoleSettings):
    """Times are in seconds. Rules, UVS objects and mirrors live in `namespace`.

    With an empty `tenant` the certificate alone decides which tenant this is.
    """

    gateway: Annotated[str, Flag("HOST:PORT of the gateway (required)", _GATEWAY)] = Field("", validate_default=True)
    gateway_name: Annotated[DnsSubdomain, Flag("Name in its certificate", _GATEWAY)] = GATEWAY_NAME
    gateway_ca: Annotated[NotEmpty, Flag("CA of its certificate, PEM", _GATEWAY)] = "ca.crt"
    tls_cert_file: Annotated[NotEmpty, Flag("The tenant's certificate, PEM", _GATEWAY)] = "tls.crt"
    tls_private_key_file: Annotated[NotEmpty, Flag("Its private key, PEM", _GATEWAY)] = "tls.key"
    tenant: Annotated[str, Flag("The tenant's name, to be compared with the certificate's", _GATEWAY)] = ""
    namespace: Annotated[
        DnsLabel,
        Flag(
            "Namespace of rules, UVS objects, mirrors and the Lease",
            CLUSTER,
            default=f"$NAMESPACE or {SYSTEM_NAMESPACE}",
        ),
    ] = Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    configmap_name: Annotated[DnsSubdomain, Flag("ConfigMap that names the namespaces to watch", _WORK)] = (
        CONFIG_MAP_NAME
    )
    configmap_namespace: Annotated[DnsLabel, Flag("Its namespace", _WORK)] = SYSTEM_NAMESPACE
    keep_finished: Annotated[bool, Flag("Pods that have finished keep their companions", _WORK)] = False
    resync_seconds: Annotated[float, Flag("How often everything is sent again", _WORK)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    leader_elect: Annotated[bool, Flag("Work only while holding the Lease", _WORK)] = True

    @field_validator("gateway")
    @classmethod
    def _address(cls, value: str) -> str:
        match = _ADDRESS.fullmatch(value)
        if match is None or not 0 < int(match[1]) < 65536:
            raise ValueError("want HOST:PORT of the gateway")
        return value

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return check_dns_label(value) if value else value


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The settings, and how fast the agent works: durations are in seconds, sizes in bytes.

    The three PEM files are looked at every `certificate_poll`. After `patience` a gateway that cannot be reached is
    shown in the status of what waits for it. What the gateway refuses for how things stand there (FAILED_PRECONDITION)
    is asked again after `refusal_pause`, then less and less often, down to every `resync_seconds` of the settings.
    Changes of Pods are gathered for `linger` before they are sent. The handshake of a connection may take `connect`:
    lines may be slow, and gateways busy.
    """

    settings: AgentSettings
    patience: float = 30.0
    refusal_pause: float = 5.0
    linger: float = 0.05
    connect: float = 10.0
    backoff_base: float = 0.5
    backoff_cap: float = 30.0
    keepalive: float = 30.0
    certificate_poll: float = 10.0
    max_message: int = 1024 * 1024
