"""Every error that TrueCluster raises on purpose.

    TrueClusterError            exit 1
    ├── PluginError             exit 2   a plugin is unknown, in conflict, fails to load or can't do what is asked
    │   └── CannotPack                   a format that is only read (GGUF's blocks) is asked to pack
    ├── CheckpointError         exit 2   a model reference or a model file
    ├── PlanError               exit 2   the model can't be split as asked
    ├── RequestError            exit 2   a prompt, an option or a request field
    ├── Busy                    exit 1   as many requests wait as may
    ├── TransportError          exit 1   a connection
    │   ├── AddressError        exit 2   an address can't be listened on or reached
    │   ├── HandshakeError      exit 2   the peer has another key, version or purpose
    │   ├── EdgeClosed                   this side closed or aborted it
    │   ├── EdgeEnded                    the peer closed it between two messages
    │   ├── EdgeBroken                   it failed inside a message, or a message breaks the rules
    │   └── EdgeTimeout                  a deadline passed
    └── NodeError               exit 1   a worker failed, or its stage did
        ├── OutOfMemory                  a device has no memory left for what was asked of it
        └── StateError                   a step contradicts the sequence state of a stage

A message says what was given, what is wrong with it and what to do about it. ``exit_code`` is what a command
ends with when the error reaches it.
"""

from __future__ import annotations

from typing import ClassVar


class TrueClusterError(Exception):
    """Root of the tree; see the module."""

    exit_code: ClassVar[int] = 1


class PluginError(TrueClusterError):
    """A plugin is unknown, in conflict, fails to load, or can't do what is asked."""

    exit_code = 2


class CannotPack(PluginError):
    """A format that can only be read was asked to pack."""


class CheckpointError(TrueClusterError):
    """A model reference can't be located, or a model file is missing, damaged or unsupported."""

    exit_code = 2


class PlanError(TrueClusterError):
    """The model can't be split over the given nodes."""

    exit_code = 2


class RequestError(TrueClusterError):
    """A request can't be honoured. ``param`` names the field, ``code`` is OpenAI's error code, where there is one."""

    exit_code = 2

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class Busy(TrueClusterError):
    """As many requests wait as may. ``retry_after`` is in how many seconds there is likely to be room again."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TransportError(TrueClusterError):
    """A connection can't be made or was lost."""


class AddressError(TransportError):
    """An address can't be listened on or reached."""

    exit_code = 2


class HandshakeError(TransportError):
    """The peer holds another key, speaks another version, or came for another purpose."""

    exit_code = 2


class EdgeClosed(TransportError):
    """This side closed or aborted the edge."""


class EdgeEnded(TransportError):
    """The peer closed the edge between two messages."""


class EdgeBroken(TransportError):
    """The edge failed inside a message, or a message breaks the rules."""


class EdgeTimeout(TransportError):
    """A deadline of the edge passed."""


class NodeError(TrueClusterError):
    """A worker or its stage failed."""


class OutOfMemory(NodeError):
    """A device has no memory left for what was asked of it."""


class StateError(NodeError):
    """A step contradicts the sequence state of a stage."""
