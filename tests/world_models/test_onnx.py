import pickle

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics


def stored(weight, *, joined, location=None):
    """Return the file of ``observations + [observations, actions] @ weight``.

    With a location, it names that as the file of the weight.
    """
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
    if location is not None:
        onnx.external_data_helper.set_external_data(constants[-1], location)
        constants[-1].ClearField("raw_data")
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


@pytest.mark.parametrize("location", ["weights/0.bin", "w" * 150])
def test_weights_are_read_from_the_files_that_a_model_names_in_its_folder(tmp_path, location):
    weight = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    (tmp_path / "model.onnx").write_bytes(stored(weight, joined=False, location=location))
    (tmp_path / location).parent.mkdir(exist_ok=True)
    (tmp_path / location).write_bytes(weight.tobytes())
    model = OnnxDynamics.load(tmp_path / "model.onnx")
    expected = OnnxDynamics(stored(weight, joined=False))
    (tmp_path / location).unlink()
    sent = pickle.loads(pickle.dumps(model))  # noqa: S301
    rows = np.ones((3, 2)), np.ones((3, 2))
    assert (sent(*rows) == expected(*rows)).all()


def test_metadata_name_no_files_of_weights(tmp_path):
    model = onnx.load_from_string(stored(np.zeros((4, 2), np.float32), joined=False))
    onnx.helper.set_model_props(model, {"location": "third floor"})
    onnx.save(model, tmp_path / "model.onnx")
    rows = np.ones((3, 2))
    assert (OnnxDynamics.load(tmp_path / "model.onnx")(rows, rows) == rows).all()


@pytest.mark.parametrize("location", ["../secret", "/etc/secret", "a/../../secret", "C:secret"])
def test_weights_outside_of_the_folder_of_a_model_are_not_read(tmp_path, location):
    weight = np.zeros((4, 2), dtype=np.float32)
    (tmp_path / "secret").write_bytes(weight.tobytes())
    (tmp_path / "run").mkdir()
    file, content = tmp_path / "run" / "model.onnx", stored(weight, joined=True, location=location)
    file.write_bytes(content)
    with pytest.raises(WorldModelError, match=r"outside of its own folder, and nothing is read"):
        OnnxDynamics.load(file)
    # An order in which nobody writes it, and which protobuf permits.
    key, value = b"\n\x08location", b"\x12" + bytes([len(location)]) + location.encode()
    file.write_bytes(content.replace(key + value, value + key))
    with pytest.raises(WorldModelError, match="is no model that ONNX Runtime can read"):
        OnnxDynamics.load(file)


def test_what_onnx_runtime_says_of_shapes_is_what_a_user_sees(tmp_path):
    (tmp_path / "model.onnx").write_bytes(stored(np.zeros((4, 2), np.float32), joined=False))
    model = OnnxDynamics.load(tmp_path / "model.onnx")
    with pytest.raises(WorldModelError, match=r"model\.onnx' fails: .*Got: 3 Expected: 2"):
        model(np.zeros((8, 3)), np.zeros((8, 2)))
