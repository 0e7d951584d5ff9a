"""The ``tc`` command. A command imports what is heavy inside its body, so that help and listings stay quick."""

from .app import main

__all__ = ["main"]
