"""A worker: join a coordinator, load a stage, host it. Knows no HTTP and no text."""
