"""Modules that a pytester run in this process must not import for itself.

Such a run forgets the modules it imported, and numpy cannot be imported twice.
"""

import numpy as np  # noqa: F401
import pytest  # noqa: F401

import pytest_cpg.gates.benchmark
import pytest_cpg.ledger
import pytest_cpg.marker
import pytest_cpg.render.failure
import pytest_cpg.render.junit
import pytest_cpg.render.summary
import pytest_cpg.tasks  # noqa: F401
