"""TrueCluster: one model over several ordinary machines. Plugin authors import ``truecluster.api``."""

__version__ = "0.1.0"
