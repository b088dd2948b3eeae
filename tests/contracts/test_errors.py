import json
from functools import partial
from types import FunctionType

import pytest

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.errors import own_frames


def own(call):
    return call() if call else 1 / 0


def raised_in(*files):
    """The error of functions in these files, each of which calls the next; the last one raises."""
    call = None
    for file in reversed(files):
        call = partial(FunctionType(own.__code__.replace(co_filename=file), {}), call)
    with pytest.raises(ZeroDivisionError) as caught:
        call()
    # Without this function.
    return caught.value.with_traceback(caught.value.__traceback__.tb_next)


def test_the_lines_of_a_cause_are_its_own_and_not_those_of_what_is_installed():
    files = "model.py", json.__file__, "/x/site-packages/a.py", "<frozen runpy>", "layers.py"
    found = own_frames(raised_in(*files, "/usr/lib/python3/dist-packages/b.py"))
    assert [one.filename for one in found] == ["model.py", "layers.py"]


def test_of_installed_code_alone_the_last_line_is_shown():
    (found,) = own_frames(raised_in("/x/site-packages/a.py", json.__file__))
    assert found.filename == json.__file__


def test_an_error_is_whole_with_the_lines_of_its_cause_and_its_notes():
    error = CpgError("No model.")
    error.__cause__ = raised_in("model.py")
    error.add_note("Note.")
    line = own.__code__.co_firstlineno + 1
    assert error.whole == f'No model.\n\n  File "model.py", line {line}, in own\n\nNote.'
    assert CpgError("Alone.").whole == "Alone."
