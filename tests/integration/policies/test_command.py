"""`berth policies generate`: what it prints is taken by a real API server, by kubectl's way and as files."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from app.kube.resources import MUTATING_WEBHOOKS
from app.networks.settings import Injection, Switches
from app.policies.objects import CONDITION, generate
from app.policies.terms import terms_of
from app.registration import rules_of
from app.registry import settings_of
from tests.support.chart import ASSETS
from tests.support.command_line import berth
from tests.support.hooks import hooked, patching
from tests.support.policy_stage import JSON, Api, Verdict, network, pod_with
from tests.support.real_apiserver import real_api_servers
from tests.support.real_parts import needs, since

pytestmark = [*needs("etcd", "kube-apiserver")]


@pytest.fixture
def attachments(tmp_path: Path) -> Path:
    path = tmp_path / "nads.yaml"
    path.write_text(yaml.safe_dump_all([network("foo", "example.com/foo"), network("dots.in.name", "example.com/foo")]))
    return path


def _printed(*words: str) -> str:
    """What the command prints; what policies leave is named aside."""
    done = berth("policies", "generate", *words, columns=200)
    assert done.returncode == 0, done.stderr
    assert "left to the webhook: NetworkAttachmentDefinition default/dots.in.name: its name has dots" in done.stderr
    return done.stdout


def _until(look: Callable[[], Verdict], accept: Callable[[Verdict], bool]) -> Verdict:
    """The first verdict that is accepted, or the last."""
    pause, verdict = threading.Event(), look()
    for _ in range(100):
        if accept(verdict):
            break
        pause.wait(0.2)
        verdict = look()
    return verdict


def _until_injected(api: Api) -> None:
    verdict = _until(
        lambda: api.judged(pod_with("foo,foo"), "default"),
        lambda verdict: verdict.pod is not None and "volumes" in verdict.pod["spec"],
    )
    assert verdict.pod is not None, verdict
    amounts = {"example.com/foo": "2"}
    (container,) = verdict.pod["spec"]["containers"]
    assert container["resources"] == {"requests": amounts, "limits": amounts}


@contextlib.contextmanager
def _applied(directory: Path, attachments: Path) -> Iterator[Api]:
    """An API server that injects by what the command prints."""
    printed = _printed("-f", str(attachments))
    with real_api_servers(Path(ASSETS), directory, ["cluster"]) as kubeconfigs:
        api = Api(kubeconfigs["cluster"])
        for obj in yaml.safe_load_all(printed):
            api.apply(obj)
        _until_injected(api)
        yield api


@since(36)
def test_what_is_printed_is_applied(tmp_path: Path, attachments: Path) -> None:
    with _applied(tmp_path, attachments):
        pass


@since(37)
def test_an_api_server_takes_the_files_without_any_object(tmp_path: Path, attachments: Path) -> None:
    """KEP-5793: policies that are there before the first request, and that nobody can delete by the API."""
    written = _printed("-f", str(attachments), "-o", "manifests", "--dir", str(tmp_path / "files"))
    configuration = tmp_path / "admission.yaml"
    configuration.write_text(written)
    arguments = [f"--admission-control-config-file={configuration}"]
    with real_api_servers(Path(ASSETS), tmp_path, ["cluster"], arguments=arguments) as kubeconfigs:
        api = Api(kubeconfigs["cluster"])
        _until_injected(api)
        verdict = api.judged(pod_with("foo@lo"), "default")
        assert "want a name of its own for each interface" in verdict.message
        assert "only the webhook" in api.judged(pod_with("missing"), "default").message


@since(36)
def test_a_pod_that_gets_its_networks_too_late_is_refused(tmp_path: Path, attachments: Path) -> None:
    """An API server does not evaluate a policy again that did not match before: the Pod would lack its devices.

    Webhooks run after all policies, which have no order among each other.
    """
    late = {"op": "add", "path": "/metadata/annotations", "value": {"k8s.v1.cni.cncf.io/networks": "foo"}}
    with _applied(tmp_path, attachments) as api, hooked() as hook:
        hook.answer = lambda _request: patching(late)
        webhook = {
            "name": "late.hook.test",
            "clientConfig": hook.client(),
            "rules": rules_of("pods"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        api.apply(MUTATING_WEBHOOKS.body({"name": "late"}, webhooks=[webhook]))
        verdict = _until(lambda: api.judged(pod_with(None), "default"), lambda verdict: verdict.pod is None)
        assert "policies run before webhooks" in verdict.message


EVERYTHING = {
    "claims": True,
    "rmd_backend": "auto",
    "confine_tenants": True,
    "node_selector_conflict": "deny",
    "inject_hugepage_down_api": True,
}
HOSTILE = Injection("a.b/c'] || true || ['", {"note": "1"})


@since(36)
def test_an_api_server_compiles_what_any_settings_and_attachments_give(tmp_path: Path) -> None:
    """Without attachments, without selectors, with all that is on, and with a label that ends a string of CEL."""
    with real_api_servers(Path(ASSETS), tmp_path, ["cluster"]) as kubeconfigs:
        api = Api(kubeconfigs["cluster"])
        for flags in ({}, EVERYTHING):
            settings = settings_of("webhook").load({"manifests": None, **flags}, environment=False)
            switches = Switches(hugepage_down_api=bool(flags), injections=(HOSTILE,))
            for attachments in ([], [network("plain")], [network("foo", "example.com/foo")]):
                _compiles(api, generate(attachments, terms_of(settings, switches)).objects, "")
                both = generate(attachments, terms_of(settings, switches, mode="both"))
                _compiles(api, both.objects, both.condition)


def _compiles(api: Api, objects: list[JSON], condition: str) -> None:
    for obj in objects:
        api.apply(obj)
    if condition:
        webhook = {
            "name": "pods.berth.dev",
            "clientConfig": {"url": "https://localhost:1/mutate"},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "matchConditions": [{"name": CONDITION, "expression": condition}],
        }
        api.apply(MUTATING_WEBHOOKS.body({"name": "berth"}, webhooks=[webhook]))
