"""Dashboard and alerts against what real roles expose: each name, label and value that they speak of is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from app.registry import BY_NAME
from docs.generate.catalog import catalog
from tests.integration.chart.promql import Matcher, PromQLError, Reader, Selector, Value
from tests.support.chart import CHART, Render
from tests.support.scraping import JOBS, Exposed, exposed

__all__ = ["exposed"]

# The first test starts a process of every role.
ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
NAMES = [rule["alert"] for rule in RULES]
OF_THE_TARGET = {"namespace": "berth-system", "pod": "berth-0", "instance": "10.0.0.1:8444"}
"""Labels that Prometheus adds; the job is the role's."""
UNUSED = {"appwrapper_phase_total"}
"""Metrics of ours that are for looking closer by hand, and the one of AppWrapper v1.2, for dashboards made for that."""


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


PANELS = [(title, target["expr"], target["legendFormat"]) for title, target in targets()]


def plain(expression: str) -> str:
    """As Grafana asks it: an interval, and every value of each variable."""
    filled = expression.replace("$__rate_interval", "5m")
    return re.sub(r'=~"\$(\w+)"', '=~".*"', filled)


@pytest.fixture(scope="session")
def series(exposed: dict[str, Exposed]) -> dict[str, list[dict[str, str]]]:
    """All series by name, with the labels that Prometheus adds."""
    found: dict[str, list[dict[str, str]]] = {}
    for process, one in exposed.items():
        for name, several in one.series.items():
            job = f"berth-{JOBS.get(process, process)}"
            found.setdefault(name, []).extend({**labels, **OF_THE_TARGET, "job": job} for labels in several)
    return found


class Known:
    """Reads expressions against series; each selector must find some, and each of its alternatives must."""

    def __init__(self, series: dict[str, list[dict[str, str]]]) -> None:
        self._series = series

    def labels_of(self, selector: Selector) -> set[str]:
        found = [
            labels
            for labels in self._series.get(selector.metric, ())
            if all(m.holds(labels) for m in selector.matchers)
        ]
        if not found:
            raise PromQLError(f"no series: {selector}")
        for matcher in selector.matchers:
            for value in alternatives(matcher):
                if not any(
                    Matcher(matcher.label, "=", value).holds(labels) for labels in self._series[selector.metric]
                ):
                    raise PromQLError(f"{selector.metric} has no {matcher.label}={value}")
        return set.union(*map(set, found))

    def read(self, expression: str) -> tuple[Value, list[Selector]]:
        reader = Reader(plain(expression), self.labels_of)
        return reader.read(), reader.selectors


def alternatives(matcher: Matcher) -> list[str]:
    """The values that a matcher spells out: each must exist, lest it be one that never does."""
    if "~" not in matcher.sign:
        return [matcher.value]
    if match := re.fullmatch(r"([\w-]*)\(([\w|]+)\)", matcher.value):
        return [match[1] + word for word in match[2].split("|")]
    return [word for word in matcher.value.split("|") if re.fullmatch(r"[\w-]+", word)]


@pytest.fixture(scope="session")
def known(series: dict[str, list[dict[str, str]]]) -> Known:
    return Known(series)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_speaks_of_what_roles_expose(known: Known, rule: dict[str, Any]) -> None:
    value, selectors = known.read(rule["expr"])
    assert value.kind == "vector"
    text = " ".join(rule["annotations"].values())
    told = set(re.findall(r"\$labels\.(\w+)", text))
    assert told <= value.labels, "an annotation names a label that the result does not have"
    # Other programs have a `leader` and a `queue_depth` too.
    for selector in selectors:
        assert any(m.label == "job" and m.value.startswith("berth-") for m in selector.matchers), selector


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Berth[A-Z][A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["labels"].get("role") in (None, *BY_NAME)
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/troubleshooting.md#{rule['alert'].lower()}"
    assert len(rule["annotations"]["summary"]) < 120
    # The consequence, and what to do.
    assert len(re.findall(r"[.:;] ", rule["annotations"]["description"] + " ")) >= 2


def test_no_alert_has_the_name_of_another() -> None:
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize(("title", "expression", "legend"), PANELS, ids=[f"{p[0]}-{n}" for n, p in enumerate(PANELS)])
def test_a_panel_speaks_of_what_roles_expose(known: Known, title: str, expression: str, legend: str) -> None:
    value, selectors = known.read(expression)
    assert value.kind == "vector"
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= value.labels, title
    for selector in selectors:
        assert any(m.label == "job" for m in selector.matchers), selector


def test_every_metric_of_ours_is_shown_or_warned_of(known: Known) -> None:
    expressions = [rule["expr"] for rule in RULES] + [expression for _, expression, _ in PANELS]
    used = {re.sub(r"_bucket$", "", s.metric) for expression in expressions for s in known.read(expression)[1]}
    assert {metric.name for metric in catalog()} - used == UNUSED


def test_the_dashboard_is_one_that_grafana_10_reads() -> None:
    assert DASHBOARD["schemaVersion"] == 39
    assert "id" not in DASHBOARD, "an id is one Grafana's own"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert [row.split()[0] for row in rows] == [
        *(
            "Admission",
            "Injection",
            "Caches",
            "Reconcile",
            "Certificates",
            "Gateway",
            "Agent",
            "AppWrappers",
            "RMD",
            "Claims",
            "Process",
        )
    ]
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_variables_of_the_dashboard_are_declared_and_ask_for_what_is_there(known: Known) -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD["panels"]))) - {"__rate_interval"}
    assert used == set(variables)
    for name, variable in variables.items():
        if name != "datasource":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match is not None
            assert match[2] in known.read(match[1])[0].labels


BAD = {
    "sum(leader": "unclosed left parenthesis",
    "rate(leader)": "rate",
    "leader[5m] > 1": "only scalar and instant vector",
    "sum by (pot) (leader)": "pot",
    "no_such_metric": "no series",
    'leader{lease="other"}': "no series",
    'watch_restarts_total{reason=~"eof|nonsense"}': "nonsense",
    "sum by (job) (leader) / sum by (pod) (leader)": "never match",
    "histogram_quantile(0.9, sum by (webhook) (admission_duration_seconds_bucket))": "histogram_quantile",
    "leader == 1 1": "invalid promql",
    "leader $ 1": "unexpected character",
}


@pytest.mark.parametrize("expression", BAD)
def test_mistakes_in_expressions_are_found(known: Known, expression: str) -> None:
    with pytest.raises(PromQLError, match=BAD[expression]):
        known.read(expression)


ALL_ON: dict[str, Any] = {
    "monitoring": {kind: {"enabled": True} for kind in ("serviceMonitor", "prometheusRule", "dashboard")},
}


def test_nothing_of_monitoring_is_rendered_unasked(render: Render) -> None:
    assert {"ServiceMonitor", "PrometheusRule"} & {obj["kind"] for obj in render()} == set()
    assert [obj for obj in render().of("ConfigMap") if obj["metadata"]["name"].endswith("-dashboard")] == []


def test_rules_are_those_of_the_roles_that_run(render: Render) -> None:
    spec = render(ALL_ON).one("PrometheusRule")["spec"]
    rules = [rule for group in spec["groups"] for rule in group["rules"]]
    assert {rule["labels"]["role"] for rule in rules if "role" in rule["labels"]} == {"webhook", "certificates"}
    wanted = [rule for rule in RULES if rule["labels"].get("role") in (None, "webhook", "certificates")]
    assert rules == wanted, "as in the file, where the release is called berth"


def test_rules_name_the_jobs_of_the_release(render: Render) -> None:
    rendered = render({**ALL_ON, "fullnameOverride": "other"})
    text = yaml.safe_dump(rendered.one("PrometheusRule")["spec"], width=10_000)
    assert 'job="berth-' not in text
    assert 'job=~"berth-' not in text
    assert 'job="other-webhook"' in text
    monitor = rendered.one("ServiceMonitor")["spec"]
    (relabeling,) = monitor["endpoints"][0]["relabelings"]
    assert relabeling["targetLabel"] == "job"
    assert relabeling["replacement"] == "other-$1"


def test_the_monitor_finds_the_metrics_service_of_each_role(render: Render) -> None:
    rendered = render(ALL_ON)
    monitor = rendered.one("ServiceMonitor")
    selector = monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = monitor["spec"]["endpoints"]
    services = [s for s in rendered.of("Service") if selector.items() <= s["metadata"]["labels"].items()]
    components = {service["metadata"]["labels"]["app.kubernetes.io/component"] for service in services}
    deployments = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in rendered.of("Deployment")}
    assert components == deployments
    assert len(services) == len(deployments), "scraped once"
    for service in services:
        assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]


def test_the_dashboard_is_rendered_as_it_is_and_found_by_its_label(render: Render) -> None:
    found = render(ALL_ON).one("ConfigMap", "berth-dashboard")
    assert json.loads(found["data"]["berth.json"]) == DASHBOARD
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_labels_for_selectors_are_added(render: Render) -> None:
    values = {"monitoring": {"prometheusRule": {"enabled": True, "labels": {"release": "stack"}},
                             "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "stack"}}}}  # fmt: skip
    rendered = render(values)
    assert rendered.one("PrometheusRule")["metadata"]["labels"]["release"] == "stack"
    assert rendered.one("ServiceMonitor")["metadata"]["labels"]["release"] == "stack"
    assert rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["interval"] == "15s"
