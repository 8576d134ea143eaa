"""What policies do is what the webhook does: each golden, and Pods at random, judged by real API servers both ways."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.kube.documents import parse_documents
from app.networks.model import NETWORKS
from app.networks.settings import Switches, parse_switches
from app.policies.model import Terms
from app.policies.objects import generate
from app.wire import encode_json, load_yaml
from tests.support.chart import ASSETS, Render
from tests.support.policy_pods import ATTACHMENTS, HOME, random_pod, touched
from tests.support.policy_stage import JSON, Stage, Verdict, chart_entry, pod_with, policy_stage
from tests.support.real_parts import needs, since
from tests.unit.networks.test_goldens import CASES, GOLDENS, load

pytestmark = [*needs("etcd", "kube-apiserver"), since(36)]
FOREIGN = ("berth.dev/dpu-of-host",)
OUTCOMES = Path(__file__).with_name("goldens.yaml")
SELECTING = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, render: Render) -> Iterator[Stage]:
    with policy_stage(Path(ASSETS), tmp_path_factory.mktemp("stage"), chart_entry(render)) as stage:
        yield stage


def _home(case: str) -> str:
    return f"golden-{case}"[:63].rstrip("-")


def _moved(text: str, case: str) -> str:
    return re.sub(r"\bdefault\b", _home(case), text)


def _pod(case: str) -> JSON:
    """The Pod of a golden in a namespace of its own, with what an API server wants of any Pod."""
    pod = copy.deepcopy(load(case, "input"))
    metadata, spec = pod.setdefault("metadata", {}), pod.setdefault("spec", {})
    metadata |= {"namespace": _home(case), "name": metadata.get("name", "demo")}
    annotations = metadata.get("annotations") or {}
    for key in SELECTING:
        if annotations.get(key):
            annotations[key] = _moved(str(annotations[key]), case)
    volumes = {volume["name"] for volume in spec.get("volumes") or []} | {"podnetinfo"}
    spec.pop("ephemeralContainers", None)  # they come later
    if "kubernetes.io/config.mirror" in annotations:
        spec["nodeName"] = "node"
    for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
        container.setdefault("image", "busybox")
        sides = container.get("resources") or {}
        if "hugepages-" in str(sides):  # an API server wants cpu beside them
            sides["limits"] = {**(sides.get("limits") or {}), "cpu": "1"}
        for mount in container.get("volumeMounts") or []:
            if mount["name"] not in volumes:
                volumes.add(mount["name"])
                spec["volumes"] = [*(spec.get("volumes") or []), {"name": mount["name"], "emptyDir": {}}]
    return pod


def _attachments(case: str) -> list[JSON]:
    documents = parse_documents(_moved((GOLDENS / case / "attachments.yaml").read_text(), case), source="")
    return [document.content for document in documents]


def _groups() -> dict[bytes, list[str]]:
    groups: dict[bytes, list[str]] = defaultdict(list)
    for case in CASES:
        groups[encode_json(load(case, "options"))].append(case)
    return groups


def _terms(options: JSON) -> tuple[Terms, list[str]]:
    """The terms of a golden's options, and the flags of the webhook."""
    flags = []
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name == "resource_name_keys":
            values[name] = tuple(value)
            flags.append(f"--network-resource-name-keys={','.join(value)}")
        elif name == "hugepage_down_api":
            flags.append("--injectHugepageDownApi")
        elif name != "config":
            flags.append(f"--{name.replace('_', '-')}={value}")
            values[name] = value
    initial = Switches(hugepage_down_api=bool(options.get("hugepage_down_api")))
    config = options.get("config")
    switches = parse_switches(encode_json(config).decode() if config is not None else None, initial=initial)
    values.pop("default_network_namespace", None)
    return Terms(switches=switches, **values), flags


def _outcome(by_webhook: Verdict, by_policy: Verdict) -> str:
    if by_policy.left:
        return f"left: {by_policy.message.partition('denied request: ')[2].partition(';')[0]}"
    if by_webhook.pod != by_policy.pod:
        return f"different: {by_webhook} and {by_policy}"
    return "same" if by_policy.pod is not None else "refused"


def test_goldens(stage: Stage, render: Render) -> None:
    """Each golden is the same Pod, refused by both, or left to the webhook for the reason that `goldens.yaml` has."""
    outcomes: dict[str, list[str]] = defaultdict(list)
    for cases in _groups().values():
        options = load(cases[0], "options")
        terms, flags = _terms(options)
        if terms.mode_in_force != "top-up":
            (left,) = generate([], terms).left
            outcomes[f"left: {left.reason}"] += cases
            continue
        for api in (stage.webhook, stage.policies):
            api.make_namespaces([_home(case) for case in cases])
        attachments = {encode_json(obj["metadata"]): obj for case in cases for obj in _attachments(case)}
        entry = chart_entry(render, *(injection.label for injection in terms.switches.injections))
        stage.serve([*attachments.values()], terms, *flags, switches=options.get("config"), entry=entry)
        for case in cases:
            by_webhook, by_policy = stage.judged(_pod(case), _home(case))
            outcomes[_outcome(by_webhook, by_policy).replace(f"{_home(case)}/", "")].append(case)
            if by_policy.pod is not None:
                assert stage.again(by_policy, _home(case)).pod == by_policy.pod, case
    assert {outcome: sorted(cases) for outcome, cases in outcomes.items()} == load_yaml(OUTCOMES.read_text())


PODS = 3_500
"""Of which more than 2,000 are admitted."""
ADMITTED = 2_000


def _generated() -> list[JSON]:
    chance = random.Random(35)
    return [random_pod(chance) for _ in range(PODS)]


def test_pods_at_random(stage: Stage) -> None:
    """Those that policies do not leave to the webhook are the same, or refused by both."""
    for api in (stage.webhook, stage.policies):
        api.make_namespaces([HOME])
    stage.serve(ATTACHMENTS, Terms(annotations=FOREIGN))
    outcomes = Counter[str]()
    for pod in _generated():
        by_webhook, by_policy = stage.judged(pod, HOME)
        if by_policy.left:
            outcomes[f"left, webhook {'admits' if by_webhook.pod else 'refuses'}"] += 1
            continue
        if by_policy.by == "validation" and by_webhook.pod is not None:
            # One that is left lacks what the webhook injects, and is invalid before a policy can say so.
            outcomes["left, or invalid"] += 1
            continue
        assert by_webhook.pod == by_policy.pod, (pod, by_webhook, by_policy)
        outcomes["refused" if by_policy.pod is None else "same"] += 1
        if by_policy.pod is not None:
            assert stage.again(by_policy, HOME).pod == by_policy.pod
    assert outcomes["same"] > ADMITTED, outcomes
    assert outcomes["left, webhook admits"] > 0, outcomes


def test_pods_that_lack_something_again(stage: Stage) -> None:
    """Served Pods that another has changed: policies do not take for complete what the webhook would complete."""
    for api in (stage.webhook, stage.policies):
        api.make_namespaces([HOME])
    stage.serve(ATTACHMENTS, Terms(annotations=FOREIGN))
    chance, outcomes = random.Random(36), Counter[str]()
    for generated in _generated()[: PODS // 2]:
        served = stage.policies.judged(generated, HOME).pod
        if served is None or NETWORKS not in served["metadata"].get("annotations", {}):
            continue
        pod = touched(chance, served)
        by_webhook, by_policy = stage.judged(pod, HOME)
        if by_policy.left or (by_policy.by == "validation" and by_webhook.pod is not None):
            outcomes["left"] += 1
            continue
        assert by_webhook.pod == by_policy.pod, (pod, by_webhook, by_policy)
        changed = by_policy.pod is not None and by_policy.pod["spec"] != pod["spec"]
        outcomes["refused" if by_policy.pod is None else "completed" if changed else "complete"] += 1
    assert min(outcomes[outcome] for outcome in ("completed", "complete", "refused")) > ADMITTED / 50, outcomes


def test_a_pod_is_evaluated_once(stage: Stage) -> None:
    """An API server calls a policy that changed a Pod again: not for a Pod that has all that its networks need."""
    for api in (stage.webhook, stage.policies):
        api.make_namespaces([HOME])
    stage.serve(ATTACHMENTS, Terms(annotations=FOREIGN))
    for networks, evaluations in (("foo", 1), ("foo, foo2", 1), ("bar,odd, foo", 1), (f"{HOME}/foo", 2)):
        before = stage.policies.evaluations()
        assert stage.policies.judged(pod_with(networks), HOME).pod is not None
        assert stage.policies.evaluations() - before == evaluations, networks
