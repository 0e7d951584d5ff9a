"""``python -m tcplug_cpu_kernels.bench``: what the kernels reach on this machine, as a table and as JSON."""
