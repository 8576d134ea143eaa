"""The settings of `berth webhook` to which each wing adds its own.

The flag names are those of Network Resources Injector where it has the same flag. A flag that only its tests or logs
used is accepted and ignored.
"""

from __future__ import annotations

import ssl
from typing import Annotated, ClassVar, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from app.serving.tls_options import server_context
from app.settings.source import (
    LOGS,
    SERVING,
    TLS,
    DnsLabel,
    Exclusion,
    Flag,
    Items,
    Names,
    NotEmpty,
    Port,
    RoleSettings,
)

SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

UNDECIDED_BYTES = 64 * 1024 * 1024
LEAST_BYTES = 16 * 1024 * 1024
"""Of one process: half of it, which is for one client, holds the largest body."""

_SOURCE = "Attachments"
_DEBUG = 4


class WebhookSettings(RoleSettings):
    """The settings of `berth webhook` without those of the wings. Times are in seconds.

    Port 0 takes a free port, which the log names.
    """

    exclusions: ClassVar[tuple[Exclusion, ...]] = (
        Exclusion("client_ca", "insecure", "with --insecure no client certificate is asked for, and no CA is used"),
        Exclusion("client_allowed_names", "insecure", "with --insecure no client certificate is asked for"),
        Exclusion("manifests", "kubeconfig", "attachments come from one place"),
        Exclusion("manifests", "context", "attachments come from one place"),
    )

    port: Annotated[Port, Flag("TLS port", SERVING)] = 8443
    workers: Annotated[int, Flag("Worker processes", SERVING)] = Field(1, ge=1, le=64)
    deadline_seconds: Annotated[float, Flag("Longest time for one review", SERVING)] = Field(8.0, gt=0, le=30)
    undecided_bytes: Annotated[
        int, Flag("Bytes of requests in memory that are not answered yet; workers share them", SERVING)
    ] = Field(UNDECIDED_BYTES, ge=LEAST_BYTES)
    drain_seconds: Annotated[float, Flag("How long to keep serving after SIGTERM, while unready", SERVING)] = Field(
        5.0, ge=0, le=600
    )
    events: Annotated[
        bool, Flag("Record an Event on the owner of a Pod that is denied, or gets no networks", SERVING)
    ] = True
    injected_annotation: Annotated[
        bool, Flag("Write into annotation berth.dev/injected what was injected, and the version", SERVING)
    ] = False

    tls_cert_file: Annotated[NotEmpty, Flag("Serving certificate, PEM", TLS)] = "cert.pem"
    tls_private_key_file: Annotated[NotEmpty, Flag("Its private key, PEM", TLS)] = "key.pem"
    insecure: Annotated[bool, Flag("Do not ask the API server for a client certificate", TLS)] = False
    client_ca: Annotated[
        Items,
        Flag("CA of client certificates; repeatable", TLS, default="the service account's CA", repeatable=True),
    ] = (SERVICE_ACCOUNT_CA,)
    client_allowed_names: Annotated[
        Names,
        Flag(
            "Comma list of common names: a client certificate of --client-ca with another one is refused",
            TLS,
            default="any name",
        ),
    ] = ()
    caller_token_file: Annotated[
        NotEmpty | None,
        Flag("File of tokens, one a line: an API server has one at the end of a webhook's path, or as bearer", TLS),
    ] = None
    certificate_poll_seconds: Annotated[float, Flag("How often the TLS files are read", TLS)] = Field(
        10.0, gt=0, allow_inf_nan=False
    )
    tls_min_version: Annotated[
        str, Flag("Oldest version of TLS", TLS, default="VersionTLS12", choices=("VersionTLS12", "VersionTLS13"))
    ] = ""
    tls_cipher_suites: Annotated[str, Flag("Comma list of IANA cipher names", TLS)] = ""
    tls_curve_preferences: Annotated[str, Flag("Comma list of IANA curve numbers", TLS)] = ""
    enable_http2: Annotated[bool, Flag("Accepted; Berth speaks HTTP/1.1 only", TLS)] = False

    manifests: Annotated[
        NotEmpty | None, Flag("Directory of YAML files instead of a cluster, reloaded on change", _SOURCE)
    ] = None
    # NAMESPACE is the name that Network Resources Injector's Deployment sets; it needs no prefix.
    namespace: Annotated[DnsLabel, Flag("Namespace Berth runs in", _SOURCE, default="$NAMESPACE or kube-system")] = (
        Field("kube-system", validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    )

    # The flag of klog, which Deployments of Network Resources Injector set.
    verbosity: Annotated[
        int,
        Flag(
            "Verbosity as of klog: 4 or more is --log-level debug", LOGS, names=("-v", "--v"), default="", metavar="N"
        ),
    ] = 0

    @classmethod
    def load(cls, given: dict[str, object], *, environment: bool = True) -> Self:
        """As of every role; `-v`, which is a flag, beats the variable of the level."""
        verbosity = given.get("verbosity")
        loud = isinstance(verbosity, int) and verbosity >= _DEBUG and "log_level" not in given
        return super().load(given | {"log_level": "debug"} if loud else given, environment=environment)

    @property
    def undecided_bytes_each(self) -> int:
        """Of one worker."""
        return max(LEAST_BYTES, self.undecided_bytes // self.workers)

    @property
    def level(self) -> str:
        return "debug" if self.verbosity >= _DEBUG and "log_level" not in self.model_fields_set else self.log_level

    def server_context(self) -> tuple[ssl.SSLContext, list[str]]:
        """A context with the TLS choices, and what of them has no effect; UsageError for those that are wrong."""
        return server_context(
            min_version=self.tls_min_version,
            ciphers=self.tls_cipher_suites,
            curves=self.tls_curve_preferences,
            require_client_certificate=not self.insecure,
            allowed_names=self.client_allowed_names,
        )

    @field_validator("client_ca")
    @classmethod
    def _files(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return value or (SERVICE_ACCOUNT_CA,)

    @model_validator(mode="after")
    def _together(self) -> WebhookSettings:
        if self.port == self.health_check_port != 0:
            raise ValueError("Health check port should be different from port")
        return self
