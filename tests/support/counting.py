"""Reads what a metric has counted."""

from __future__ import annotations

from collections import Counter

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase


def value(metric: MetricWrapperBase) -> float:
    """What a counter or a gauge has now, or its child of some labels."""
    (family,) = metric.collect()
    return family.samples[0].value


class Counted:
    """The increases of a counter since this was made, by the value of `label`; zeros are left out."""

    def __init__(self, name: str, label: str, **others: str) -> None:
        self._name, self._label, self._others = name, label, others
        self._before = self._now()

    def __call__(self) -> Counter[str]:
        return self._now() - self._before

    def _now(self) -> Counter[str]:
        return Counter(
            {
                sample.labels[self._label]: int(sample.value)
                for family in REGISTRY.restricted_registry([self._name]).collect()
                for sample in family.samples
                if self._others.items() <= sample.labels.items()
            }
        )
