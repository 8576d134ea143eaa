"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Chart, Controller, Role, Wing

_RUNS = "controller.args.controllers=rmd"
_EGRESS = ("berth.rmdPlainPort", "berth.rmdTlsPort")
_FOLDER = "rmd-node.args.kubeletFolder"

NODE = Role(
    name="rmd-node",
    settings="app.rmd.settings:NodeSettings",
    build="app.rmd.agent.agent:build",
    summary="Make RmdWorkloads of the Pods of this node, and announce its cache ways to kubelet.",
    examples=("berth rmd-node --node-name worker-1 --kubeconfig worker-1.kubeconfig",),
    needs="rmd",
    home="rmd",
    chart=Chart(
        kind="DaemonSet",
        enabled="berth.runsRmd",
        namespace="rmd.namespace",
        template="rmd-node-agent-ds.yaml",
        arguments=(
            Argument("kubelet_folder"),
            Argument("announce_cache_ways"),
            Argument("resync_seconds"),
            Argument("rmd_namespace", source="rmd.namespace"),
        ),
        volumes={"rmd-client": "berth.rmdClientVolume"},
        host={"pod-resources": _FOLDER, "device-plugins": _FOLDER},
        egress=_EGRESS,
    ),
    when_down="Pods of its node get no cache ways that they do not have already",
    when_refused={
        "pods": "the Pods of the node are not seen: none of them gets cache ways",
        "": "cache ways that Pods ask for are not reserved",
    },
)

WING = Wing(
    "rmd",
    clusters={"rmd": "RMD"},
    scopes={"rmd": "{rmd_namespace}"},
    reviewed={"rmd-pods": "validate", "rmdworkloads": "validate"},
    kinds={"rmd": "app.rmd.permissions:KINDS"},
    reviews="app.rmd.permissions:REVIEWS",
    webhooks="app.rmd.permissions:WEBHOOKS",
    asks="app.rmd.permissions:ASKS",
    parts="app.rmd.admission.review:review",
    on="rmd_backend",
    checks=("app.rmd.checks.rmd:CHECK",),
    status=("app.rmd.sections:SECTION",),
    why="app.rmd.why:JUDGES",
    views=("app.rmd.views:VIEW",),
    controllers=(
        Controller(
            "rmd",
            build="app.rmd.controller.controller:build",
            needs="rmd",
            usual=False,
            next=("kubectl get rmdworkloads -A",),
        ),
    ),
    permissions="app.rmd.permissions:PERMISSIONS",
    settings={"webhook": "app.rmd.settings:AdmissionSettings", "controller": "app.rmd.settings:RmdSettings"},
    metrics={"app.rmd.metrics": ("controller",), "app.rmd.agent.metrics": ("rmd-node",)},
    arguments={
        "webhook": (
            Argument("rmd_backend"),
            Argument("rmd_unreserved", when="webhook.args.rmdBackend"),
            Argument("rmd_classes", when="webhook.args.rmdBackend"),
        ),
        "controller": (
            Argument("rmd_namespace", source="rmd.namespace", when=_RUNS),
            Argument("rmd_client_certificate", source="rmd.clientCertificate", when=_RUNS),
            Argument("rmd_daemon_sets", source="berth.rmdDaemonSets", when=_RUNS),
        ),
    },
    egress={"controller": _EGRESS},
    roles=(NODE,),
)
