"""The recorder alone, in a process without the library. Models are those of tests/python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
