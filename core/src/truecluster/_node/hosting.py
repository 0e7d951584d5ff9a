"""One stage on this node, from its assignment to its end. Blocking: called from worker threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.runner import Progress, StageRunner
from truecluster._pipeline.sampler import SampleParams
from truecluster._pipeline.stage import SampleUpdate
from truecluster._registry import Registry
from truecluster._weights.catalog import Unit
from truecluster._weights.store import ObjectWriter, Store
from truecluster._wire import messages as wire
from truecluster.api import (
    Architecture,
    DeviceContext,
    Edge,
    EdgeTerms,
    NodeError,
    Packed,
    Slot,
    TrueClusterError,
)

from .dtypes import assigned_dtypes
from .transports import Transports


class Hosting:
    """A stage of one run. `need`, then `write` for each missing piece, then `load`; `stop` at any time."""

    def __init__(
        self,
        assignment: wire.Assignment,
        registry: Registry,
        store: Store,
        handles: HandleCache,
        device: DeviceContext,
        transports: Transports,
        terms: Callable[[str], EdgeTerms],
    ) -> None:
        self.assignment = assignment
        self.run = assignment.run
        self._registry = registry
        self._store = store
        self._handles = handles
        self._device = device
        self._transports = transports
        self._terms = terms
        self._runner: StageRunner | None = None
        self._inbound_ticket = b""
        self._writing: tuple[str, ObjectWriter, int] | None = None
        self._missing: set[str] = set()
        self._checked: dict[str, torch.Tensor] = {}
        self._received = 0
        self._stopped = False
        self._idle = threading.Event()
        self._idle.set()

    def need(self) -> wire.Need:
        """What the store lacks or has damaged, and the ticket for the edge that comes in here."""
        hashes = dict.fromkeys(unit.hash for unit in self.assignment.units)
        missing = tuple(digest for digest in hashes if not self._has(digest))
        self._missing = set(missing)
        self._inbound_ticket = self._transports.edges(self.assignment.edge_transport).offer(
            self._terms(self.assignment.inbound_edge)
        )
        return wire.Need(run=self.run, hashes=missing, inbound_ticket=self._inbound_ticket)

    def _has(self, digest: str) -> bool:
        """Bytes that are checked here are kept for `load`, so that they are read once."""
        if digest in self._handles:
            return True
        data = self._store.read(digest)
        if data is not None:
            self._checked[digest] = data
        return data is not None

    def write(self, chunk: wire.WeightChunk, data: memoryview) -> None:
        """The next piece of a missing unit; units come one after another, whole."""
        if self._writing is None:
            self._begin(chunk)
        assert self._writing is not None
        digest, writer, done = self._writing
        if (chunk.hash, chunk.offset) != (digest, done) or done + data.nbytes > chunk.total:
            raise NodeError(f"weights came out of order: byte {chunk.offset} of {chunk.hash[:12]}…")
        writer.write(data)
        self._received += data.nbytes
        self._writing = (digest, writer, done + data.nbytes)
        if done + data.nbytes == chunk.total:
            with writer:
                writer.commit(digest)
            self._writing = None
            self._missing.discard(digest)

    def _begin(self, chunk: wire.WeightChunk) -> None:
        wanted = {unit.hash: unit.nbytes for unit in self.assignment.units if unit.hash in self._missing}
        if wanted.get(chunk.hash) != chunk.total:
            raise NodeError(f"weights came that were not asked for: {chunk.hash[:12]}… of {chunk.total} bytes")
        self._writing = (chunk.hash, self._store.writer(), 0)

    def load(self, outbound_ticket: bytes, on_fault: Callable[[TrueClusterError], None]) -> wire.LoadComplete:
        """Build the stage, open its edges and start its thread."""
        self._idle.clear()
        try:
            return self._load(outbound_ticket, on_fault)
        finally:
            self._idle.set()

    def _load(self, outbound_ticket: bytes, on_fault: Callable[[TrueClusterError], None]) -> wire.LoadComplete:
        units = [
            Unit(slot=Slot(u.key, u.role, u.shape), format=u.format, digest=u.hash, nbytes=u.nbytes)
            for u in self.assignment.units
        ]
        self._handles.keep_only({unit.digest for unit in units})
        stage = build_stage(self._facts(units), self._registry, self._device, self._read, self._handles, self._check)
        self._checked.clear()
        outbound = self._open(self.assignment.outbound_edge, outbound_ticket, "producer")
        try:
            inbound = self._open(self.assignment.inbound_edge, self._inbound_ticket, "consumer")
        except BaseException:
            outbound.close()
            raise
        self._runner = StageRunner(stage, self.run, inbound, outbound, on_fault)
        self._check()
        self._runner.start()
        total = sum({u.digest: u.nbytes for u in units}.values())
        return wire.LoadComplete(
            run=self.run,
            from_store_bytes=total - self._received,
            received_bytes=self._received,
            resident_bytes=total,
            pages_capacity=self.assignment.pages,
        )

    def sample(self, message: wire.Sample) -> None:
        """Pass sampling parameters to the head."""
        if self._runner is not None:
            params = SampleParams(
                temperature=message.temperature, top_p=message.top_p, seed=message.seed, choice=message.choice
            )
            self._runner.stage.samples.apply(
                SampleUpdate(number=message.number, sequence=message.sequence, params=params)
            )

    @property
    def progress(self) -> Progress:
        return self._runner.progress if self._runner else Progress()

    def _check(self, unit: Unit | None = None) -> None:
        if self._stopped:
            raise NodeError("the run was stopped while its stage was loading")

    def stop(self, timeout: float) -> bool:
        """End the stage's thread and edges; says whether all threads are done with it in time (seconds)."""
        self._stopped = True
        if not self._idle.is_set():
            self._transports.discard(self.assignment.edge_transport)
            if not self._idle.wait(timeout):
                return False
        if self._writing is not None:
            self._writing[1].__exit__(None, None, None)
            self._writing = None
        runner, self._runner = self._runner, None
        return runner is None or runner.stop(timeout)

    def _open(self, edge: str, ticket: bytes, role: str) -> Edge:
        assert role in ("producer", "consumer")
        edges = self._transports.edges(self.assignment.edge_transport)
        return edges.open(self._terms(edge), ticket, role, self._device)  # type: ignore[arg-type]

    def _facts(self, units: list[Unit]) -> StageFacts:
        assignment = self.assignment
        architecture: Architecture = self._registry.resolve("architecture", assignment.architecture)()
        return StageFacts(
            span=assignment.span,
            architecture=architecture,
            config=architecture.config(assignment.config),
            dtypes=assigned_dtypes(assignment, self._device),
            inbound=assignment.inbound_dtype,
            outbound=assignment.outbound_dtype,
            units=units,
            pages=assignment.pages,
            sequences=assignment.sequences,
            max_tokens=assignment.max_step_tokens,
            step_timeout=assignment.step_timeout_s,
        )

    def _read(self, unit: Unit) -> Packed:
        data = self._checked.get(unit.digest)
        data = self._store.read(unit.digest) if data is None else data
        if data is None:
            raise NodeError(f"{unit.slot.key} was damaged in this node's store; start again and it is fetched anew")
        return Packed(unit.format, unit.slot.shape, data)
