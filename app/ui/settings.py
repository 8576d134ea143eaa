"""The settings of `berth ui`: of the page on a laptop, and of the role that serves it to others in a cluster."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from app.settings.source import CLUSTER, SERVING, TLS, DnsLabelOrNone, Flag, Names, NotEmpty, Port, RoleSettings
from app.wiring import CLUSTER_RULE

_CALLERS = "Callers"


class UiSettings(RoleSettings):
    """The settings of `berth ui`. With `access` callers it is a role in a cluster, and has a health port."""

    access: Annotated[
        Literal["kubeconfig", "callers"],
        Flag("Whose rights count: those of the kubeconfig, or of each caller (over TLS)", SERVING),
    ] = "kubeconfig"
    bind_address: Annotated[
        NotEmpty,
        Flag("Address to listen on", SERVING, default="127.0.0.1; with --access callers: 0.0.0.0"),
    ] = "0.0.0.0"  # noqa: S104  a role serves the cluster's network; a laptop listens on loopback alone
    port: Annotated[Port, Flag("Port to listen on; 0 takes a free one", SERVING)] = 8088
    tls_cert_file: Annotated[NotEmpty | None, Flag("With --access callers: certificate to serve, PEM", TLS)] = None
    tls_private_key_file: Annotated[NotEmpty | None, Flag("With --access callers: its private key, PEM", TLS)] = None
    front_proxy_ca: Annotated[
        NotEmpty | None,
        Flag("With --access callers: CA of front proxies that name callers in X-Remote-User", _CALLERS),
    ] = None
    front_proxy_names: Annotated[
        Names,
        Flag(
            "Common name that a front proxy's certificate may have; repeatable",
            _CALLERS,
            names=("--front-proxy-name",),
            repeatable=True,
        ),
    ] = ()
    kubeconfig: Annotated[
        str | None, Flag("Kubeconfig of a cluster to show; repeatable", CLUSTER, default=CLUSTER_RULE, metavar="FILE")
    ] = None
    context: Annotated[
        str | None, Flag("A context of the kubeconfig to show; repeatable", CLUSTER, default="its current one")
    ] = None
    namespace: Annotated[
        DnsLabelOrNone,
        Flag("Namespace of Berth", CLUSTER, names=("--berth-namespace",), default="found by its labels"),
    ] = Field("", validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    release: Annotated[NotEmpty, Flag("Name of the release", CLUSTER, names=("--release-name",))] = "berth"

    @model_validator(mode="after")
    def _together(self) -> Self:
        callers = self.access == "callers"
        if callers and not (self.tls_cert_file and self.tls_private_key_file):
            raise ValueError("--access callers: want --tls-cert-file and --tls-private-key-file: tokens need TLS")
        if not callers and any(
            (self.tls_cert_file, self.tls_private_key_file, self.front_proxy_ca, self.front_proxy_names)
        ):
            raise ValueError("--tls-cert-file, --front-proxy-ca and the like: want --access callers with them")
        if bool(self.front_proxy_ca) != bool(self.front_proxy_names):
            raise ValueError("--front-proxy-ca: want --front-proxy-name with it, for a CA may have other clients too")
        if callers and self.port == self.health_check_port != 0:
            raise ValueError("--port and --health-check-port: want two ports, got one")
        return self
