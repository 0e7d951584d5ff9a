"""What rows are made with: figures, models, processes of `tc`, and what the system says of a process."""
