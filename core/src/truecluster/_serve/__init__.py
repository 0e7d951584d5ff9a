"""The OpenAI-compatible HTTP API. Knows text models and engines, but no node."""

from .app import create_app
from .options import ServeOptions
from .server import listen, serve
from .state import Readiness, ServeState

__all__ = ["Readiness", "ServeOptions", "ServeState", "create_app", "listen", "serve"]
