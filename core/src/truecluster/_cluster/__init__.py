"""The coordinator: which nodes there are, what each hosts, and how it gets its weights. Knows no HTTP and no text."""
