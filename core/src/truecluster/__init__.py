"""TrueCluster: one model over several ordinary machines. Plugin authors import ``truecluster.api``."""
