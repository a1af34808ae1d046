"""Which definitions and policies this process has loaded, and what the store says of the others."""

from __future__ import annotations

from collections.abc import Sequence

from mayura.runtime.core import values
from mayura.runtime.core.definition import Definition, ToolNode
from mayura.runtime.core.differing import first_difference
from mayura.runtime.core.manifest import from_manifest, to_manifest
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import Run
from mayura.runtime.core.workflow import Workflow
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.loaded import AnyWorkflow, Pinned
from mayura.runtime.ports import Store


class Registry:
    """Workflows and policies by digest. A run keeps its own of each until its end (G12)."""

    def __init__(
        self, workflows: Sequence[AnyWorkflow], policy: Policy, previous: Sequence[Policy]
    ) -> None:
        self.policy = policy
        self._workflows = {w.definition.digest: w for w in workflows}
        self._policies = {p.digest: p for p in (policy, *previous)}
        self._definitions: dict[bytes, Definition] = {
            digest: w.definition for digest, w in self._workflows.items()
        }
        self._stored_policies: dict[bytes, Policy] = {}

    @property
    def timeout_s_max(self) -> float:
        """The longest timeout of a loaded tool, in seconds."""
        nodes = (n for w in self._workflows.values() for n in w.definition.nodes)
        timeouts = (n.tool.timeout_ms for n in nodes if isinstance(n, ToolNode))
        return max(timeouts, default=0) / 1_000

    async def store_all(self, store: Store) -> None:
        """Keep every manifest, so that a run can be read without its code."""
        for digest, workflow in self._workflows.items():
            manifest = values.encode(to_manifest(workflow.definition))
            await store.put_definition(digest, workflow.id, workflow.version, manifest)
        for digest, policy in self._policies.items():
            await store.put_policy(digest, values.encode(policy.manifest()))

    def refuse_unknown(self, workflow: AnyWorkflow) -> None:
        """Raise INVALID_CONFIG unless `workflow` is one of those loaded here."""
        if not isinstance(workflow, Workflow):
            kind = type(workflow).__name__
            text = f"submit takes a workflow, not a {kind}: hand over what @workflow(...) made"
            raise MayuraError(Code.INVALID_CONFIG, text)
        if workflow.definition.digest not in self._workflows:
            name = f"workflow {workflow.id!r} version {workflow.version!r}"
            known = sorted(f"{w.id!r} version {w.version!r}" for w in self._workflows.values())
            text = f"{name} is not among this engine's workflows ({', '.join(known) or 'none'})"
            raise MayuraError(Code.INVALID_CONFIG, f"{text}: list it there")

    def accepts(self, definition: bytes, policy: bytes) -> bool:
        """Whether a run so pinned may advance in this process."""
        return definition in self._workflows and policy in self._policies

    def refusal(self, run: Run, pinned: Pinned) -> MayuraError:
        """Why the run does not advance here, and what would let it."""
        workflow = f"{pinned.definition.id!r} version {pinned.definition.version!r}"
        if run.definition not in self._workflows:
            text = f"workflow {workflow} of run {run.run_id} is not loaded here"
            for loaded in self._workflows.values():
                if (loaded.id, loaded.version) == (pinned.definition.id, pinned.definition.version):
                    place = first_difference(pinned.definition, loaded.definition)
                    text += f": the one loaded under this version was edited ({place}); "
                    text += "give it a new version and load the old one beside it"
                    return MayuraError(Code.CONFLICT, text)
            return MayuraError(Code.CONFLICT, f"{text}; list it in this engine's workflows")
        return MayuraError(
            Code.CONFLICT,
            f"the policy (version {pinned.policy.version!r}) of run {run.run_id} is not accepted "
            "here; list it in previous_policies",
        )

    async def pinned(self, store: Store, run: Run) -> Pinned:
        """The run's own definition and policy; the code too where this process accepts both."""
        workflow = self._workflows.get(run.definition)
        accepted = self.accepts(run.definition, run.policy)
        return Pinned(
            await self._definition(store, run.definition),
            await self._policy(store, run.policy),
            workflow if accepted else None,
        )

    async def _definition(self, store: Store, digest: bytes) -> Definition:
        known = self._definitions.get(digest)
        if known is None:
            stored = await store.definition(digest)
            if stored is None:
                raise MayuraError(Code.INTEGRITY_VIOLATION, "a run's definition is not stored")
            known = self._definitions[digest] = from_manifest(values.decode(stored))
        return known

    async def _policy(self, store: Store, digest: bytes) -> Policy:
        known = self._policies.get(digest) or self._stored_policies.get(digest)
        if known is None:
            stored = await store.policy(digest)
            if stored is None:
                raise MayuraError(Code.INTEGRITY_VIOLATION, "a run's policy is not stored")
            known = self._stored_policies[digest] = Policy.from_manifest(values.decode(stored))
        return known
