"""What memory each node has for its stage: nodes of one machine share what is free there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from truecluster._plan import Room, process_bytes
from truecluster.api import NodeProfile


@attrs.frozen(kw_only=True)
class NodeFacts:
    """What is known of a node. Nodes with the same ``place``, a machine and a device, share its ``free`` bytes.

    ``free`` is what is free beside the node's process; ``bound`` is the most that the process may take in all;
    ``speed`` is in bytes of weights a second.
    """

    id: str
    device: str
    place: object
    free: int | None
    bound: int | None = None
    speed: float | None = None


def profiles(nodes: Sequence[NodeFacts], room: Room, taken: dict[object, int] | None = None) -> list[NodeProfile]:
    """What a planner is told. ``taken`` bytes of a place are needed there by others than nodes."""
    sharers = Counter(node.place for node in nodes)
    return [_profile(node, sharers[node.place], room, (taken or {}).get(node.place, 0)) for node in nodes]


def _profile(node: NodeFacts, sharers: int, room: Room, taken: int) -> NodeProfile:
    there = [] if node.free is None else [int((node.free - taken) * (1 - room.reserve)) // sharers]
    there += [] if node.bound is None else [node.bound - process_bytes(node.device)]
    there = there or ([] if room.unknown is None else [room.unknown])
    memory = max(0, min(there)) if there else None
    return NodeProfile(id=node.id, device=node.device, memory=memory, speed=node.speed)
