"""The ``tc`` command. A command imports what is heavy inside its body, so that help and listings stay quick."""

import sys

from .endings import Endings


def main() -> None:
    """See `app.main`; Ctrl-C ends it without a trace even while that is imported."""
    try:
        with Endings():
            from .app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


__all__ = ["main"]
