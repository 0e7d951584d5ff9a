"""``python -m truecluster`` is ``tc``: how workers are started, whatever is on the PATH."""

from truecluster._cli import main

if __name__ == "__main__":
    main()
