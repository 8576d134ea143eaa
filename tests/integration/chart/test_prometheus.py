"""Alerts and dashboard in Prometheus' own evaluation, over the series of a real scrape of all roles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.chart.promql import Reader, Selector
from tests.integration.chart.test_monitoring import OF_THE_TARGET, PANELS, RULES, exposed, plain
from tests.support.chart import CHART, Render
from tests.support.chart_combinations import COMBINATIONS
from tests.support.real_parts import needs, real_part
from tests.support.scraping import JOBS, Exposed

__all__ = ["exposed"]

pytestmark = needs("promtool")
JSON = dict[str, Any]
MINUTES = 180
"""Longer than any alert waits (`for`) and looks back."""
STILL, RISING = f"+0x{MINUTES}", f"0+100x{MINUTES}"
GAUGES = dict.fromkeys(("BerthNoLeader", "BerthTenantDisconnected", "BerthAgentStreamDown", "BerthRmdDaemonDown"), 0)
GAUGES |= dict.fromkeys(("BerthCertificateExpiring", "BerthCertificateEnds", "BerthRenewalOverdue"), 0)
GAUGES["BerthRmdReservationsMissing"] = 1
"""The value of each gauge that an alert reads, where it is not for a high one."""
HIGH = 1_000_000
ABSENT = [rule["alert"] for rule in RULES if rule["expr"].startswith("absent(")]


class Series:
    """One series of the scrape, with the labels that Prometheus adds."""

    def __init__(self, name: str, labels: dict[str, str], kind: str, value: float) -> None:
        self.name, self.labels, self.kind, self.value = name, labels, kind, value

    def text(self, values: str) -> JSON:
        quoted = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(self.labels.items()))
        return {"series": f"{self.name}{{{quoted}}}", "values": values}

    @property
    def gauge(self) -> bool:
        return self.kind in ("gauge", "info", "unknown")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@pytest.fixture(scope="module")
def scraped(exposed: dict[str, Exposed]) -> list[Series]:
    """Each process is a Pod of its own: what two of them expose is two series."""
    found = []
    for process, one in exposed.items():
        target = {**OF_THE_TARGET, "pod": process.replace(" --", "-"), "job": f"berth-{JOBS.get(process, process)}"}
        for (name, labels), value in one.values.items():
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            kind = one.kinds.get(name) or one.kinds.get(family, "counter")
            found.append(Series(name, {**dict(labels), **target}, kind, value))
    return found


def promtool(path: Path, *tests: JSON, rules: Path = CHART / "files" / "alerts.yaml") -> str:
    """What is wrong, "" where nothing is."""
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [*tests]}))
    done = subprocess.run(
        [str(real_part("promtool")), "test", "rules", path], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def evaluated(expression: str, count: int) -> JSON:
    """An expression at the end, which has to be this number."""
    samples = [{"labels": "{}", "value": count}]
    return {"expr": expression, "eval_time": f"{MINUTES}m", "exp_samples": samples}


def fires(alert: str, count: int) -> JSON:
    return evaluated(
        f'count(count by (alertname) (ALERTS{{alertname="{alert}",alertstate="firing"}})) or vector(0)', count
    )


def world(name: str, series: list[JSON], *expected: JSON) -> JSON:
    return {"name": name, "interval": "1m", "input_series": series, "promql_expr_test": [*expected]}


def selectors_of(expression: str, scraped: list[Series]) -> list[Selector]:
    def labels_of(selector: Selector) -> set[str]:
        return {label for series in scraped if series.name == selector.metric for label in series.labels}

    reader = Reader(plain(expression), labels_of)
    reader.read()
    return reader.selectors


def matches(series: Series, selector: Selector) -> bool:
    return series.name == selector.metric and all(matcher.holds(series.labels) for matcher in selector.matchers)


def storm(rule: JSON, scraped: list[Series]) -> list[JSON]:
    """What the alert is about: the counters of its narrowest selector rise, and its gauges have the value."""
    selectors = selectors_of(rule["expr"], scraped)
    narrow = max((len(s.matchers) for s in selectors), default=0)
    found = []
    for series in scraped:
        about = [s for s in selectors if matches(series, s)]
        if not about:
            continue
        if series.gauge:
            found.append(series.text(f"{GAUGES.get(rule['alert'], HIGH)}{STILL}"))
        else:
            slow = series.labels.get("le", "+Inf") == "+Inf"
            rises = slow and any(len(s.matchers) == narrow for s in about) and rule["alert"] != "BerthQueueStuck"
            found.append(series.text(RISING if rises else f"0{STILL}"))
    return found


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_fires_when_what_it_is_about_happens(scraped: list[Series], tmp_path: Path, rule: JSON) -> None:
    series = [] if rule["alert"] in ABSENT else storm(rule, scraped)
    assert promtool(tmp_path / "test.yaml", world(rule["alert"], series, fires(rule["alert"], 1))) == ""


def test_no_alert_fires_where_all_is_well(scraped: list[Series], tmp_path: Path) -> None:
    """The scrape as it is, hour after hour."""
    series = [one.text(f"{one.value}{STILL}") for one in scraped]
    wanted = [fires(rule["alert"], 0) for rule in RULES]
    assert promtool(tmp_path / "test.yaml", world("well", series, *wanted)) == ""


@pytest.mark.parametrize(("title", "expression", "legend"), PANELS, ids=[f"{p[0]}-{n}" for n, p in enumerate(PANELS)])
def test_a_panel_shows_what_happens(
    scraped: list[Series], tmp_path: Path, title: str, expression: str, legend: str
) -> None:
    selectors = selectors_of(expression, scraped)
    read = [series for series in scraped if any(matches(series, one) for one in selectors)]
    series = [one.text(f"{one.value}{STILL}" if one.gauge else RISING) for one in read]
    shown = evaluated(f"(count({plain(expression)}) > bool 0) or vector(0)", 1)
    assert promtool(tmp_path / "test.yaml", world(title, series, shown)) == ""


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)
def test_prometheus_loads_the_rules_of_each_combination(render: Render, tmp_path: Path, values: JSON) -> None:
    rendered = render(values | {"monitoring": {"prometheusRule": {"enabled": True}}, "fullnameOverride": "other"})
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rendered.one("PrometheusRule")["spec"]))
    done = subprocess.run(
        [str(real_part("promtool")), "check", "rules", "--lint-fatal", tmp_path / "rules.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
