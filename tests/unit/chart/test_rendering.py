"""What every rendering promises, whatever the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from app.registry import CONTROLLERS, ROLES
from app.runtime.composing import FLUSH_SECONDS
from app.tracing.spans import CLOSE_SECONDS
from tests.support.chart import CHART, JSON, NAMESPACE, Render, notes_of
from tests.support.chart_combinations import AGENT, ALL, COMBINATIONS, INFRA, NOTHING
from tests.support.paths import ROOT

DEPLOYED = [role.name for role in ROLES if role.chart.kind == "Deployment"]
each_combination = pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)


@each_combination
def test_helm_finds_nothing_to_complain_about(values: JSON) -> None:
    report = helm_python.lint(CHART, values, strict=True, namespace=NAMESPACE, kube_version="v1.30.0")
    assert report["errors"] == []
    assert [found for found in report["messages"] if found["severity"] > 1] == []


@each_combination
def test_no_pod_has_more_rights_on_its_node_than_it_needs(render: Render, values: JSON) -> None:
    pods = render(values).pods()
    assert pods
    for pod in pods:
        spec = pod["spec"]
        folders = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
        if folders:
            # The sockets of kubelet are root's.
            assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "rmd-node"
            assert folders == {"pod-resources", "device-plugins"}
        else:
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["runAsUser"] >= 10000
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]


@each_combination
def test_every_pod_runs_under_an_account_of_its_own(render: Render, values: JSON) -> None:
    rendered = render(values)
    accounts = [pod["spec"]["serviceAccountName"] for pod in rendered.pods()]
    assert sorted(accounts) == sorted(obj["metadata"]["name"] for obj in rendered.of("ServiceAccount"))
    assert len(set(accounts)) == len(accounts)
    assert all(obj["automountServiceAccountToken"] is False for obj in rendered.of("ServiceAccount"))


def test_every_role_survives_a_node_a_drain_and_an_upgrade(render: Render) -> None:
    rendered = render(ALL)
    deployments = {obj["metadata"]["name"]: obj["spec"] for obj in rendered.of("Deployment")}
    assert set(deployments) == {f"berth-{role}" for role in DEPLOYED}
    for name, spec in deployments.items():
        pod = spec["template"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        # No work waits for the page, and each replica watches all that is looked at.
        assert spec["replicas"] == (1 if name == "berth-ui" else 2)
        assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (spread,) = pod["topologySpreadConstraints"]
        budget = rendered.one("PodDisruptionBudget", name)["spec"]
        assert budget["maxUnavailable"] == 1
        own = spec["selector"]["matchLabels"]
        for selector in (apart["podAffinityTerm"]["labelSelector"], spread["labelSelector"], budget["selector"]):
            assert selector["matchLabels"] == own
        assert own.items() <= labels.items()
        assert [other for other in deployments.values() if own.items() <= _labels(other).items()] == [spec]
        (container,) = pod["containers"]
        assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
        assert pod["priorityClassName"] == rendered.one("PriorityClass")["metadata"]["name"]


def _labels(deployment: JSON) -> JSON:
    return deployment["template"]["metadata"]["labels"]


def test_a_pod_gets_the_time_that_its_role_takes_to_drain(render: Render) -> None:
    """The worst case: reviews up to their deadline, then what uvicorn, Events, the health port and spans may take."""
    values = {
        "webhook": {"args": {"drainSeconds": 20.5, "deadlineSeconds": 9}},
        "gateway": {"enabled": True, "args": {"drainSeconds": 60}},
        "preStopSeconds": 10,
    }
    rendered = render(values)
    grace = {
        role: rendered.one("Deployment", f"berth-{role}")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for role in ("webhook", "gateway")
    }
    assert grace == {"webhook": 10 + 21 + 9 + 10, "gateway": 10 + 60 + 10}
    connections, health = 2, 1
    assert grace["webhook"] > 10 + 21 + 9 + connections + FLUSH_SECONDS + health + CLOSE_SECONDS
    assert grace["gateway"] > 10 + 60 + health + CLOSE_SECONDS


def test_pods_can_be_reached_at_their_ports_alone_and_reach_what_they_need_alone(render: Render) -> None:
    rendered = render(ALL | {"tracing": {"endpoint": "http://collector.observability:4318/v1"}})
    for deployment in rendered.of("Deployment"):
        policy = rendered.one("NetworkPolicy", deployment["metadata"]["name"])["spec"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert policy["podSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        (ingress,) = policy["ingress"]
        assert {port["port"] for port in ingress["ports"]} == {port["containerPort"] for port in container["ports"]}
        names, others = policy["egress"]
        assert [port["port"] for port in names["ports"]] == [53, 53, 5353, 5353]
        gateway = [30001] if "agent" in deployment["metadata"]["name"] else []
        assert [port["port"] for port in others["ports"]] == [443, 6443, *gateway, 4318]


def test_the_way_to_the_api_server_can_be_bounded_to_its_addresses(render: Render) -> None:
    """The gateway and the collector are elsewhere."""
    blocks = ["10.0.0.10/32", "fd00::1/128"]
    bounded = {"networkPolicy": {"apiServerCIDRs": blocks}}
    rendered = render(ALL | bounded | {"tracing": {"endpoint": "http://collector.observability:4318/v1"}})
    for policy in rendered.of("NetworkPolicy"):
        _, server, others = policy["spec"]["egress"]
        assert [port["port"] for port in server["ports"]] == [443, 6443]
        assert server["to"] == [{"ipBlock": {"cidr": block}} for block in blocks]
        gateway = [30001] if policy["metadata"]["name"] == "berth-agent" else []
        assert others == {"ports": [{"port": port, "protocol": "TCP"} for port in (*gateway, 4318)]}
    for policy in render(bounded).of("NetworkPolicy"):
        assert ["to" in rule for rule in policy["spec"]["egress"]] == [False, True]


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("http://c", 80), ("https://c.example/otlp", 443), ("https://c:4318/a:9/b", 4318), ("http://[::1]:7", 7)],
)
def test_the_collectors_port_is_open(render: Render, endpoint: str, port: int) -> None:
    policy = render({"tracing": {"endpoint": endpoint}}).one("NetworkPolicy", "berth-webhook")
    assert policy["spec"]["egress"][1]["ports"][-1]["port"] == port


def test_every_service_finds_the_pods_of_its_role_by_the_name_of_a_port(render: Render) -> None:
    rendered = render(ALL)
    services = {obj["metadata"]["name"]: obj["spec"] for obj in rendered.of("Service")}
    serving = {f"berth-{role.name}" for role in ROLES if role.chart.ports}
    assert set(services) == {*(f"berth-{role}-metrics" for role in DEPLOYED), *serving}
    for name, spec in services.items():
        role = name.removeprefix("berth-").removesuffix("-metrics")
        deployment = rendered.one("Deployment", f"berth-{role}")["spec"]
        assert spec["selector"] == deployment["selector"]["matchLabels"]
        (port,) = spec["ports"]
        assert port["targetPort"] in [one["name"] for one in rendered.container(role)["ports"]]
    assert services["berth-webhook"]["ports"][0]["port"] == 443


@each_combination
def test_everything_says_whose_it_is_and_stays_in_its_namespaces(render: Render, values: JSON) -> None:
    for obj in render(values):
        metadata = obj["metadata"]
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/part-of"] == "berth"
        assert labels["app.kubernetes.io/instance"] == "berth"
        assert labels["helm.sh/chart"] == "berth-0.1.0"
        where = "default" if "-rmd" in metadata["name"] else "universe"
        assert metadata.get("namespace") in (None, NAMESPACE, where)


def test_names_stay_valid_for_the_longest_name_of_a_release(render: Render) -> None:
    name = "a" * 53
    for obj in render(ALL, name=name):
        assert len(obj["metadata"]["name"]) <= 63
    assert render({}, name=name).one("MutatingWebhookConfiguration")["metadata"]["name"] == "a" * 40


@pytest.mark.parametrize(
    ("values", "namespace", "names"),
    [
        ({}, NAMESPACE, []),
        (NOTHING | AGENT, NAMESPACE, ["universe"]),
        (INFRA, NAMESPACE, ["universe"]),
        (AGENT, "universe", []),
        (INFRA | {"systemNamespace": {"create": False}}, NAMESPACE, []),
    ],
)
def test_the_namespace_universe_is_made_where_it_is_needed_and_outlives_the_release(
    render: Render, values: JSON, namespace: str, names: list[str]
) -> None:
    found = render(values, namespace=namespace).of("Namespace")
    assert [obj["metadata"]["name"] for obj in found] == names
    assert all(obj["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for obj in found)


def test_the_rights_of_the_controller_are_those_of_the_controllers_that_run(render: Render) -> None:
    def rights(*controllers: str) -> set[tuple[str, str, str]]:
        rendered = render(NOTHING | {"controller": {"enabled": True, "args": {"controllers": list(controllers)}}})
        roles = [*rendered.of("ClusterRole"), *rendered.of("Role")]
        return {
            (role["metadata"]["name"], resource, verb)
            for role in roles
            for rule in role["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    workloads, tenants = rights("workloads"), rights("tenants")
    assert ("berth-controller-tenants", "pods", "create") in workloads - tenants
    assert ("berth-controller", "rolebindings", "create") in tenants - workloads
    assert {("berth-controller", "leases", "update"), ("berth-controller", "events", "create")} <= workloads & tenants
    assert rights("workloads", "tenants") == workloads | tenants


def test_controllers_without_rights_in_universe_need_no_such_namespace(render: Render) -> None:
    tenants = NOTHING | {"controller": {"enabled": True, "args": {"controllers": ["tenants"]}}}
    assert render(tenants).of("Namespace") == []
    assert render(NOTHING | {"controller": {"enabled": True}}).of("Namespace") != []


def test_a_release_in_universe_has_roles_of_different_names(render: Render) -> None:
    roles = [obj["metadata"]["name"] for obj in render(AGENT, namespace="universe").of("Role")]
    assert len(roles) == len(set(roles)) == 3


def test_pods_are_not_started_anew_for_a_new_version_of_the_chart_alone(render: Render) -> None:
    for workload in render(ALL).workloads():
        assert "helm.sh/chart" not in workload["spec"]["template"]["metadata"]["labels"]


def test_a_digest_beats_the_tag(render: Render) -> None:
    digest = "sha256:" + "ab" * 32
    image = render({"image": {"repository": "r.example/berth", "tag": "x", "digest": digest}}).container("webhook")
    assert image["image"] == f"r.example/berth@{digest}"
    tagged = render({"image": {"repository": "r.example/berth", "tag": "x"}}).container("webhook")
    assert tagged["image"] == "r.example/berth:x"


def test_keys_come_as_files_that_others_cannot_read(render: Render) -> None:
    secrets = {
        obj["metadata"]["name"]: volume["secret"]
        for obj in render(ALL).of("Deployment")
        for volume in obj["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    }
    assert {name: secret["secretName"] for name, secret in secrets.items()} == {
        "berth-webhook": "berth-webhook-tls",
        "berth-gateway": "berth-gateway-tls",
        "berth-agent": "berth-agent",
        "berth-ui": "berth-ui-tls",
    }
    assert all(secret["defaultMode"] == 0o440 and "optional" not in secret for secret in secrets.values())


def test_the_collector_is_told_to_every_role(render: Render) -> None:
    rendered = render(ALL | {"tracing": {"endpoint": "http://collector:4318"}})
    for role in DEPLOYED:
        variable = {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}
        assert variable in rendered.container(role)["env"]


@each_combination
def test_notes_name_the_next_commands_of_each_role_that_is_enabled(chart: helm_python.Chart, values: JSON) -> None:
    notes = notes_of(chart, values)
    merged = chart.merge_values(values)
    roles = [role for role in ("webhook", "controller", "gateway", "agent", "ui") if merged[role]["enabled"]]
    commands = [line for line in notes.splitlines() if line.startswith(("  kubectl ", "  berth "))]
    assert [line for line in commands if "rollout" in line] == [
        f"  kubectl -n {NAMESPACE} rollout status deployment/berth-{role}" for role in roles
    ]
    running = merged["controller"]["args"]["controllers"] if "controller" in roles else []
    tenants = "gateway" in roles or "tenants" in running
    further = [command for name in running if name != "tenants" for command in CONTROLLERS[name].next]
    # Two of each part are not of a role: the controller of tenants and the gateway share them.
    parts = ("webhook" in roles) + ("agent" in roles) + tenants
    forwards = [f"  kubectl -n {NAMESPACE} port-forward service/berth-ui 8443:"] if "ui" in roles else []
    assert len(commands) == len(set(commands)) == len(roles) + 2 * parts + len(further) + len(forwards)
    assert all(any(command.startswith(forward) for command in commands) for forward in forwards)
    assert {f"  {command}" for command in further} <= set(commands)
    assert ("berth tenant add tenant1" in notes) is tenants


def test_notes_tell_of_nothing_that_is_left_to_another_release(chart: helm_python.Chart) -> None:
    """Beside another release, with the values for AppWrappers, no Pods are injected into, and there are no tenants."""
    alone, beside = (
        yaml.safe_load((ROOT / "examples" / "helm" / name).read_text()) for name in ("appwrappers.yaml", "beside.yaml")
    )
    assert "kubectl get network-attachment-definitions -A" in notes_of(chart, alone)
    notes = notes_of(chart, alone | {"webhook": alone["webhook"] | beside["webhook"]})
    assert "kubectl get appwrappers -A" in notes
    assert not re.search(r"tenant|network-attachment-definitions|\n\n\n", notes)


MONITORED: JSON = {
    "monitoring": {part: {"enabled": True} for part in ("serviceMonitor", "prometheusRule", "dashboard")}
}


@pytest.mark.parametrize("values", [ALL, COMBINATIONS["cert-manager"]], ids=["all", "cert-manager"])
@pytest.mark.parametrize(("name", "namespace"), [("true", "12345"), ("null", "1e3"), ("n", "null")])
def test_names_that_yaml_reads_as_something_else_stay_texts(
    render: Render, values: JSON, name: str, namespace: str
) -> None:
    bare = {"nameOverride": name, "fullnameOverride": name, "priorityClass": {"name": "0x1f"}}
    for obj in render(values | MONITORED | bare, name=name, namespace=namespace):
        for path, value in _leaves(obj):
            if path[-1] in ("name", "namespace", "priorityClassName", "resourceNames") or path[-2:-1] in (
                ("labels",),
                ("matchLabels",),
                ("annotations",),
            ):
                assert isinstance(value, str), path


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each scalar with the keys that lead to it."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif isinstance(value, list):
        for below in value:
            yield from _leaves(below, path)
    else:
        yield path, value


def test_a_release_with_a_dot_in_its_name_has_services_without(render: Render) -> None:
    rendered = render({}, name="berth.v1")
    names = {obj["metadata"]["name"] for obj in rendered.of("Service")}
    assert names == {"berth-v1-webhook", "berth-v1-webhook-metrics", "berth-v1-certificates-metrics"}
    for cut in ("a" * 39 + ".b", "a" * 38 + "--b"):
        name = render({}, name=cut).one("MutatingWebhookConfiguration")["metadata"]["name"]
        assert name == cut.rstrip("b.-")


@pytest.mark.parametrize("tag", ["_nightly", "v" * 62 + ".1", "1.2.3-"])
def test_every_tag_gives_a_label_that_is_one(render: Render, tag: str) -> None:
    for pod in render({"image": {"tag": tag}}).pods():
        version = pod["metadata"]["labels"]["app.kubernetes.io/version"]
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", version)


def test_a_webhook_in_the_network_of_nodes_can_be_upgraded_on_as_many_nodes_as_it_has_pods(render: Render) -> None:
    """For control planes that reach no addresses of Pods; of the other roles nobody outside of the Pods' network asks."""
    rendered = render(ALL | {"webhook": {"hostNetwork": True}})
    for deployment in rendered.of("Deployment"):
        spec, on_host = deployment["spec"], deployment["metadata"]["name"] == "berth-webhook"
        pod = spec["template"]["spec"]
        assert pod.get("hostNetwork", False) is on_host
        assert pod.get("dnsPolicy") == ("ClusterFirstWithHostNet" if on_host else None)
        rolling = {"maxUnavailable": 1, "maxSurge": 0} if on_host else {"maxUnavailable": 0, "maxSurge": 1}
        assert spec["strategy"]["rollingUpdate"] == rolling


def test_the_hooks_job_reaches_the_api_server_where_a_namespace_denies_everything_else(render: Render) -> None:
    rendered = render()
    policy = rendered.one("NetworkPolicy", "berth-unregister")
    assert "annotations" not in policy["metadata"]  # it is there before the hook
    labels = rendered.one("Job")["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["ingress"] == []
    assert [port["port"] for port in policy["spec"]["egress"][1]["ports"]] == [443, 6443]


def test_the_hooks_job_has_the_priority_of_the_roles(render: Render) -> None:
    """On a full cluster an uninstallation would else wait for a place."""
    for values, name in (({}, "berth"), ({"priorityClass": {"create": False}}, None)):
        pods = render(values).pods()
        assert [pod["spec"].get("priorityClassName") for pod in pods] == [name] * 4


def test_two_releases_in_a_namespace_keep_two_secrets(render: Render) -> None:
    """With one of both, each would take the other's certificate for a wrong one, and make it anew."""
    for name, secret in (
        ("berth", "berth-webhook-tls"),
        ("other", "other-berth-webhook-tls"),
        ("a" * 53, "a" * 40 + "-webhook-tls"),
    ):
        rendered = render({}, name=name)
        whole = secret.removesuffix("-webhook-tls")
        volumes = rendered.one("Deployment", f"{whole}-webhook")["spec"]["template"]["spec"]["volumes"]
        assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == [secret]
        assert f"--webhook-secret={secret}" in rendered.container("certificates", whole)["args"]


def test_the_certificate_of_the_page_is_for_the_name_that_the_notes_open(render: Render) -> None:
    made = render(COMBINATIONS["cert-manager"] | {"ui": {"enabled": True}}).one("Certificate", "berth-ui")
    assert "localhost" in made["spec"]["dnsNames"]


def test_no_way_to_certificates_takes_over_the_secret_of_another(render: Render) -> None:
    """What cert-manager leaves behind is not ours: after a change to self-managed nobody would renew it."""
    secrets = {
        volume["secret"]["secretName"]
        for mode in ({}, COMBINATIONS["cert-manager"])
        for volume in render(mode).one("Deployment", "berth-webhook")["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    }
    assert secrets == {"berth-webhook-tls", "berth-webhook-cert"}
    made = render(COMBINATIONS["cert-manager"]).one("Certificate", "berth-webhook")
    assert made["spec"]["secretName"] in secrets - {"berth-webhook-tls"}
