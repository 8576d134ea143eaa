"""Which rules hold for which workloads, kept up to date event by event.

An event of a workload evaluates the keys under which the rules of its tenant are indexed, each once, and then the
rules that this finds; an event of a rule evaluates the workloads that its terms find. Where that takes long (`heavy`)
it can be prepared in small steps. Pure state of one event loop: it watches nothing and writes nothing. A rule sees the
workloads of its tenants and no others.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.workloads.matching.index import Postings, Preparation, RuleIndex, WorkloadIndex
from app.workloads.model import ObjectKey, Rule, Workload, tenant_namespace
from app.workloads.rules.keys import Facts, Found, compile_key, holds

_EVERYWHERE = ""
"""The scope of rules that see the workloads of all namespaces."""
_AT_ONCE = 20_000
"""Expressions times workloads that a rule is put with at once: some 50 ms."""


@dataclass(slots=True)
class _Kept:
    rule: Rule
    matched: set[ObjectKey] = field(default_factory=set)
    faults: dict[ObjectKey, str] = field(default_factory=dict)
    """By workload: which key cannot be evaluated for it, and why."""


class Matcher:
    """Rules and workloads, and which of them match. Sets that are returned are the caller's own."""

    def __init__(self) -> None:
        self._rules: dict[ObjectKey, _Kept] = {}
        self._faulty: dict[ObjectKey, set[ObjectKey]] = {}
        """By workload: the rules of which a key cannot be evaluated for it; they do not match it."""
        self._workloads: dict[ObjectKey, Workload] = {}
        self._matches: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        """By workload, sorted by (kind, id); only those that match something."""
        self._scopes: dict[str, RuleIndex] = {}
        """By the namespace of the workloads that the rules see."""
        self._spaces: dict[str, WorkloadIndex] = {}

    def rules_of(self, key: ObjectKey) -> tuple[Rule, ...]:
        """The rules that match a workload, sorted by (kind, id); none for an unknown workload."""
        return tuple(self._rules[rule].rule for rule in self._matches.get(key, ()))

    def workloads_of(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The workloads that a rule matches; none for an unknown rule."""
        kept = self._rules.get(key)
        return frozenset() if kept is None else frozenset(kept.matched)

    def count(self, key: ObjectKey) -> int:
        """How many workloads a rule matches."""
        kept = self._rules.get(key)
        return 0 if kept is None else len(kept.matched)

    def faults_of(self, key: ObjectKey) -> Mapping[ObjectKey, str]:
        """By workload: which key of a rule cannot be evaluated for it, and why. The rule does not match it then."""
        kept = self._rules.get(key)
        return {} if kept is None else kept.faults

    def matches(self, rule: ObjectKey, workload: ObjectKey) -> bool:
        kept = self._rules.get(rule)
        return kept is not None and workload in kept.matched

    def put_workload(self, workload: Workload) -> set[ObjectKey]:
        """Add or replace; the keys of the rules that began or ceased to match it.

        Nearly free where the document is the same. The injected values may change for any matching rule, in the result
        or not, so the caller reconciles the workload's companions after every event.
        """
        key = workload.key
        before = self._workloads.get(key)
        self._workloads[key] = workload
        if before is not None and before.document == workload.document:
            return set()
        facts = Facts(workload.document)
        old_facts = None if before is None else Facts(before.document)
        self._space(workload.namespace).move(key, old_facts, facts)
        touched: set[ObjectKey] = set()
        for scope in self._scopes_of(workload.namespace):
            touched |= scope.candidates(facts)
        changed = self._match(key, {rule for rule in touched if holds(self._rules[rule].rule.terms, facts)})
        return changed | self._note_faults(key, facts)

    def remove_workload(self, key: ObjectKey) -> set[ObjectKey]:
        """Forget a workload; the keys of the rules that matched it."""
        workload = self._workloads.pop(key, None)
        if workload is None:
            return set()
        space = self._spaces[workload.namespace]
        space.move(key, Facts(workload.document), None)
        if not space.members:
            del self._spaces[workload.namespace]
        return self._match(key, set()) | self._note_faults(key, None)

    def heavy(self, rule: Rule) -> bool:
        """Whether to put this rule takes so long that it should be prepared: always where a key of a term computes."""
        kept = self._rules.get(rule.key)
        if kept is not None and _sees_the_same(kept.rule, rule):
            return False
        expressions = [expression for term in rule.terms for expression in term]
        if any(compile_key(expression.key).path is None for expression in expressions):
            return True
        none, count = RuleIndex(), 0
        for scope in _namespaces(rule):
            postings = self._scopes.get(scope, none).choose(rule)
            count += sum(self._spaces[name].cost(posting) for name in self._spaces_of(scope) for posting in postings)
        return len(expressions) * count > _AT_ONCE

    def prepare(self, rule: Rule) -> Preparation:
        """Something to do before `put_rule`, a little at a time; until then nothing has changed."""
        none = RuleIndex()
        postings = {scope: self._scopes.get(scope, none).choose(rule) for scope in _namespaces(rule)}
        return Preparation(rule, postings, lambda: self._in_sight(rule))

    def put_rule(self, rule: Rule, preparation: Preparation | None = None) -> set[ObjectKey]:
        """Add or replace; the keys of the workloads that it matched before or matches now, none if it is equal.

        A preparation of the same rule, however old, spares the evaluations that it has done.

        Raises ValueError, and changes nothing, if a key of the rule is none; parsed rules have been checked.
        """
        for term in rule.terms:
            for expression in term:
                compile_key(expression.key)
        kept = self._rules.get(rule.key)
        if kept is not None and kept.rule == rule:
            return set()
        if kept is not None and _sees_the_same(kept.rule, rule):
            kept.rule = rule
            return set(kept.matched)
        old = self._detach(rule.key)
        new = self._attach(rule, preparation)
        if old is not None:
            self._tidy(old.rule)  # only now: keys that both are found by stay tracked
        return (set() if old is None else old.matched) | new.matched

    def remove_rule(self, key: ObjectKey) -> set[ObjectKey]:
        """Forget a rule; the keys of the workloads that it matched."""
        kept = self._detach(key)
        if kept is None:
            return set()
        self._tidy(kept.rule)
        return kept.matched

    def _attach(self, rule: Rule, preparation: Preparation | None) -> _Kept:
        kept = self._rules[rule.key] = _Kept(rule)
        for namespace in _namespaces(rule):
            scope = self._scopes.setdefault(namespace, RuleIndex())
            postings = scope.choose(rule) if preparation is None else preparation.postings[namespace]
            scope.add(rule, postings)
            for name in self._spaces_of(namespace):
                kept.matched |= self._search(rule, postings, self._spaces[name], preparation)
        order = self._order(rule.key)
        for workload in kept.matched:
            others = self._matches.get(workload, ())
            at = bisect(others, order, key=self._order)
            self._matches[workload] = (*others[:at], rule.key, *others[at:])
        return kept

    def _detach(self, key: ObjectKey) -> _Kept | None:
        kept = self._rules.pop(key, None)
        if kept is None:
            return None
        for namespace in _namespaces(kept.rule):
            self._scopes[namespace].remove(key)
        for workload in kept.matched:
            self._keep(workload, tuple(rule for rule in self._matches[workload] if rule != key))
        for workload in kept.faults:
            self._faulty[workload].discard(key)
            if not self._faulty[workload]:
                del self._faulty[workload]
        return kept

    def _tidy(self, rule: Rule) -> None:
        """Where a rule was: end the tracking of keys that no rule is found by any more."""
        for namespace in _namespaces(rule):
            if not self._scopes[namespace]:
                del self._scopes[namespace]
            for space_namespace in self._spaces_of(namespace):
                used = {key for scope in self._scopes_of(space_namespace) for key in scope.keys}
                self._spaces[space_namespace].track_only(used)

    def _search(
        self, rule: Rule, postings: Postings, space: WorkloadIndex, preparation: Preparation | None
    ) -> set[ObjectKey]:
        def value(key: str, workload: Workload) -> Found:
            if preparation:
                self._note(rule.key, workload.key, preparation.fault(workload))
                return preparation.value(key, workload)
            facts = Facts(workload.document)
            fact = facts.find(key)
            self._note(rule.key, workload.key, facts.fault_of(rule.keys))
            return fact

        def met(workload: Workload) -> bool:
            if preparation:
                self._note(rule.key, workload.key, preparation.fault(workload))
                return preparation.holds(workload)
            facts = Facts(workload.document)
            matches = holds(rule.terms, facts)
            self._note(rule.key, workload.key, facts.fault_of(rule.keys))
            return matches

        matches: set[ObjectKey] = set()
        for posting in postings:
            if posting is not None:
                members, key = (self._workloads[member] for member in space.members), posting[0]
                space.track(key, ((member.key, value(key, member)) for member in members))
            matches.update(space.candidates(posting))
        # What another rule has indexed by the same key was not evaluated above.
        for member in self._faulty.keys() & space.members:
            met(self._workloads[member])
        return {key for key in matches if met(self._workloads[key])}

    def _note(self, rule: ObjectKey, workload: ObjectKey, fault: str) -> None:
        if fault:
            self._rules[rule].faults[workload] = fault
            self._faulty.setdefault(workload, set()).add(rule)

    def _note_faults(self, workload: ObjectKey, facts: Facts | None) -> set[ObjectKey]:
        """Replace what is noted of a workload by what `facts` say; the rules for which that is a change."""
        before = {rule: self._rules[rule].faults.pop(workload) for rule in self._faulty.pop(workload, ())}
        if facts is not None and facts.faults:
            scopes = self._scopes_of(workload[0])
            for rule in {rule for scope in scopes for rule in scope.rules}:
                self._note(rule, workload, facts.fault_of(self._rules[rule].rule.keys))
        after = {rule: self._rules[rule].faults[workload] for rule in self._faulty.get(workload, ())}
        return {rule for rule in before.keys() | after.keys() if before.get(rule) != after.get(rule)}

    def _space(self, namespace: str) -> WorkloadIndex:
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = WorkloadIndex()
            for scope in self._scopes_of(namespace):
                for key in scope.keys:
                    space.track(key, ())
        return space

    def _scopes_of(self, namespace: str) -> Iterator[RuleIndex]:
        for name in (namespace, _EVERYWHERE):
            if name in self._scopes:
                yield self._scopes[name]

    def _spaces_of(self, scope: str) -> tuple[str, ...]:
        if scope == _EVERYWHERE:
            return tuple(self._spaces)
        return (scope,) if scope in self._spaces else ()

    def _in_sight(self, rule: Rule) -> Iterator[Workload]:
        for scope in _namespaces(rule):
            for name in self._spaces_of(scope):
                yield from (self._workloads[key] for key in self._spaces[name].members)

    def _match(self, workload: ObjectKey, rules: set[ObjectKey]) -> set[ObjectKey]:
        """Make `rules` what the workload matches; the rules for which that is a change."""
        before = set(self._matches.get(workload, ()))
        changed = before ^ rules
        for rule in changed:
            matched = self._rules[rule].matched
            if rule in rules:
                matched.add(workload)
            else:
                matched.discard(workload)
        if changed:
            self._keep(workload, tuple(sorted(rules, key=self._order)))
        return changed

    def _keep(self, workload: ObjectKey, rules: tuple[ObjectKey, ...]) -> None:
        if rules:
            self._matches[workload] = rules
        else:
            self._matches.pop(workload, None)

    def _order(self, key: ObjectKey) -> tuple[str, str]:
        rule = self._rules[key].rule
        return rule.kind, rule.id


def _sees_the_same(old: Rule, new: Rule) -> bool:
    return (old.terms, _namespaces(old)) == (new.terms, _namespaces(new))


def _namespaces(rule: Rule) -> tuple[str, ...]:
    """Whose workloads a rule sees: the scopes that it stands in."""
    if rule.kind == "tenant":
        return (rule.namespace,)
    if rule.tenants is None:
        return (_EVERYWHERE,)
    return tuple(sorted(map(tenant_namespace, rule.tenants)))
