"""What each shortcut of the webhook gives: a server with all of them against servers that lack one each.

python -m bench.shortcuts NAME webhook …    the command `berth webhook …` without this shortcut
"""

# ruff: noqa: SLF001  it takes out what no setting turns off

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from bench.figures import Figure
from bench.rounds import Duel, Loads, Plan, Progress, take_turns
from bench.servers import running, start_berth
from bench.surroundings import Surroundings

_LOADS = ("plain-distinct", "plain-replicas", "webhook-demo-distinct", "webhook-demo-replicas")


def _replace(owner: object, name: str, value: object) -> None:
    """Raises AttributeError if there is nothing of the name."""
    getattr(owner, name)
    setattr(owner, name, value)


def _connection() -> None:
    """Reviews that are answered as soon as they have come; without it all go through ASGI."""
    from app.admission.connection import BoundedProtocol  # noqa: PLC0415
    from app.admission.server import AnsweringProtocol  # noqa: PLC0415

    _replace(AnsweringProtocol, "data_received", BoundedProtocol.data_received)


def _answers() -> None:
    """Answers to Pods of one template."""
    from app.admission.memo import Memo  # noqa: PLC0415

    _replace(Memo, "asked", lambda _memo, _request: None)


def _searches() -> None:
    """What the networks of an annotation ask for, while their attachments are the same."""
    from app.networks.webhook import NetworksInjector  # noqa: PLC0415

    _replace(NetworksInjector, "_known_networks", lambda _injector, _key: None)


def _plans() -> None:
    """The finished plan of networks, by the shape of the Pod."""
    from app.networks import plan  # noqa: PLC0415

    _replace(plan, "_shape", lambda _pod, _wanted, *, hugepages: None)  # noqa: ARG005


def _untouched() -> None:
    """Plans that are finished until something is planned; without it, no finished plan of networks is used either."""
    from app.admission.chain import MutationPlan  # noqa: PLC0415
    from app.admission.patch import Patch  # noqa: PLC0415

    def begin(plan: MutationPlan) -> None:
        plan.finished, plan.keep, plan.networks, plan.patch = None, True, None, Patch()
        plan.warnings, plan.audit, plan.injected, plan._outcome = [], {}, {}, ("", "")

    _replace(MutationPlan, "__init__", begin)


SHORTCUTS: Mapping[str, Callable[[], None]] = {
    "connection": _connection,
    "answers": _answers,
    "searches": _searches,
    "plans": _plans,
    "untouched": _untouched,
}


def measure(around: Surroundings, loads: Loads, plan: Plan, progress: Progress) -> list[Figure]:
    """For each shortcut and load: the throughput with it as a ratio of that without it."""
    source = ["--manifests", str(around.manifests)]
    figures = []
    with running() as keep:
        progress("starting berth with all shortcuts, and without each")
        whole = keep(start_berth(around, name="shortcuts", source=source))
        others = [keep(start_berth(around, name=f"without-{name}", source=source, without=name)) for name in SHORTCUTS]
        for load in map(loads.__getitem__, _LOADS):
            progress(f"{load.name}: {plan.rounds} rounds with all shortcuts, and without each")
            ours, *theirs = take_turns((whole, *others), around, load, rounds=plan.rounds, seconds=plan.seconds)
            for name, results in zip(SHORTCUTS, theirs, strict=True):
                duel = Duel(load, ours, results)
                figures.append(Figure.median(f"{load.name}: with / without {name}", duel.ratios, economy=duel.economy))
    return figures


if __name__ == "__main__":
    from app.__main__ import main

    SHORTCUTS[sys.argv[1]]()
    sys.argv[:2] = ["berth"]
    main()
