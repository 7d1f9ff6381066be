"""The comparison with Apache Kafka lives outside the package, because running a node does not need it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
