"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Controller, Wing

_RUNS = "controller.args.controllers=rmd"

WING = Wing(
    "rmd",
    kinds={"rmd": "app.rmd.permissions:KINDS"},
    controllers=(
        Controller(
            "rmd",
            build="app.rmd.build:controller",
            reconcilers=("rmd-nodes", "rmd-workloads", "rmd-config"),
            watches=("RmdWorkload", "RmdDaemonPod", "Node", "RmdNodeState", "RmdConfig", "DaemonSet"),
            needs="rmd",
            usual=False,
        ),
    ),
    permissions="app.rmd.permissions:PERMISSIONS",
    settings={"controller": "app.rmd.settings:RmdSettings"},
    metrics={"app.rmd.metrics": ("controller",)},
    arguments={
        "controller": (
            Argument("rmd_namespace", source="rmd.namespace", when=_RUNS),
            Argument("rmd_client_certificate", source="rmd.clientCertificate", when=_RUNS),
            Argument("rmd_daemon_sets", source="berth.rmdDaemonSets", when=_RUNS),
        ),
    },
    egress={"controller": ("berth.rmdPlainPort", "berth.rmdTlsPort")},
)
