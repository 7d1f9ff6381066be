"""Load the streams application that a Python file on the command line defines."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from penstock.streams import App

_OTHER_NAME: Final = "penstock_app_{}"
"""The module's name if a module of the file's own name exists already."""


class AppFileError(Exception):
    """The file has no usable application; the message says what was found and what to do."""


def load_app(path: Path, name: str | None = None) -> tuple[App, ModuleType]:
    """The application of a file, and the file's module.

    The file runs as a module under its own name, so code below ``if __name__ == "__main__"`` does not run;
    modules beside it can be imported. ``name`` is the variable, or the application's own name; without it
    there must be exactly one `App`. Raises AppFileError.
    """
    module = _run(path)
    apps = {variable: value for variable, value in vars(module).items() if isinstance(value, App)}
    if name is not None:
        named = apps.get(name) or next((app for app in apps.values() if app.name == name), None)
        if named is None:
            there = f"it has {_listed(apps)}" if apps else "it has none"
            raise AppFileError(f"{path} has no App {name!r}: {there}")
        return named, module
    distinct = list({id(app): app for app in apps.values()}.values())
    if not distinct:
        raise AppFileError(f'{path} has no App: expected one in the module, such as app = App("shop")')
    if len(distinct) > 1:
        raise AppFileError(f"{path} has several Apps: {_listed(apps)}. Choose one with --app")
    return distinct[0], module


def _listed(apps: dict[str, App]) -> str:
    return ", ".join(f"{variable} ({app.name})" for variable, app in sorted(apps.items()))


def _run(path: Path) -> ModuleType:
    if not path.exists():
        raise AppFileError(f"{path}: there is no such file")
    if not path.is_file() or path.suffix != ".py":
        raise AppFileError(f"{path}: expected a Python file, *.py")
    path = path.resolve()
    name = path.stem
    if name in sys.modules or not name.isidentifier() or name in sys.stdlib_module_names:
        name = _OTHER_NAME.format("".join(c if c.isalnum() else "_" for c in path.stem))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # dataclasses and pickle look a module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise AppFileError(f"{_where(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _where(path: Path, error: BaseException) -> str:
    """The line of the file that failed, and the line of a module beside it if the error came from there."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}, line {error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename != __file__
    ]
    own = [frame for frame in frames if frame.filename == str(path)]
    if not own:
        return str(path)
    text = f"{path}, line {own[-1].lineno}"
    last = frames[-1]
    if last is not own[-1] and Path(last.filename).parent == path.parent:
        text += f" ({Path(last.filename).name}, line {last.lineno})"
    return text
