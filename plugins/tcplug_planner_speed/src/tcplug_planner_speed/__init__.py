"""The planner `speed` for TrueCluster."""
