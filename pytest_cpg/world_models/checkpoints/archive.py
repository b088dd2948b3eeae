"""Archives: what torch.export.save wrote, checked before torch opens it.

torch unpickles example inputs and whatever is no plain tensor, evaluates expressions of sizes and
compiles guards. All of these are refused unless they can do no more than what they are there for.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.machine.files import check_unpacked_size
from pytest_cpg.world_models.binding.tensors import torch
from pytest_cpg.world_models.checkpoints.trust import how_to_trust
from pytest_cpg.world_models.checkpoints.weights import load_plain

# What the layout before torch 2.8 unpickles under these names, whatever they end in.
_PICKLED = re.compile(r".*\.pt|serialized_(state_dict|constants|example_inputs)\.json")
_TENSOR = re.compile(r"(weight|tensor)_\d+")
# Arithmetic on sizes, and control flow, whose branches are in the program, too.
_OPERATOR = re.compile(
    r"torch\._?sym_[a-z]+|math\.[a-z0-9]+"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|getitem|eq|ne|lt|le|gt|ge|and_"
    r"|or_|xor|not_|lshift|rshift|index)"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|associative_scan|map_impl"
    r"|wrap_with_set_grad_enabled|wrap_with_autocast)"
)
# Operators on tensors. Internal ones check less, but for those that torch itself writes, and sparse
# ones trust the indices they are given.
_ON_TENSORS = re.compile(
    r"torch\.ops\.aten\.((?![a-z_0-9]*sparse)[a-z][a-z_0-9]*|_assert_[a-z]+(_[a-z]+)?|_to_copy"
    r"|_(log_)?softmax|_native_batch_norm_legit[a-z_]*|_weight_norm|_unsafe_view|_convolution"
    r"|_adaptive_avg_pool[23]d|_cdist_forward|_scaled_dot_product_[a-z_]+)\.([A-Za-z_0-9]+)"
)
# What their arguments may be, and the names of those that are text: none of a file.
_TYPE = re.compile(
    r"(Optional\[|List\[)*(Tensor|int|float|bool|complex|number|Device|Generator)\]*"
)
_TEXTS = frozenset(
    (
        *("approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode"),
        *("norm", "ord", "p", "pad_mode", "padding", "padding_side", "reduce", "rounding_mode"),
        *("side", "UPLO"),
    )
)
# Functions that sizes and guards are written in: those of sympy, of torch and of a tensor.
_NAMED = re.compile(
    r"Symbol|Integer|Float|Rational|Half|One|Zero|NegativeOne|Add|Mul|Pow|Abs|Mod|Max|Min|And"
    r"|Or|Not|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality|StrictLessThan|LessThan|StrictGreaterThan"
    r"|GreaterThan|Piecewise|ExprCondPair|Tuple|floor|ceiling|sqrt|exp|log|FloorDiv"
    r"|ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift"
    r"|PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator"
    r"|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|ToFloat|Identity|len"
)
_ATTRIBUTES = frozenset(("size", "stride", "storage_offset", "shape", "isnan", "inf"))
_NODES = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Name),
    *(ast.Call, ast.keyword, ast.Subscript, ast.Attribute, ast.Tuple, ast.expr_context),
    *(ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
)


def checked_archive(content: bytes, name: str, *, trusted: str) -> bytes:
    """Return a program, or raise WorldModelError if it could do more than compute with tensors.

    It is written anew of the members that were checked: torch's own reader may see others.

    Parameters
    ----------
    trusted : str
        Digests that are trusted already, for the message.
    """
    try:
        check_unpacked_size(content)
    except ValueError as error:
        raise WorldModelError(f"{name} is not read: {error}") from None
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(written, "w") as copy:
        for found in _faults(archive):
            raise WorldModelError(
                f"{name} is a program with {found}: it could run code of the file. Export it again "
                f"by torch.export.save(program.run_decompositions(), path), of a model that takes "
                f"and holds plain tensors; save the weights alone, torch.save(model.state_dict(), "
                f"path); or, {how_to_trust(content, trusted)}"
            )
        for member in archive.namelist():
            copy.writestr(member, archive.read(member))
    return written.getvalue()


def _faults(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield what may not be in an archive, in a few words each."""
    names = archive.namelist()
    # torch takes one of them, and not by its case.
    if len({name.casefold() for name in names}) != len(names):
        yield "two members of one name"
    for name in names:
        path = PurePosixPath(name)
        if "aotinductor" in path.parts:
            yield f"compiled code in {name!r}"
        if _PICKLED.fullmatch(path.name):
            yield from _faults_of_pickle(archive, name)
        elif path.suffix == ".json":
            try:
                said = json.loads(archive.read(name))
            except ValueError:
                yield f"text in {name!r} that is no JSON"
            else:
                yield from _faults_of_payload(archive, path, said)
                yield from _faults_of_text(said)


def _faults_of_pickle(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """Yield what else than tensors and plain containers is pickled in a member."""
    data = archive.read(name)
    try:
        if data:
            load_plain(data)
    except ComponentError:
        raise
    # What is in a file that was not written by torch may be wrong in any way.
    except Exception as error:
        said = str(error).strip() or type(error).__name__
        yield f"pickled objects in {name!r} ({said.splitlines()[0]})"


def _faults_of_payload(archive: zipfile.ZipFile, path: PurePosixPath, said: Any) -> Iterator[str]:
    """Yield what is wrong with the members that a table of weights or constants names."""
    table = said.get("config") if isinstance(said, dict) else None
    for entry in table.values() if isinstance(table, dict) else ():
        member = str(entry.get("path_name")) if isinstance(entry, dict) else ""
        if not _TENSOR.fullmatch(member):
            yield f"{member!r} among its tensors"
        elif entry.get("use_pickle") is not False:
            yield from _faults_of_pickle(archive, str(path.with_name(member)))


def _faults_of_text(said: Any) -> Iterator[str]:
    """Yield operators, expressions and types that could be something else than they should."""
    if isinstance(said, list):
        for part in said:
            # Not of each number: there may be a hundred million.
            if isinstance(part, dict | list):
                yield from _faults_of_text(part)
    if not isinstance(said, dict):
        return
    for key, value in said.items():
        is_operator = key == "as_operator" or (key == "target" and "inputs" in said)
        if is_operator and not _is_pure(str(value)):
            yield f"the operator {value!r}"
        elif key == "expr_str" and not _is_harmless(value):
            yield f"the expression {value!r}"
        elif key == "guards_code":
            yield from (f"the guard {guard!r}" for guard in value if not _is_harmless(guard))
        elif key == "__enum__":
            yield f"an object of {value!r}"
        elif key in ("in_spec", "out_spec") and isinstance(value, str) and value:
            yield from _faults_of_text(json.loads(value))
        else:
            yield from _faults_of_text(value)


def _is_pure(operator: str) -> bool:
    """Say whether an operator computes with tensors, numbers and sizes, and reaches no file."""
    if _OPERATOR.fullmatch(operator):
        return True
    found = _ON_TENSORS.fullmatch(operator)
    if not found:
        return False
    name, overload = found[1], found[found.re.groups]
    kind = getattr(getattr(torch.ops.aten, name, None), overload, None)
    # Some of these names are functions of Python, as all objects have them.
    if not isinstance(kind, torch._ops.OpOverload):
        return False
    return all(map(_takes_no_file, kind._schema.arguments))


def _takes_no_file(argument: Any) -> bool:
    """Say whether an argument of an operator is a tensor, a number or a word of its own."""
    kind = str(argument.type)
    return argument.name in _TEXTS if "str" in kind else bool(_TYPE.fullmatch(kind))


def _is_harmless(text: Any) -> bool:
    """Say whether Python that is evaluated is arithmetic on sizes and no more."""
    try:
        nodes = list(ast.walk(ast.parse(str(text), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    # Text is evaluated in turn by most functions.
    texts = {
        id(node) for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str
    }
    for node in nodes:
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
            return False
        if isinstance(node, ast.Subscript):
            texts.discard(id(node.slice))
        if isinstance(node, ast.Call):
            called = node.func
            if not isinstance(called, ast.Name | ast.Attribute):
                return False
            if isinstance(called, ast.Name) and not _NAMED.fullmatch(called.id):
                return False
            if isinstance(called, ast.Name) and called.id in ("Symbol", "Float"):
                texts -= {id(argument) for argument in node.args}
    return not texts
