"""The folder of the cases and of their readers, from which the tests in the folders below it import."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
