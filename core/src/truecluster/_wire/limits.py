"""How large anything that arrives may be. Checked before a byte of it is allocated."""

from __future__ import annotations

MAX_UNPROVEN = 64
"""Connections of a port for nodes whose key is not proven yet."""
MAX_ENVELOPE = 1 << 20
"""Bytes of a control message's envelope."""
MAX_SECTION = 8 << 20
"""Bytes of one raw section: a piece of a weight."""
MAX_DEPTH = 16
"""Nesting of the one free-form field there is, a model's config."""
MAX_TEXT = 1 << 16
"""Characters of any text."""

MAX_INT32 = (1 << 31) - 1
"""The largest number in a step's tables."""
MAX_ROWS = 4096
"""Sequences of one step."""
MAX_TOKENS = 1 << 17
"""Tokens of one step: rows of its payload."""
MAX_PAGES = 1 << 17
"""Pages handed out in one step."""
MAX_WIDTH = 1 << 17
"""Elements of one hidden row."""
MAX_LOGPROBS = 20
"""Likeliest tokens whose log-probabilities are told beside a token's own."""
MAX_BIAS = 4096
"""Tokens whose logits a request may add to."""
MAX_SEEN = 1 << 17
"""Bytes of a set of tokens, a bit for each of a vocabulary."""

UNTIL_STOPPED = 7 * 86400.0
"""Seconds to wait for the other end of an edge: the coordinator keeps the time, and ends what waits with its run."""
