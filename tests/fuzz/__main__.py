"""Measures reviews of every kind at their worst, then sends random ones, over TLS to a webhook that counts its steps.

    python -m tests.fuzz --inputs 100000 --seed 1

It ends with status 1 where an answer was none, or cost too much. `--table` writes what was measured into the docs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.inputs import input_of
from tests.fuzz.kinds import kinds
from tests.fuzz.oracle import Medians, measure, problems, worst_cases
from tests.fuzz.running import Counted, webhooks
from tests.fuzz.table import Row, write

_HEALTH = 500
"""Inputs between two looks at the health of the process."""
_SHOWN = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=100_000, help="random reviews (default: 100000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random reviews (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first random review (default: 0)")
    parser.add_argument("--no-worst", action="store_true", help="send the random reviews alone")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of members that grow, for each kind (default: 20)")
    parser.add_argument("--singles", type=int, help="members that grow, for each kind (default: all)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 256, 1024], help="KiB by which objects grow")
    parser.add_argument("--kinds", default="", help="measure kinds with this in their name alone")
    parser.add_argument("--table", action="store_true", help="write the worst of each kind into docs/scaling.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, webhooks(Path(folder)) as started:
        medians = measure(next(iter(started.values())))
        _say(f"steps of an ordinary review by size class: {', '.join(f'{one:.0f}' for one in medians.steps.values())}")
        faults: list[str] = []
        if not options.no_worst:
            rows = list(_worst(started, medians, options, faults))
            if options.table:
                write(rows)
        faults += _random(started, medians, options)
        for webhook in started.values():
            faults += webhook.faults
    for fault in faults[:_SHOWN]:
        _say(fault)
    _say(f"{len(faults)} faults")
    return min(len(faults), 1)


def _worst(
    started: dict[str, Counted], medians: Medians, options: argparse.Namespace, faults: list[str]
) -> Iterator[Row]:
    """The worst review of each kind."""
    for kind in kinds():
        if options.kinds not in kind.name:
            continue
        worst: Row | None = None
        count = 0
        for settings, webhook in started.items():
            for size in options.sizes:
                for case in worst_cases(kind, size * 1024, pairs=options.pairs, singles=options.singles):
                    body = case.body()
                    answer = webhook.ask(body, kind.path)
                    ratio = medians.ratio(body, answer.steps)
                    faults += [f"{case} ({settings}): {one}" for one in problems(body, answer, medians)]
                    count += 1
                    if worst is None or ratio > worst.ratio:
                        worst = Row(case, settings, ratio)
        if worst is not None:
            _say(f"{worst.ratio:6.1f}  {worst.case} ({worst.settings}; {count} cases)")
            yield worst


def _random(started: dict[str, Counted], medians: Medians, options: argparse.Namespace) -> list[str]:
    faults: list[str] = []
    begin, names = time.monotonic(), [*started]
    worst = 0.0
    for number in range(options.first, options.first + options.inputs):
        settings = names[number % len(names)]
        path, body, what = input_of(options.seed, number)
        answer = started[settings].ask(body, path)
        worst = max(worst, medians.ratio(body, answer.steps))
        faults += [f"{number} ({settings}) {what}: {one}" for one in problems(body, answer, medians)]
        if number % _HEALTH == 0:
            healthy = [webhook.get("/healthz")[0] for webhook in started.values()]
            faults += [] if healthy == [200] * len(started) else [f"{number}: /healthz answers {healthy}"]
        if number % 10_000 == 9_999:
            _say(f"{number + 1} inputs, {(number + 1 - options.first) / (time.monotonic() - begin):.0f} a second")
    _say(f"{options.inputs} random reviews in {time.monotonic() - begin:.0f} s, the worst cost {worst:.1f} times")
    return faults


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
