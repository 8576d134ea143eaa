"""What a user sees of the injection, through the API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.wiring import RELEASE_NAMESPACE
from tests.e2e.builders import attachment, pod
from tests.e2e.users import Kubectl, PythonClient, User
from tests.support.command_line import berth
from tests.support.waiting import PATIENCE, Refused, wait_until

JSON = dict[str, Any]
Create = Callable[[JSON], JSON]

pytestmark = pytest.mark.e2e

FOO = {"resourceName": "example.com/foo"}


def resources(found: JSON, container: int = 0) -> JSON:
    return {side: values for side, values in found["spec"]["containers"][container]["resources"].items() if values}


def test_a_pod_gets_what_its_networks_need(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO))
    created(pod("webhook-demo", "foo-network, foo-network"))
    stored = user.get("pod", "webhook-demo")
    assert resources(stored) == {"requests": {"example.com/foo": "2"}, "limits": {"example.com/foo": "2"}}
    assert [volume["name"] for volume in stored["spec"]["volumes"]] == ["podnetinfo"]
    assert stored["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "podnetinfo", "mountPath": "/etc/podnetinfo", "readOnly": True}
    ]


def test_a_pod_without_networks_is_stored_as_written(user: User, created: Create) -> None:
    created(pod("plain", None))
    stored = user.get("pod", "plain")
    assert resources(stored) == {}
    assert not stored["spec"].get("volumes")


def test_a_dry_run_shows_the_injection_and_stores_nothing(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO))
    shown = user.create(pod("only-asking", "foo-network"), dry_run=True)
    assert resources(shown)["requests"] == {"example.com/foo": "1"}
    with pytest.raises(Refused, match="not found"):
        user.get("pod", "only-asking")


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        ("foo-network, Foo Network", ["k8s.v1.cni.cncf.io/networks", "Foo Network"]),
        ("[null]", ["k8s.v1.cni.cncf.io/networks", "null"]),
        ('[{"name": "../../../../api/v1/namespaces/kube-system/secrets/x"}]', ["k8s.v1.cni.cncf.io/networks", "name"]),
        ("no-such-network", ["could not find network attachment definition 'default/no-such-network'"]),
    ],
    ids=["bad name", "null", "crafted name", "missing"],
)
def test_a_bad_annotation_is_denied_with_its_reason(user: User, networks: str, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        user.create(pod("bad", networks))
    assert "denied the request" in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_an_attachment_created_a_moment_ago_is_found(user: User, created: Create) -> None:
    """The cache may not have it yet; one live GET does."""
    for number in range(5):
        created(attachment(f"fresh-{number}", {"resourceName": f"example.com/fresh-{number}"}))
        created(pod(f"fresh-{number}", f"fresh-{number}"))
        assert resources(user.get("pod", f"fresh-{number}"))["limits"] == {f"example.com/fresh-{number}": "1"}


def test_json_selections_node_selectors_and_two_containers(user: User, created: Create) -> None:
    created(attachment("rail-a", {"resourceName": "example.com/rail", "nodeSelector": "rail=a,zone=one"}))
    body = pod("rich", json.dumps([{"name": "rail-a", "interface": "net7"}]), labels={"app": "web"})
    body["spec"]["containers"].append({"name": "sidecar", "image": "envoy:v1"})
    created(body)
    stored = user.get("pod", "rich")
    assert stored["spec"]["nodeSelector"] == {"rail": "a", "zone": "one"}
    assert resources(stored) == {"requests": {"example.com/rail": "1"}, "limits": {"example.com/rail": "1"}}
    assert resources(stored, 1) == {}
    mounts = [[mount["mountPath"] for mount in c["volumeMounts"]] for c in stored["spec"]["containers"]]
    assert mounts == [["/etc/podnetinfo"], ["/etc/podnetinfo"]]


def test_the_container_is_chosen_by_annotation(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO))
    body = pod("chosen", "foo-network", annotations={"berth.dev/resources-container": "sidecar"})
    body["spec"]["containers"].append({"name": "sidecar", "image": "envoy:v1"})
    created(body)
    stored = user.get("pod", "chosen")
    assert resources(stored, 0) == {}
    assert resources(stored, 1)["limits"] == {"example.com/foo": "1"}


def test_what_the_pod_asks_for_already_counts(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO))
    body = pod("topped-up", "foo-network, foo-network")
    body["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/foo": "1", "cpu": "100m"},
        "limits": {"example.com/foo": "1"},
    }
    created(body)
    assert resources(user.get("pod", "topped-up")) == {
        "requests": {"example.com/foo": "2", "cpu": "100m"},
        "limits": {"example.com/foo": "2"},
    }


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_opting_out(user: User, created: Create, where: str) -> None:
    created(attachment("foo-network", FOO))
    created(pod("out", "foo-network", **{where: {"berth.dev/inject": "false"}}))
    assert resources(user.get("pod", "out")) == {}


def test_host_network_pods_are_left_alone(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO))
    created(pod("host", "foo-network", hostNetwork=True))
    assert resources(user.get("pod", "host")) == {}


def test_kube_system_is_exempt(user: User, created: Create) -> None:
    created(attachment("foo-network", FOO, namespace="kube-system"))
    created(pod("system", "foo-network", namespace="kube-system"))
    assert resources(user.get("pod", "system", "kube-system")) == {}


@pytest.mark.parametrize(
    ("annotations", "config", "word"),
    [
        (FOO, "{not json", "spec.config"),
        ({"resourceName": "not a name"}, "", "resourceName"),
        ({"nodeSelector": "a!=b"}, "", "nodeSelector"),
    ],
    ids=["config", "resource name", "node selector"],
)
def test_a_broken_attachment_is_refused_when_it_is_written(
    user: User, annotations: dict[str, str], config: str, word: str
) -> None:
    with pytest.raises(Refused) as refused:
        user.create(attachment("broken", annotations, config=config))
    assert "denied the request" in str(refused.value)
    assert word in str(refused.value)


@pytest.fixture
def registered(kubeconfig: Path) -> Iterator[None]:
    """The webhook configuration for Pods is as it was after the test."""
    kubectl = Kubectl(kubeconfig)
    before = json.loads(kubectl.run("get", "mutatingwebhookconfiguration", "berth", "-o", "json"))["webhooks"]
    yield
    patch = json.dumps([{"op": "replace", "path": "/webhooks", "value": before}])
    kubectl.run("patch", "mutatingwebhookconfiguration", "berth", "--type=json", f"--patch={patch}")


@pytest.mark.usefixtures("registered")
def test_the_control_switches_are_followed(user: User, created: Create, python: PythonClient, kubeconfig: Path) -> None:
    """User-defined injections and the hugepage files, from the ConfigMap, without a restart.

    As with the chart, Berth is asked about Pods with a label of the ConfigMap once the registration names it.
    """
    config = {
        "features": {"enableHugePageDownApi": True},
        "user-defined-injections": {
            "accelerated": {
                "op": "add",
                "path": "/metadata/annotations",
                "value": {"k8s.v1.cni.cncf.io/networks": "foo-network"},
            }
        },
    }
    created(attachment("foo-network", FOO))
    created(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "nri-control-switches", "namespace": RELEASE_NAMESPACE},
            "data": {"config.json": json.dumps(config)},
        }
    )
    told = berth("doctor", "--only", "registrations", "-o", "json", "--kubeconfig", str(kubeconfig))
    (finding,) = (one for one in json.loads(told.stdout)["findings"] if one.get("code") == "BERTH0510")
    subprocess.run(finding["command"], shell=True, check=True, timeout=PATIENCE)
    body = pod("labeled", None, labels={"accelerated": "true"})
    body["spec"]["containers"][0]["resources"] = {
        side: {"hugepages-2Mi": "4Mi", "memory": "64Mi", "cpu": "1"} for side in ("requests", "limits")
    }
    wait_until(lambda: resources(python.create(body, dry_run=True))["limits"].get("example.com/foo") == "1")
    created(body)
    stored = user.get("pod", "labeled")
    assert stored["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "foo-network"
    paths = {item["path"] for item in stored["spec"]["volumes"][0]["downwardAPI"]["items"]}
    assert {"hugepages_2M_request_main", "hugepages_2M_limit_main", "labels", "annotations"} <= paths
    assert {"name": "CONTAINER_NAME", "value": "main"} in stored["spec"]["containers"][0]["env"]
