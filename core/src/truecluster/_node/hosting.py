"""One stage on this node, from its assignment to its end. Blocking: called from worker threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.runner import Progress, StageRunner
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._registry import Registry
from truecluster._weights.catalog import Unit
from truecluster._weights.store import Store
from truecluster._wire import messages as wire
from truecluster.api import (
    Architecture,
    DeviceContext,
    EdgeTerms,
    NodeError,
    Packed,
    Slot,
    TrueClusterError,
)

from .checking import check_assignment
from .dtypes import assigned_dtypes
from .ends import Ends
from .receiving import Receiving
from .transports import Transports

LOG = logging.getLogger(__name__)


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
        self._ends = Ends(assignment, transports, terms, device)
        self._runner: StageRunner | None = None
        self._dtypes = assigned_dtypes(assignment, device)
        self._receiving = Receiving(assignment, store, handles.held(device.id, self._dtypes))
        self._reading: Unit | None = None
        self._stopped = False
        self._idle = threading.Event()
        self._idle.set()
        self._loading = Progress(busy_since=time.monotonic())

    def need(self) -> wire.Need:
        """What the store lacks or has damaged, and the tickets of the edges that are offered here.

        Raises `NodeError` for an assignment that is no stage of its model.
        """
        with self._at_work():
            check_assignment(self.assignment, self._registry)
            missing, started = self._receiving.look()
            inbound, outbound = self._ends.offer()
        return wire.Need(
            run=self.run, hashes=missing, started=started, inbound_ticket=inbound, outbound_ticket=outbound
        )

    def write(self, chunk: wire.WeightChunk, data: memoryview) -> None:
        """The next piece of a missing unit."""
        self._receiving.write(chunk, data)

    def load(self, order: wire.WeightsComplete, on_fault: Callable[[TrueClusterError], None]) -> wire.LoadComplete:
        """Open the edges, build the stage and start its thread. Raises `NodeError` naming the weight that fails."""
        with self._at_work():
            try:
                return self._load(order, on_fault)
            except TrueClusterError:
                raise
            except Exception as error:
                LOG.error("%s can't be loaded", self.assignment.span, exc_info=error)
                raise NodeError(f"{self._latest()} can't be loaded: {type(error).__name__}: {error}") from error

    def _latest(self) -> str:
        unit = self._reading
        return str(self.assignment.span) if unit is None else f"{unit.slot.key} in {unit.format}"

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """`stop` waits for the end of the block."""
        self._idle.clear()
        try:
            self._check()
            yield
        except BaseException:
            self._ends.close()
            raise
        finally:
            self._idle.set()

    def _load(self, order: wire.WeightsComplete, on_fault: Callable[[TrueClusterError], None]) -> wire.LoadComplete:
        units = [
            Unit(slot=Slot(u.key, u.role, u.shape), format=u.format, digest=u.hash, nbytes=u.nbytes)
            for u in self.assignment.units
        ]
        self._ends.dial(order.inbound_ticket, order.outbound_ticket)
        self._handles.keep_only({unit.digest for unit in units}, self._dtypes)
        self._receiving.done_bytes = 0
        stage = build_stage(self._facts(units), self._registry, self._device, self._read, self._handles, self._loaded)
        self._reading = None
        self._receiving.checked.clear()
        self._runner = StageRunner(stage, self.run, *self._ends.wait(), on_fault)
        self._check()
        self._runner.start()
        total, received = self._receiving.total, self._receiving.received
        return wire.LoadComplete(
            run=self.run,
            from_store_bytes=total - received,
            received_bytes=received,
            resident_bytes=total,
            pages_capacity=self.assignment.pages,
        )

    def sample(self, message: wire.Sample) -> None:
        """Pass sampling parameters to the head."""
        if self._runner is not None:
            self._runner.stage.samples.apply(SampleUpdate.received(message))

    @property
    def progress(self) -> Progress:
        """Who loads is busy."""
        return self._runner.progress if self._runner else self._loading

    @property
    def done_bytes(self) -> int:
        """How much of the weights is checked, or loaded."""
        return self._receiving.done_bytes

    def _loaded(self, unit: Unit) -> None:
        self._receiving.done_bytes += unit.nbytes
        self._check()

    def _check(self) -> None:
        if self._stopped:
            raise NodeError("the run was stopped while its stage was loading")

    def stop(self, timeout: float) -> bool:
        """End the stage's thread and edges; says whether all threads are done with it in time (seconds)."""
        self._stopped = True
        self._receiving.abandon()
        if not self._idle.is_set():
            self._ends.abandon()
            if not self._idle.wait(timeout):
                return False
        runner, self._runner = self._runner, None
        ended = runner is None or runner.stop(timeout)
        self._receiving.release()
        self._ends.close()
        return ended

    def _facts(self, units: list[Unit]) -> StageFacts:
        assignment = self.assignment
        architecture: Architecture = self._registry.resolve("architecture", assignment.architecture)()
        return StageFacts(
            span=assignment.span,
            architecture=architecture,
            config=architecture.config(assignment.config),
            dtypes=self._dtypes,
            inbound=assignment.inbound_dtype,
            outbound=assignment.outbound_dtype,
            units=units,
            pages=assignment.pages,
            sequences=assignment.sequences,
            max_tokens=assignment.max_step_tokens,
            step_timeout=assignment.step_timeout_s,
        )

    def _read(self, unit: Unit) -> Packed:
        self._reading = unit
        data = self._receiving.checked.pop(unit.digest, None)
        data = self._store.read(unit.digest) if data is None else data
        if data is None:
            raise NodeError(f"{unit.slot.key} was damaged in this node's store; start again and it is fetched anew")
        return Packed(unit.format, unit.slot.shape, data)
