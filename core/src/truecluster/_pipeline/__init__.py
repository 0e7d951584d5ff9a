"""A run: stages, the steps that pass them, their state machines, and the sampler. Knows no scheduling and no text."""
