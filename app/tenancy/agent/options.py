"""The options of the agent. Values only, without behavior."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

CONFIG_MAP_NAME = "workload-plugin-config"
"""The ConfigMap whose key `config` names the namespaces to watch, as Universe's workload plugin calls it."""

Stream = Literal["workloads", "rules", "resources"]
SentEvent = Literal["update", "delete", "synced"]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`gateway` is `host:port`; durations are in seconds, sizes in bytes.

    The three PEM files are looked at every `certificate_poll` seconds. An empty `tenant` leaves it to the certificate
    to say who we are. Rules, UVS objects and mirrors live in `namespace`. Finished Pods count as gone unless
    `keep_finished`. After `patience` a gateway that cannot be reached is shown in the status of what waits for it.
    What the gateway refuses for how things stand there (FAILED_PRECONDITION) is asked again after `refusal_pause`,
    then less and less often, down to every `resync`. Changes of Pods are gathered for `linger` before they are sent.
    """

    gateway: str
    ca_file: Path
    cert_file: Path
    key_file: Path
    server_name: str = GATEWAY_NAME
    tenant: str = ""
    namespace: str = SYSTEM_NAMESPACE
    config_map: str = CONFIG_MAP_NAME
    config_map_namespace: str = SYSTEM_NAMESPACE
    keep_finished: bool = False
    resync: float = 60.0
    patience: float = 30.0
    refusal_pause: float = 5.0
    linger: float = 0.05
    call_timeout: float = 15.0
    backoff_base: float = 0.5
    backoff_cap: float = 30.0
    keepalive: float = 30.0
    certificate_poll: float = 10.0
    max_message: int = 1024 * 1024
    workers: int = 4
