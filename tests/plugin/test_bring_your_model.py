"""The examples of docs/models.md, each on the real package, as a user runs it.

`make clients` installs the packages; where one is missing, its example is skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NEEDED = ("dm_control", "safetensors")
# What nobody trained is caught.
GOOD, UNTRAINED = ("passed", "MODEL AS GOOD AS ORACLE"), ("xfailed", "MODEL BOTTLENECK")
CASES = {
    "numpy": ((), {"test_numpy": GOOD}),
    "torch": (("torch",), {"test_torch": GOOD}),
    "jax": (("jax",), {"test_jax[step]": GOOD, "test_jax[scan]": GOOD}),
    "torchrl": (("torchrl",), {"test_torchrl": GOOD}),
    "mbrl": (("mbrl",), {"test_mbrl": GOOD}),
    "stable_worldmodel": (
        ("stable_worldmodel",),
        {f"test_stable_worldmodel[{name}]": UNTRAINED for name in ("tdmpc2", "lewm")}
        | {f"test_pictures_of_goals[{name}]": UNTRAINED for name in ("lewm", "pldm", "dino_wm")},
    ),
    "tdmpc2": (("torch",), {"test_tdmpc2": UNTRAINED}),
    "tdmpc2_pixels": (("tensordict", "hydra"), {"test_tdmpc2_pixels": UNTRAINED}),
    "simulusion": (("simulusion",), {"test_simulusion": UNTRAINED}),
    "dreamer": (("torch",), {"test_dreamer": UNTRAINED}),
    "dreamer_pixels": (("gymnasium", "hydra"), {"test_dreamer_pixels": UNTRAINED}),
}
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
if find_spec("torchvision"):
    PLUGINS += ("-p", "cpu_torchvision")
OBSERVED = (("position", 2), ("to_target", 2), ("velocity", 2))


def write_tdmpc2(folder):
    import torch
    from official_weights import tdmpc2

    torch.save({"model": tdmpc2(observation=6, action=2)}, folder / "tdmpc2.pt")


def write_dreamer(folder):
    import torch
    from official_weights import dreamer

    torch.save(dreamer(observed=OBSERVED, action=2, parts=8)[1], folder / "dreamer.pt")


def write_simulusion(folder):
    """Save what simulusion saves of its Dreamer."""
    import cpu_torchvision  # noqa: F401 - it imports torchvision
    import torch
    from simulusion.configs.dreamer_config import DreamerConfig
    from simulusion.models.dreamer import Dreamer
    from simulusion.world_model import as_world_model

    torch.manual_seed(0)
    settings = DreamerConfig()
    settings.buffer_size = 100
    as_world_model(Dreamer(settings, (3, 64, 64), 2, "cpu")).save(folder / "simulusion")


def write_mbrl(folder):
    """Save what mbrl-lib saves of five members that are the network of the other examples."""
    import mbrl.models
    import numpy as np
    import torch
    from safetensors.torch import load_file

    w = load_file(EXAMPLES / "dmc_gates" / "models" / "reacher-easy.safetensors")
    silu = {"_target_": "torch.nn.SiLU"}
    network = mbrl.models.GaussianMLP(8, 6, "cpu", 2, 5, 64, activation_fn_cfg=silu)
    model = mbrl.models.OneDTransitionRewardModel(network, normalize=True, learned_rewards=False)
    scale, shift = w["change_scale"], w["change_mean"]
    # Log variances of -20 beside the means.
    last = torch.cat([w["layers.4.weight"] * scale[:, None], torch.zeros(6, 64)])
    bias = torch.cat([w["layers.4.bias"] * scale + shift, torch.full((6,), -20.0)])
    layers = [(w[f"layers.{n}.weight"], w[f"layers.{n}.bias"]) for n in (0, 2)] + [(last, bias)]
    places = [network.hidden_layers[0][0], network.hidden_layers[1][0], network.mean_and_logvar]
    with torch.no_grad():
        network.min_logvar.fill_(-20)
        for place, (weight, own) in zip(places, layers, strict=True):
            place.weight.copy_(weight.T.expand_as(place.weight))
            place.bias.copy_(own.expand_as(place.bias))
    # The standard deviation of two numbers is that between them, over the root of two.
    step = w["input_scale"] / 2**0.5
    spread = torch.stack([w["input_mean"] - step, w["input_mean"] + step]).numpy()
    model.input_normalizer.update_stats(spread.astype(np.float32))
    (folder / "pets").mkdir()
    model.save(folder / "pets")


WRITE = {
    "tdmpc2": write_tdmpc2,
    "dreamer": write_dreamer,
    "mbrl": write_mbrl,
    "simulusion": write_simulusion,
}


# Whose own code writes the checkpoint: repository, commit, and the folder that has its modules.
OFFICIAL = {
    "tdmpc2_pixels": ("nicklashansen/tdmpc2", "e9f59321933cbc8e11a002b842adc7d4ffae8ff1", "tdmpc2"),
    "dreamer_pixels": ("NM512/dreamerv3-torch", "6ef8646d807cd10ce0c88e10a7e943211e7fc44c", "."),
}


def write_official(name, folder):
    """Let the official code write a checkpoint, and compare its answers with ours."""
    repository, commit, modules = OFFICIAL[name]
    clone = cloned(f"https://github.com/{repository}", commit)
    official = ROOT / "tests" / "official_code.py"
    written = [name.removesuffix("_pixels"), str(clone / modules), str(folder / f"{name}.pt")]
    run = [sys.executable, "-W", "ignore", str(official), *written]
    result = subprocess.run(run, env=environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def cloned(url, commit):
    """Return a folder in build/ with a commit of a repository; skip where there is no network."""
    folder = ROOT / "build" / "official" / commit
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    git = ["git", "-C", str(fresh)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    result = subprocess.run(
        [*git, "fetch", "--quiet", "--depth=1", url, commit],
        # Nobody is there to type a password.
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        shutil.rmtree(fresh)
        # A commit that is gone is no matter of the network.
        assert "unable to access" in result.stderr, result.stderr
        pytest.skip(f"cannot get the official code: {' '.join(result.stderr.split())}")
    subprocess.run([*git, "checkout", "--quiet", "FETCH_HEAD"], check=True)
    return fresh.rename(folder)


@pytest.mark.trains
@pytest.mark.parametrize("name", CASES)
def test_an_example_gives_its_verdict(name, tmp_path):
    packages, expected = CASES[name]
    if name not in ("numpy", "torch") and "CLIENTS" not in os.environ:
        pytest.skip("takes long, or another library: make clients")
    for package in (*NEEDED, *packages):
        if find_spec(package) is None:
            assert "CLIENTS" not in os.environ, f"make clients installed no {package}"
            pytest.skip(f"needs {package}: make clients")
    for example in ("bring_your_model", "dmc_gates"):
        shutil.copytree(EXAMPLES / example, tmp_path / example)
    folder = tmp_path / "bring_your_model"
    if name in OFFICIAL:
        write_official(name, folder)
    if name in WRITE:
        write = f"import test_bring_your_model as t; from pathlib import Path; t.WRITE[{name!r}]"
        # In a process of its own: other tests forget what they import.
        run = [sys.executable, "-W", "ignore", "-c", f"{write}(Path({str(folder)!r}))"]
        subprocess.run(run, check=True, cwd=ROOT / "tests" / "plugin", env=environment())
    result = subprocess.run(
        [sys.executable, "-m", "pytest", f"test_{name}.py", "--cpg-json=o.json", *PLUGINS],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    said = json.loads((folder / "o.json").read_text(encoding="utf-8"))
    found = {
        gate["id"].partition("::")[2]: (gate["outcome"], gate["comparisons"][0]["label"])
        for gate in said["gates"]
    }
    assert found == expected


def test_every_snippet_of_the_page_is_of_an_example_and_every_example_is_on_it():
    files = {
        path.name: path.read_text(encoding="utf-8")
        for path in (EXAMPLES / "bring_your_model").glob("*.*")
        if path.is_file()
    }
    # Those on training data are of no model: tests/world_models/test_transitions.py runs them.
    models = re.sub(r"^## Training data$.*?(?=^## )", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    snippets = re.findall(r"^```(?:python|toml)\n(.*?)^```$", models, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 6
    for snippet in snippets:
        # The page is formatted by itself: other blank lines.
        assert any(written(snippet) in written(text) for text in files.values()), snippet
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) == {f"test_{name}.py" for name in CASES}
    assert set(re.findall(r"`(\w+\.toml)`,? \|", PAGE)) <= files.keys()


def written(text):
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def environment():
    """Return what a user has set: nothing but one thread for small matrices, and our plugin."""
    own = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS")}
    own = {k: v for k, v in own.items() if not k.startswith("PYTEST_XDIST")}
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return {**own, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
