"""``python -m tenkey``: see ``tenkey/commands``."""

import sys

from .commands import main

if __name__ == "__main__":
    sys.exit(main())
