"""Load on a server with OpenAI's API, as clients make it: streams, loops, and what they measured."""
