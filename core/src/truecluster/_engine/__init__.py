"""Requests and events in tokens: scheduling, pages, and the thread that drives a run. Knows no sockets and no text."""
