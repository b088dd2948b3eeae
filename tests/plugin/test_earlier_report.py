"""A report of an earlier pytest-cpg, from when there was one kind of gate, is still of use.

The file beside this was written then, by a gate on the miniature task with a mirrored model.
"""

import shutil
from pathlib import Path

import pytest

GATE = """
import pytest

@pytest.mark.cpg(task="track", model="right")
def test_gate(cpg): ...
"""


def test_a_page_has_it_as_its_history(repository):
    pytest.importorskip("jinja2")
    shutil.copy(Path(__file__).with_name("earlier_report.json"), repository.path / "old.json")
    repository.makepyfile(test_gates=GATE)
    result = repository.runpytest(
        "--cpg-episodes=10", "--cpg-html=page.html", "--cpg-history=old.json"
    )
    result.assert_outcomes(passed=1)
    text = (repository.path / "page.html").read_text(encoding="utf-8")
    then = '<th scope="row" class="word">0000000</th><td>0/10</td><td>+1.00 [+0.61,+1.00]</td>'
    assert then in text
    assert "<td>10/10</td><td>+0.00 [-0.22,+0.22]</td>" in text
    assert "another design" not in text
