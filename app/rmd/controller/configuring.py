"""Carries out what an RmdConfig asks for, and says in its status what came of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import Truth, set_condition
from app.kube.controller import Done, Result
from app.kube.resources import DAEMON_SETS
from app.kube.retry import if_there
from app.kube.writing import write_status
from app.rmd.controller.caches import Caches
from app.rmd.controller.installing import AGENT, DAEMON, TEMPLATES, BadTemplate, daemon_set, plan_node_states
from app.rmd.model import READY, RMD_CONFIGS, RMD_NODE_STATES, TEMPLATE_HASH
from app.rmd.stored import Config
from app.text import MESSAGE, cut, one_line
from app.wire import JSON, copied

_FIELD_MANAGER = "berth-rmd"
_NAMED = 5000
"""Nodes that the status names; the condition says how many there are."""


class ConfigSync:
    """`namespace` is that of the daemons: an RmdConfig anywhere else counts for nothing, and its status says so."""

    def __init__(self, client: KubeClient, caches: Caches, now: Callable[[], datetime], *, namespace: str) -> None:
        self._client, self._caches, self._now, self._namespace = client, caches, now, namespace

    async def reconcile(self, namespace: str) -> Result:
        """What an RmdConfig has made goes with it, by the garbage collector."""
        config = self._caches.config_in(namespace)
        if config is None:
            return Done()
        if namespace != self._namespace:
            text = f"nothing is done: want it in namespace {self._namespace}, where the daemons are (rmd.namespace)"
            await self._write(config, dict(config.status), "False", "WrongNamespace", text)
            return Done()
        plan = plan_node_states(config, self._caches.nodes_by_name(), self._caches.node_states.values())
        problems = [await self._daemon_set(DAEMON, config, wanted=True)]
        problems.append(await self._daemon_set(AGENT, config, wanted=config.agent))
        for state in plan.delete:
            name = state.key[1]
            await if_there(self._client.delete(RMD_NODE_STATES, name, namespace=namespace, uid=state.uid))
        problems += [await self._create(body, namespace) for body in plan.create]
        await self._say(config, list(plan.nodes), "; ".join(problem for problem in problems if problem))
        return Done()

    async def _create(self, body: JSON, namespace: str) -> str:
        """What is wrong with an RmdNodeState, "" where nothing is: it holds up no other.

        A node may have a name that is too long for one.
        """
        try:
            await self._client.create(RMD_NODE_STATES, body, namespace=namespace)
        except ApiError as error:
            if not error.about_object:
                raise
            return "" if error.conflict else f"RmdNodeState {cut(body['metadata']['name'])}: {error}"
        return ""

    async def _daemon_set(self, name: str, config: Config, *, wanted: bool) -> str:
        """What is wrong with a DaemonSet, "" where nothing is. One that another controller has is left alone."""
        found = self._caches.daemon_sets.get(config.key[0], name)
        if found is not None and found.owner not in ("", config.uid):
            return f"DaemonSet {name} belongs to another controller"
        if not wanted:
            if found is not None and found.owner == config.uid:
                request = self._client.delete(DAEMON_SETS, name, namespace=config.key[0], uid=found.uid)
                await if_there(request)
            return ""
        try:
            made = daemon_set(name, self._caches.templates, config)
        except BadTemplate as error:
            return str(error)
        if made is None:
            return (
                "" if found is not None else f"DaemonSet {name}: there is neither one nor a template {TEMPLATES[name]}"
            )
        if found is not None and not found.owner:
            return f"DaemonSet {name} is managed by hand: delete it, or its template {TEMPLATES[name]}"
        applied = made["metadata"]["annotations"][TEMPLATE_HASH]
        if found is None or found.applied != applied or found.selector != config.selector:
            try:
                await self._client.apply(DAEMON_SETS, name, made, namespace=config.key[0], field_manager=_FIELD_MANAGER)
            except ApiError as error:
                # Retries are of no use until the RmdConfig, the template or a policy changes.
                if not error.rejected and error.status != 403:
                    raise
                return f"DaemonSet {name}: {error}"
        return ""

    async def _say(self, config: Config, nodes: list[str], problem: str) -> None:
        after = dict(config.status) | {"nodes": nodes[:_NAMED]}
        truth: Truth = "False" if problem or not nodes else "True"
        reason = "NotDeployed" if problem else "Deployed" if nodes else "NoNodes"
        selector = ",".join(f"{name}={value}" for name, value in sorted(config.selector.items()))
        message = one_line(problem, MESSAGE) or f"{len(nodes)} nodes have the labels {selector}"
        await self._write(config, after, truth, reason, message)

    async def _write(self, config: Config, status: JSON, truth: Truth, reason: str, message: str) -> None:
        after = copied(status) | {"observedGeneration": config.generation}
        set_condition(after, READY, truth, reason, message, now=self._now(), generation=config.generation)
        if after != config.status:
            await write_status(self._client, RMD_CONFIGS, config.key, config.uid, after)
