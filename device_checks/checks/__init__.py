"""What `device_checks/run.py` is made of."""
