"""The model of a cluster: opened, bound and catalogued once, before any node is asked for anything."""

from __future__ import annotations

from pathlib import Path

import attrs

from truecluster._registry import Registry
from truecluster._weights.binding import BoundModel, bind, parts_of
from truecluster._weights.catalog import Catalog, Unit
from truecluster._weights.opening import open_checkpoint
from truecluster._weights.store import DEFAULT_LIMIT, Store
from truecluster.api import (
    ArchitectureSpec,
    Checkpoint,
    CheckpointError,
    DType,
    OpenOptions,
    Paged,
    PluginError,
    QuantizerSpec,
    Span,
)
from truecluster.nn import unusual_layers

DEFAULT_RECIPE = "fp16"


@attrs.frozen(kw_only=True)
class ModelOptions:
    """What the user said of the model; ``quant`` and ``dtype`` are ``None`` where nothing was typed.

    ``cache`` is how many bytes of packed weights are kept in ``work_dir``.
    """

    reference: str
    arch: str | None = None
    quant: str | None = None
    dtype: DType | None = None
    work_dir: Path
    cache: int = DEFAULT_LIMIT
    open: OpenOptions = attrs.field(factory=OpenOptions)


@attrs.frozen(kw_only=True, eq=False)
class ClusterModel:
    """A bound model with its catalog of packed units. ``dtype`` is computed in where a device has it natively."""

    bound: BoundModel
    catalog: Catalog
    recipe: QuantizerSpec
    dtype: DType

    @property
    def name(self) -> str:
        return self.bound.checkpoint.name

    def units(self, span: Span) -> list[Unit]:
        """The weights of a span, each slot once. Blocking: what was never packed is packed now."""
        bound = self.bound
        return self.catalog.units(
            slot for part in span.parts() for slot in bound.architecture.slots(bound.config, part)
        )

    @property
    def cached_starts(self) -> bool:
        """Whether a sequence may begin with pages that another one filled: not with recurrent layers."""
        bound = self.bound
        states = (bound.architecture.state(bound.config, layer) for layer in range(bound.config.layers))
        return all(isinstance(state, Paged) for state in states)

    def describe(self) -> str:
        """The line that says what was loaded."""
        bound = self.bound
        kind = bound.checkpoint.model_type
        hosted = "" if bound.architecture_name == kind else f" (a {kind} model, hosted by its dialect)"
        dtypes = f"weights {self.recipe.name}, compute {self.dtype.value}"
        dtypes += "" if self.dtype is DType.FP32 else " (fp32 on devices without it)"
        return f"{self.name}: architecture {bound.architecture_name}{hosted}, {bound.config.layers} layers, {dtypes}"


def load_model(registry: Registry, options: ModelOptions) -> ClusterModel:
    """Open, bind and check. Raises `CheckpointError` or `PluginError`; reads no weight."""
    if options.arch is not None:
        registry.spec("architecture", options.arch)
    if options.quant is not None:
        registry.recipe(options.quant)
    checkpoint = open_checkpoint(registry, options.reference, options.open)
    try:
        spec = find_architecture(registry, checkpoint, options.arch)
        bound = bind(checkpoint, registry.resolve("architecture", spec.name)(), spec.name)
        recipe = registry.recipe(options.quant or default_recipe(bound, options.dtype))
        catalog = Catalog(bound, recipe, registry, Store(options.work_dir, options.cache))
        for part in parts_of(bound.config):
            for slot in bound.architecture.slots(bound.config, part):
                catalog.nbytes(slot)
    except BaseException:
        checkpoint.close()
        raise
    return ClusterModel(bound=bound, catalog=catalog, recipe=recipe, dtype=options.dtype or bound.config.dtype)


def find_architecture(registry: Registry, checkpoint: Checkpoint, arch: str | None) -> ArchitectureSpec:
    """The architecture that runs the checkpoint. Where there is none, says which of its layers are unusual."""
    try:
        return registry.architecture_for(checkpoint.model_type, arch)
    except PluginError as error:
        unusual = unusual_layers(checkpoint.metadata)
        if not unusual:
            raise
        kinds = ", ".join(unusual)
        raise CheckpointError(
            f"{checkpoint.name} has layers of type {kinds}, which nothing here computes: {error}"
        ) from error


def default_recipe(bound: BoundModel, dtype: DType | None = None) -> str:
    """fp16, except that bf16 stays bf16 unless the user types fp16."""
    if dtype is DType.FP16:
        return DEFAULT_RECIPE
    matrices = [bound.sources[key].tensor for key, slot in bound.slots.items() if len(slot.shape) > 1]
    formats = {bound.checkpoint.tensors[tensor].format for tensor in matrices}
    return DType.BF16.value if formats == {DType.BF16.value} else DEFAULT_RECIPE
