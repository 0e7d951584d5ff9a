"""One module for each group of rows. A row is a function from `Settings` to `Figure`s whose docstring is its method."""
