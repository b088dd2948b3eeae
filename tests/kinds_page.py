"""The page about kinds of gate, the kind by criteria on it, and one without optional parts."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "kinds-of-gate.md").read_text(encoding="utf-8")
_, BY_CRITERIA, WRITTEN_OUT = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
