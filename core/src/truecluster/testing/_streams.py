"""The contract of the streams of a transport."""

from __future__ import annotations

from ._stream_addresses import AddressRules
from ._stream_cancelling import CancelRules
from ._stream_ending import EndRules
from ._stream_transfer import TransferRules


class StreamContract(AddressRules, TransferRules, EndRules, CancelRules):
    """Name ``offer``. What arrives is compared with what was sent, kept aside."""
