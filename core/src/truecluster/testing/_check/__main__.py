"""See `child`."""

from .child import main

if __name__ == "__main__":
    main()
