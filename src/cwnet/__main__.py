"""``python -m cwnet`` is ``cwnet``."""

from cwnet.cli import main

if __name__ == "__main__":
    main()
