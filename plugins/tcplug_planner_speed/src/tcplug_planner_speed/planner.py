"""A split by speed."""

from collections.abc import Sequence

from truecluster.api import COORDINATOR, Limits, ModelProfile, NodeProfile, Placement, PlanError, Planner, Span


class SpeedPlanner(Planner):
    """Makes the longest time that a node takes to read its weights as short as can be; unknown speeds are the mean."""

    def plan(self, model: ModelProfile, nodes: Sequence[NodeProfile], limits: Limits) -> Sequence[Placement]:
        layers, ends = len(model.blocks), limits.head == "last-stage"
        cuts = [(start, stop) for start in range(layers) for stop in range(start + 1, layers + 1)]
        spans = {(start, stop): Span(start, stop, ends and start == 0, ends and stop == layers) for start, stop in cuts}
        read = {(a, b): sum(p.resident for p in model.parts[a + 1 : b + 1 + spans[a, b].head]) for a, b in cuts}
        needed, known = {cut: model.needed(spans[cut]) for cut in cuts}, [node.speed for node in nodes if node.speed]
        best: dict[tuple[int, int], tuple[float, tuple[Placement, ...]]] = {(0, 0): (0.0, ())}
        for node in nodes:  # best: (nodes used, blocks placed) → the longest time of them, and the placements
            grown, speed = dict(best), node.speed or (sum(known) / len(known) if known else 1.0)
            for (used, start), (longest, placed) in best.items():
                for stop in range(start + 1, layers + 1) if used != limits.max_nodes else ():
                    cut, time = (start, stop), max(longest, read[start, stop] / speed)
                    fits = node.memory is None or needed[cut] <= node.memory
                    if fits and ((used + 1, stop) not in grown or time < grown[used + 1, stop][0]):
                        grown[used + 1, stop] = time, (*placed, Placement(node.id, spans[cut]))
            best = grown
        whole = [found for (_, stop), found in best.items() if stop == layers]
        if not whole:
            has = sum(node.memory or 0 for node in nodes)
            raise PlanError(f"{model.name} needs {needed[0, layers]:,} bytes, the nodes have {has:,}: add nodes")
        inner = min(whole, key=lambda found: found[0])[1]
        outer = [Placement(COORDINATOR, span) for span in (Span(0, 0, embed=True), Span(layers, layers, head=True))]
        return inner if ends else (outer[0], *inner, outer[1])
