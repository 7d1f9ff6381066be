"""The comparison with Apache Kafka lives outside the package, as nobody needs it who only runs a node."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
