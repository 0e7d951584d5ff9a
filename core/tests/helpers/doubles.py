"""What the module of a suite's doubles declares."""

from __future__ import annotations

import attrs


@attrs.frozen
class Double:
    """A suite over a plugin that is wrong in one way.

    Only the method that it stands for fails, with a message in which the pattern ``says`` is found.
    """

    suite: type
    says: str
