"""A model that rates its own plans: the arm that tells its score from its dynamics."""

from sessions import flat

GATE = """
    import numpy as np
    import pytest


    class Model:
        def rollout(self, latents, actions):
            return latents[:, None] + np.cumsum(actions, axis=1)

        def score(self, latents):
            return np.abs(latents[..., 0] - 9.0)


    @pytest.fixture
    def learned_dynamics():
        return Model()


    @pytest.mark.cpg(task="track")
    def test_gate(cpg):
        pass
"""


def test_every_report_says_how_much_of_the_gap_a_score_of_its_own_loses(repository):
    repository.makepyfile(GATE)
    outputs = ("--cpg-md=gate.md", "--cpg-html=gate.html")
    result = repository.runpytest("-v", *outputs)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  oracle  * 20/20  █* 1.00 [[]*",
            "  oracle+score *0/20  * 0.00 [[]*",
            "  learned * 0/20  * 0.00 [[]*",
            "  Note * oracle+score *",
            "*Of the gap, 1.00*",
            "  model gives *dynamics, score",
            " F test_gate *",
        ]
    )
    for name in ("gate.md", "gate.html"):
        text = repository.text(name)
        assert "0.00: with the true dynamics" in text.replace("&#46;", ".").replace("&#58;", ":")


def test_a_strict_session_fails_what_a_score_of_its_own_passed(repository):
    right = GATE.replace(" - 9.0", "").replace('task="track"', 'task="track", episodes=200')
    repository.makepyfile(right)
    assert repository.runpytest().ret == 0
    result = repository.runpytest("--cpg-strict")
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["MODEL AS GOOD AS ORACLE: the model solves *"])
    said = "the model also gives score: the gap is not about dynamics alone"
    assert said in flat(result)
