"""From a model reference to packed, content-addressed units. Knows no sockets."""
