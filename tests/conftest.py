"""Modules that a pytester run in this process must not import for itself.

Such a run forgets the modules it imported, and neither numpy nor scipy can be imported twice.
"""

import numpy as np  # noqa: F401
import pytest  # noqa: F401
import scipy.special  # noqa: F401

import pytest_cpg.acceptance
import pytest_cpg.findings
import pytest_cpg.forecast
import pytest_cpg.gate_session
import pytest_cpg.gates.benchmark
import pytest_cpg.ledger
import pytest_cpg.marker
import pytest_cpg.outputs
import pytest_cpg.provenance
import pytest_cpg.render.failure
import pytest_cpg.render.github
import pytest_cpg.render.junit
import pytest_cpg.render.plan
import pytest_cpg.render.summary
import pytest_cpg.session_replay
import pytest_cpg.tasks
import pytest_cpg.terminal  # noqa: F401
