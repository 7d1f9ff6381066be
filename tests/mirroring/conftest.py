"""The path of the types that the tests of the connector know."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "connect" / "cdc"))
