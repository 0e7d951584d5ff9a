"""What travels between nodes: the proof of the key, frames, control messages, step headers, and their limits.

Knows no transport and not who sends. Everything that arrives is hostile until it is checked here.
"""
