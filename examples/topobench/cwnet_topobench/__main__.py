"""TopoBench with the parts of this package: ``python -m cwnet_topobench`` takes what ``python -m topobench`` takes."""

import sys
from pathlib import Path

from topobench.run import main

import cwnet_topobench.parts  # noqa: F401  # puts the lifting into TopoBench's registry

if __name__ == "__main__":
    sys.argv[1:1] = ["--config-dir", str(Path(__file__).parent / "configs")]
    main()
