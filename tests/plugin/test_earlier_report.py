"""A report of an earlier pytest-cpg, from when there was one kind of gate, is still of use.

The file beside this was written then, by a gate on the miniature task with a mirrored model.
"""

import re
from pathlib import Path

import pytest

GATE = """
import pytest

@pytest.mark.cpg(task="track", model="right")
def test_gate(cpg): ...
"""


@pytest.mark.parametrize("method", ["agresti-caffo", "newcombe-paired"])
def test_a_page_has_it_as_its_history(repository, method):
    pytest.importorskip("jinja2")
    report = Path(__file__).with_name("earlier_report.json").read_text(encoding="utf-8")
    # Newcombe's interval, which a later pytest-cpg has no more, judged gates then.
    report = report.replace('"method": "agresti-caffo"', f'"method": "{method}"')
    (repository.path / "old.json").write_text(report, encoding="utf-8")
    repository.makepyfile(test_gates=GATE)
    result = repository.runpytest(
        "--cpg-episodes=10", "--cpg-html=page.html", "--cpg-history=old.json"
    )
    result.assert_outcomes(passed=1)
    text = repository.text("page.html")
    text = re.sub(r"<[^>]+>", " ", text)
    assert re.search(r"0000000\s+0/10\s+1\.00 \[0\.61, 1\.00\]", text)
    assert re.search(r"10/10\s+0\.00 \[-0\.22, 0\.22\]", text)
    assert "another design" not in text
