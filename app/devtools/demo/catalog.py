"""The parts of the demo: their names, what they show, and what was seen when they are over. Data alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """`title` is said before its steps, `seen` after the demo."""

    name: str
    title: str
    seen: str


PARTS = (
    Part(
        "injection",
        "In tenant1: a Pod gets the resources that its networks need",
        "a Pod got the resources and files of its networks; one with a mistake was refused, with the reason",
    ),
    Part(
        "claims",
        "In tenant1: which address each device of a Pod has, and a Service on its second network",
        "a claim said which address each device of a Pod has, and a Service led to its second network",
    ),
    Part(
        "appwrappers",
        "In tenant1: AppWrappers wait for their queue, run, and recover",
        "two jobs shared a quota, one after the other; a third lost its Pod and was run again",
    ),
    Part(
        "rmd",
        "In tenant1: cache ways and P-states for the cores of a Pod, by RMD",
        "cores got cache ways of their own; what could not be reserved was refused, with the reason",
    ),
    Part(
        "companions",
        "Over three clusters: companions on the right DPU",
        "rules ran companions on the DPUs of workloads' hosts, and the tenant saw a mirror of each",
    ),
)
