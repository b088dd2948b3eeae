"""Environments: what an id or a function of the user's makes, and what defines it."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    packages_distributions,
    version,
)
from importlib.util import find_spec
from typing import Any

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import unknown_name

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ComponentError(
        f"tasks named gym: need {error.name}, which is not installed. "
        f'Type: pip install "pytest-cpg[gymnasium]"'
    ) from error

# By these an object is known to be an environment.
_MEMBERS = ("observation_space", "action_space", "unwrapped")
# What its own environments compute with, by the folder that they are in.
_ENGINES = {"box2d": "Box2D", "phys2d": "jax", "tabular": "jax"}


def spec_of(name: str) -> Any:
    """Return gymnasium's spec of an id, or of one that a module registers: ``ogbench:cube-v0``.

    Raises ComponentError when there is none, or the module cannot be imported.
    """
    module, colon, identity = name.rpartition(":")
    if colon:
        _import(module, name)
    try:
        return gymnasium.spec(identity)
    except (gymnasium.error.Error, ModuleNotFoundError):
        prefix = f"gym:{module}{colon}"
        error = unknown_name("Gymnasium environment", prefix, identity, _newest().values())
        if colon or "Did you mean" in str(error):
            raise error from None
        raise ComponentError(
            f"{error} Write the package in front of an environment that it registers: "
            f"gym:ogbench:cube-single-v0."
        ) from None


def _import(module: str, name: str) -> None:
    """Import the module that registers a name, or raise ComponentError."""
    what = f"gym:{name} is registered by the module {module!r}, which cannot be imported: "
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        # Packages are installed by names with hyphens, and imported by others.
        spelt = module.replace("-", "_")
        if spelt != module and find_spec(spelt.partition(".")[0]):
            raise ComponentError(
                f"gym:{name} names no module. Did you mean "
                f"'gym:{spelt}{name.removeprefix(module)}'?"
            ) from None
        raise ComponentError(
            f"{what}it needs {error.name}, which is not installed. {_to_install(error)}, or, where "
            f"it is a file of yours, name its folder in pythonpath= of pytest's settings."
        ) from None
    # Whatever the code of a module raises.
    except Exception as error:
        raise ComponentError(
            f"{what}{type(error).__name__}: {error}. Try python -c 'import {module}' alone."
        ) from error


def _to_install(error: ModuleNotFoundError) -> str:
    return f"Type: pip install {str(error.name).partition('.')[0].replace('_', '-')}"


def made(make: str | Callable[[], Any]) -> Any:
    """Return the environment of an id, without its time limit, or the one a function makes.

    Raises ComponentError when it needs a package that is not installed, or none is made.
    """
    if not isinstance(make, str):
        return _made_by(make)
    try:
        return in_numbers(
            gymnasium.make(spec_of(make).id, max_episode_steps=-1, disable_env_checker=True)
        )
    except gymnasium.error.DependencyNotInstalled as error:
        engine = engine_of(spec_of(make))
        extra = f"gymnasium[{engine.lower()}]" if engine else "pytest-cpg[gymnasium,control]"
        raise ComponentError(
            f"gym:{make} needs a package that is not installed: {error}. "
            f'Type: pip install "{extra}"'
        ) from error
    # Also of an id that is registered for nothing but to say where its code has gone.
    except ImportError as error:
        spec, module = spec_of(make), make.rpartition(":")[0]
        newest = _newest().get(_unversioned(spec), spec.id)
        fix = f". {_to_install(error)}." if isinstance(error, ModuleNotFoundError) else ""
        if newest != spec.id:
            fix = f" Take gym:{module + ':' if module else ''}{newest}."
        raise ComponentError(f"gym:{make} cannot be made: {error}{fix}") from None
    # Whatever its code raises, such as where it was written for another version of its simulator.
    except Exception as error:
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ComponentError(
            f"gym:{make} cannot be made, as its own code raises {what}. Try "
            f"gymnasium.make({make!r}) alone; its package may need other versions."
        ) from error


def made_to_draw(make: str | Callable[[], Any], size: int) -> Any:
    """Return an environment that can be drawn; raise ComponentError where there is none.

    One of MuJoCo draws frames of this size at once, any other as it does.
    """
    if not isinstance(make, str):
        environment = made(make)
        mode = getattr(environment, "render_mode", None)
        if mode != "rgb_array":
            raise ComponentError(
                f'observe="pixels": {make!r} makes an environment with render_mode={mode!r}. Let '
                f'it make one with render_mode="rgb_array".'
            )
        return environment
    spec = spec_of(make)
    sizes: list[dict[str, Any]] = [{"width": size, "height": size}, {}]
    for settings in sizes:
        try:
            with warnings.catch_warnings():
                # OGBench's arms are drawn without a mode.
                warnings.filterwarnings("ignore", ".*render_mode")
                environment = gymnasium.make(
                    spec.id,
                    max_episode_steps=-1,
                    disable_env_checker=True,
                    render_mode="rgb_array",
                    **settings,
                )
            return in_numbers(environment)
        # Whatever its code says of a mode or a size that it does not have.
        except Exception as error:
            refused = error
    raise ComponentError(
        f'observe="pixels": gymnasium.make({make!r}, render_mode="rgb_array") raises '
        f"{type(refused).__name__}: {refused}"
    ) from refused


def in_numbers(environment: Any) -> Any:
    """Return an environment that observes numbers, and looks as it did when it observed pictures.

    OGBench's ``visual-`` ids are the same worlds as those without it, in other colours, and their
    code can tell either.
    """
    bare = environment.unwrapped
    if getattr(bare, "_ob_type", None) != "pixels":
        return environment
    told = next((name for name in ("compute_observation", "get_ob") if hasattr(bare, name)), None)
    if told is None:
        return environment
    hold_renderers(bare)
    kind = type(bare)

    def observed(self: Any, *_: Any, **__: Any) -> Any:
        self._ob_type = "states"
        try:
            return getattr(kind, told)(self)
        finally:
            self._ob_type = "pixels"

    # Of the class, as copies of the environment have to observe themselves.
    bare.__class__ = type(kind.__name__, (kind,), {told: observed})
    if isinstance(getattr(kind, "observation_space", None), property):
        return environment
    size = bare.get_ob().shape
    bare.observation_space = gymnasium.spaces.Box(-float("inf"), float("inf"), size)
    return environment


def period_of(environment: Any) -> float:
    """Return the seconds of a step, 1 where the environment tells neither them nor its films'."""
    period = getattr(environment.unwrapped, "dt", None)
    if period is None:
        rate = environment.metadata.get("render_fps")
        period = 1 / rate if rate else 1.0
    return float(period)


def hides_goal(environment: Any) -> bool:
    """Say whether frames show nothing of a goal, which reset draws: of OGBench's ``visual-`` ids.

    Those with one task alone are for models that know it.
    """
    bare = environment.unwrapped
    is_any = getattr(bare, "_reward_task_id", 0) is None
    return is_any and getattr(bare, "_ob_type", None) == "pixels"


def hold_renderers(bare: Any) -> dict[str, Any]:
    """Keep MuJoCo's renderers of an environment until this process ends; return them by name.

    One that ends deletes what it has in whatever context of OpenGL is current (MuJoCo 3.17), which
    may be that of the next, whose frames are memory then that nobody has written to.
    """
    renderers = {
        name: value
        for name, value in vars(bare).items()
        if type(value).__module__.startswith("mujoco.rendering")
    }
    for renderer in renderers.values():
        if id(renderer) not in _HELD:
            _HELD[id(renderer)] = renderer
            # Later there is no OpenGL to end it with.
            atexit.register(renderer.close)
    return renderers


_HELD: dict[int, Any] = {}


def _made_by(make: Callable[[], Any]) -> Any:
    """Return the environment that a function makes, or raise ComponentError if it makes none."""
    if _is_environment(make) and not isinstance(make, type):
        raise ComponentError(
            f"gym_task was given {make}, an environment itself, and needs what makes one: every "
            f"process has its own. Pass a function: "
            f"gym_task(lambda: {type(make).__qualname__}(...))."
        )
    if not callable(make):
        raise ComponentError(
            f"gym_task was given {make!r}. Pass an id, gym_task('CartPole-v1'), or a function that "
            f"returns an environment."
        )
    result = make()
    if not _is_environment(result):
        raise ComponentError(
            f"gym_task: {make!r} returned {result!r}, which is no environment of gymnasium's. End "
            f"it in a return of one."
        )
    return in_numbers(result)


def _is_environment(value: object) -> bool:
    return all(hasattr(value, name) for name in _MEMBERS)


def definition_of(spec: Any, options: Any = None) -> str | None:
    """Return what defines an environment of an id, and the options of its resets.

    None for what no version or text stands for, such as a function.
    """
    if spec is None or not is_plain(options):
        return None
    wrappers = [(wrapper.entry_point, wrapper.kwargs) for wrapper in spec.additional_wrappers]
    prefixes = ("gymnasium.envs.", *["gymnasium.wrappers."] * len(wrappers))
    entries = [spec.entry_point, *(entry for entry, _ in wrappers)]
    settings = [spec.kwargs, *(kwargs for _, kwargs in wrappers)]
    if not all(str(e).startswith(o) for e, o in zip(entries, prefixes, strict=True)):
        return None
    if not all(is_plain(kwargs) for kwargs in settings):
        return None
    reset = "" if options is None else f" {options}"
    return f"gym {spec.id} {entries} {settings} {spec.order_enforce}{reset}"


def is_plain(value: Any) -> bool:
    """Say whether a setting is known by its text; that of a file is not what is in the file."""
    if isinstance(value, dict):
        return all(is_plain(part) for pair in value.items() for part in pair)
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if isinstance(value, str):
        return not set(value) & set("./\\")
    return value is None or type(value) in (bool, int, float)


def versions_of(spec: Any, *, is_mujoco: bool) -> dict[str, str]:
    """Return the versions of the distributions that decide what an environment does."""
    engine = engine_of(spec)
    distributions = packages_distributions().get(engine, []) if engine else []
    names = ["gymnasium", *(["mujoco"] if is_mujoco else []), *distributions]
    entry = str(getattr(spec, "entry_point", ""))
    if package := entry.replace(":", ".").partition(".")[0]:
        # A module of the user's is of none.
        with suppress(PackageNotFoundError):
            names.append(Distribution.from_name(package).metadata["Name"])
    return {name: version(name) for name in dict.fromkeys(names)}


def engine_of(spec: Any) -> str | None:
    """Return what gymnasium's own environment of an id computes with, beside MuJoCo and numpy."""
    entry = str(getattr(spec, "entry_point", ""))
    return _ENGINES.get(entry.removeprefix("gymnasium.envs.").partition(".")[0])


def _newest() -> dict[tuple[str | None, str], str]:
    """Return the newest id of every environment."""
    by_version = sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
    return {_unversioned(spec): spec.id for spec in by_version}


def _unversioned(spec: Any) -> tuple[str | None, str]:
    return spec.namespace, spec.name
