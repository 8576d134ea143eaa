"""Validation of the containers of a Pod, in the API server's words: names, images, ports, restarts. Pure.

What they use and how they are asked is in `resources`, `variables`, `mounts`, `security` and `handlers`.
"""

from __future__ import annotations

from app.kinds.fielderrors import Field, invalid, supported
from app.kinds.handlers import check_handlers
from app.kinds.mounts import check_mounts
from app.kinds.name_syntax import PORT_TEXT, check_element_name, port_name_faults
from app.kinds.resource_claims import check_container_claims, claim_names
from app.kinds.resources import check_container_resources
from app.kinds.security import check_container_security
from app.kinds.variables import check_environment
from app.kinds.volumes import PULL_POLICIES

_RESTARTS = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_MOST_RULES = 20
_MOST_CODES = 255


def check_containers(pod: Field) -> None:
    """All containers and init containers; names are unique over both."""
    seen: set[str] = set()
    volumes = {volume.get("name"): volume for volume in pod.value.get("volumes") or []}
    claims = claim_names(pod.value)
    pod.required("containers")
    for kind in ("containers", "initContainers"):
        taken: set[str] = set()
        for container in pod.each(kind):
            check_element_name(container, seen)
            initial = kind == "initContainers"
            _check_container(container, host_network=not initial and bool(pod.value.get("hostNetwork")))
            _check_restarts(container, initial=initial)
            check_handlers(container, pod, initial=initial)
            check_environment(container, volumes)
            check_mounts(container, volumes)
            check_container_claims(container.below("resources"), claims)
            check_container_security(
                container.below("securityContext"), host_users=pod.value.get("hostUsers") is not False
            )
            _check_resizing(container, pod.text("restartPolicy"), initial=initial)
            if initial:
                taken = set()  # they run one after the other
            for port in container.each("ports"):
                if outer := port.value.get("hostPort"):
                    port.unique("hostPort", f"{port.value.get('protocol')}/{port.text('hostIP')}/{outer}", taken)


def _check_container(container: Field, *, host_network: bool) -> None:
    container.required("image")
    names: set[str] = set()
    for port in container.each("ports"):
        _check_port(port, names, host_network=host_network)
    container.one_of("imagePullPolicy", PULL_POLICIES)
    container.one_of("terminationMessagePolicy", ("File", "FallbackToLogsOnError"), optional=True)
    check_container_resources(container.below("resources"))


def _check_restarts(container: Field, *, initial: bool) -> None:
    """Whether the container is restarted, and the exit codes for which that is another."""
    rules = container.value.get("restartPolicyRules") or []
    if rules and "restartPolicy" not in container.value:
        container.fault("restartPolicy", "Required", "must specify restartPolicy when restart rules are used")
        if initial:
            return
    container.one_of("restartPolicy", _RESTARTS, optional=True)
    if len(rules) > _MOST_RULES:
        container.fault("restartPolicyRules", "TooMany", f"must have at most {_MOST_RULES} items", len(rules))
    for rule in container.each("restartPolicyRules"):
        rule.one_of("action", _RULE_ACTIONS)
        if "exitCodes" not in rule.value:
            rule.fault("exitCodes", "Required", "must be specified")
        for codes in rule.present("exitCodes"):
            codes.one_of("operator", ("In", "NotIn"))
            if len(codes.value.get("values") or []) > _MOST_CODES:
                codes.fault("values", "TooMany", f"must have at most {_MOST_CODES} items", len(codes.value["values"]))


def _check_resizing(container: Field, restart_policy: str, *, initial: bool) -> None:
    """What happens to the container when its resources change. The server reports most at the list."""
    where = container.at("resizePolicy")
    seen: set[str] = set()
    for here, entry in container.entries("resizePolicy"):
        resource, policy = entry.get("resourceName") or "", entry.get("restartPolicy") or ""
        container.unique(here, resource, seen)
        container.errors += supported(where, resource, ("cpu", "memory"))
        container.errors += supported(where, policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            container.errors += invalid(where, policy, [text])
        if initial and container.value.get("restartPolicy") != "Always" and policy == "RestartContainer":
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            container.fault(f"{here}.restartPolicy", "Invalid", text, policy)


def _check_port(port: Field, names: set[str], *, host_network: bool) -> None:
    name, number, outer = port.text("name"), port.value.get("containerPort") or 0, port.value.get("hostPort") or 0
    if faults := port_name_faults(name) if name else []:
        port.errors += invalid(port.at("name"), name, faults)
    elif name:
        port.unique("name", name, names)
    if port.required("containerPort"):
        port.number("containerPort", 1, PORT_TEXT, 65535)
    if outer and not 0 < outer < 65536:
        port.fault("hostPort", "Invalid", PORT_TEXT)
    elif outer and host_network and outer != number:
        port.fault("hostPort", "Invalid", "must match `containerPort` when `hostNetwork` is true")
    port.one_of("protocol", ("SCTP", "TCP", "UDP"))
