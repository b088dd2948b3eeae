import pickle

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.onnx import OnnxDynamics


def stored(weight, *, joined):
    """Return the file of ``observations + [observations, actions] @ weight``."""
    helper, numbers = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("MatMul", ["joined", "weight"], ["change"]),
        helper.make_node("Add", ["observations", "change"], ["next"]),
    ]
    if joined:
        inputs = [helper.make_tensor_value_info("joined", numbers, ["B", 4])]
        ends = [np.array([value], dtype=np.int64) for value in (0, 2, 1)]
        names = ["first", "last", "axis"]
        constants = [onnx.numpy_helper.from_array(*pair) for pair in zip(ends, names, strict=True)]
        nodes = [helper.make_node("Slice", ["joined", *names], ["observations"]), *nodes]
    else:
        inputs = [
            helper.make_tensor_value_info("observations", numbers, ["B", 2]),
            helper.make_tensor_value_info("actions", numbers, ["B", 2]),
        ]
        constants = []
        nodes = [
            helper.make_node("Concat", ["observations", "actions"], ["joined"], axis=-1),
            *nodes,
        ]
    constants.append(onnx.numpy_helper.from_array(weight, "weight"))
    outputs = [helper.make_tensor_value_info("next", numbers, ["B", 2])]
    graph = helper.make_graph(nodes, "dynamics", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.mark.parametrize("joined", [False, True])
def test_an_onnx_model_gives_what_its_formula_gives(tmp_path, joined):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 2)).astype(np.float32)
    (tmp_path / "model.onnx").write_bytes(stored(weight, joined=joined))
    model = OnnxDynamics.load(tmp_path / "model.onnx")
    observations, actions = rng.normal(size=(2, 8, 2))
    expected = observations + np.concatenate([observations, actions], -1) @ weight
    sent = pickle.loads(pickle.dumps(model))  # noqa: S301
    for same in (model, sent):
        assert same(observations, actions) == pytest.approx(expected, abs=1e-5)


def test_a_file_that_is_no_onnx_model_is_named(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(
        WorldModelError, match=r"model\.onnx' is no model that ONNX Runtime can read"
    ):
        OnnxDynamics.load(tmp_path / "model.onnx")
