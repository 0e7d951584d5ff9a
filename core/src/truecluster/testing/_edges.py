"""The contract of the edges of a transport."""

from __future__ import annotations

from ._edge_ending import EndingRules
from ._edge_messages import MessageRules
from ._edge_opening import OpeningRules
from ._edge_relays import RelayRules


class EdgeContract(OpeningRules, MessageRules, EndingRules, RelayRules):
    """Name ``offer``. What arrives is compared with what was sent, kept aside, over every route that is offered."""
