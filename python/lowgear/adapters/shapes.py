"""The shape of a module by its source: its classes and functions with their parameters. Nothing of it is executed, and
nothing that it imports is imported, so that large frameworks are looked at in a fraction of a second."""

import ast
import inspect
import types
from collections import ChainMap
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

Find = Callable[[str], Optional[Path]]
_CALLED_BY_PYTHON = {"__getattr__", "__dir__"}  # in a module: a function that does nothing would be called, too
_Names = ChainMap  # what a scope has defined, then what surrounds it


class NotRead(Exception):
    """A part of a source that only its execution shows."""


class Unread:
    """Stands for a value that only an execution gives. Looking into it raises NotRead."""

    def __init__(self, what: str):
        object.__setattr__(self, "what", what)

    def _refuse(self, *_: Any) -> Any:
        raise NotRead(f"{object.__getattribute__(self, 'what')} is computed when it is imported")

    __getattr__ = __iter__ = __getitem__ = __setitem__ = __contains__ = __len__ = __call__ = __mro_entries__ = _refuse


def find_source(name: str, path: List[str]) -> Optional[Path]:
    """The file of a module, as Python would find it with the folders of `path`; None where there is none. Imports
    nothing."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top, path)
    if spec is None or spec.origin is None:
        spec = find_spec(top) or spec  # by a finder of an editable installation
    if spec is None:
        return None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for part in rest[:-1]:
        folders = [folder / part for folder in folders]
    files = [file for folder in folders for file in (folder / rest[-1] / "__init__.py", folder / f"{rest[-1]}.py")]
    return next((file for file in files if file.is_file()), None)


def decorators_of(function: Any) -> Tuple[str, ...]:
    """Names of the decorators of a function in a shape. Their effect on its parameters is not known."""
    return getattr(function, "__lowgear_decorators__", ())


class Shape(types.ModuleType):
    """A module of which only the shape is known. Its imports are looked up on access."""

    def __init__(self, name: str, file: Path, resolve: Callable[[str, str], Any]):
        super().__init__(name)
        self.__file__ = str(file)
        self.imported: Dict[str, Tuple[str, str]] = {}
        self._resolve = resolve

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.imported:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        setattr(self, name, Unread(f"{self.__name__}.{name}"))  # for modules that import each other
        value = self._resolve(*self.imported[name])
        setattr(self, name, value)
        return value


class Shapes:
    """Shapes of modules, each read once. `find` gives the file of a module by its name."""

    def __init__(self, find: Find):
        self._find = find
        self._shapes: Dict[str, Shape] = {}

    def module(self, name: str) -> Shape:
        """Raises LookupError where the module is nowhere; OSError, SyntaxError or ValueError where it cannot be read."""
        if name not in self._shapes:
            file = self._find(name)
            if file is None:
                raise LookupError(name)
            if file.suffix != ".py":
                raise ValueError(f"{file} is no source")
            tree = ast.parse(file.read_bytes(), str(file))
            shape = self._shapes[name] = Shape(name, file, self._resolved)
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            _Reader(shape, package).read(tree.body, ChainMap(vars(shape)))
        return self._shapes[name]

    def _resolved(self, module: str, name: str) -> Any:
        """The value of `from module import name`; Unread where it is not known."""
        try:
            return self.module(f"{module}.{name}") if name else self.module(module)
        except (LookupError, OSError, SyntaxError, ValueError):
            pass
        try:
            return getattr(self.module(module), name)
        except (AttributeError, LookupError, OSError, SyntaxError, ValueError):
            return Unread(f"{module}.{name}" if name else module)


class _Reader:
    def __init__(self, shape: Shape, package: str):
        self._shape = shape
        self._package = package

    def read(self, statements: Iterable[ast.stmt], names: _Names, prefix: str = "") -> None:
        """Adds the definitions of the statements to `names`. Of several branches the first one counts."""
        for statement in statements:
            if getattr(statement, "name", "") in _CALLED_BY_PYTHON and not prefix:
                continue
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names[statement.name] = self._function(statement, prefix)
            elif isinstance(statement, ast.ClassDef):
                names[statement.name] = self._class(statement, names, prefix)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._import(statement)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self._assign(statement, names, prefix)
            elif isinstance(statement, (ast.If, ast.Try, ast.With)):
                self._branches(statement, names, prefix)

    def _branches(self, statement: Any, names: _Names, prefix: str) -> None:
        self.read(statement.body, names, prefix)
        others = [*getattr(statement, "orelse", ()), *getattr(statement, "finalbody", ())]
        for handler in getattr(statement, "handlers", ()):
            others += handler.body
        found = names.new_child()
        self.read(others, found, prefix)
        names.maps[0].update({name: value for name, value in found.maps[0].items() if name not in names.maps[0]})

    @staticmethod
    def _source_of(module: Optional[str], package: str, level: int) -> str:
        """The module that `from ... import` names, as `level` dots of a package count."""
        if level == 0:
            return module or ""
        folders = package.split(".")
        return ".".join([*folders[: len(folders) - level + 1], *([module] if module else [])])

    def _import(self, statement: Any) -> None:
        imported = self._shape.imported
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                source = self._source_of(statement.module, self._package, statement.level)
                imported.setdefault(alias.asname or alias.name, (source, alias.name))
            else:
                top = alias.name.partition(".")[0]
                imported.setdefault(alias.asname or top, (alias.name if alias.asname else top, ""))

    def _function(self, node: Any, prefix: str) -> Any:
        """A function of the same parameters that does nothing."""

        def function(*_: Any, **__: Any) -> None:
            return None

        function.__name__, function.__qualname__ = node.name, prefix + node.name
        function.__module__ = self._shape.__name__
        setattr(function, "__signature__", _signature(node.args))
        setattr(function, "__lowgear_decorators__", tuple(_name_of(decorator) for decorator in node.decorator_list))
        return function

    def _class(self, node: ast.ClassDef, names: _Names, prefix: str) -> Any:
        scope = names.new_child()
        self.read(node.body, scope, f"{prefix}{node.name}.")
        scope.pop("__slots__", None)  # it would have to be executed
        members = {**scope.maps[0], "__module__": self._shape.__name__, "__qualname__": prefix + node.name}
        bases = (self._value(base, names, node.name) for base in node.bases)
        try:
            return type(node.name, tuple(base for base in bases if isinstance(base, type)), members)
        except TypeError:
            return type(node.name, (), members)

    def _assign(self, node: Any, names: _Names, prefix: str) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                names[target.id] = self._value(node.value, names, f"{prefix}{target.id}")

    def _value(self, node: ast.expr, names: _Names, what: str) -> Any:
        """Of constants, names and displays of them; Unread of anything else."""
        unread = Unread(f"{self._shape.__name__}: {what}")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else getattr(self._shape, node.id, unread)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value, names, what)
            return unread if isinstance(owner, Unread) else getattr(owner, node.attr, unread)
        if isinstance(node, (ast.List, ast.Tuple)):
            values = [self._value(element, names, what) for element in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.Dict):
            keys = [unread if key is None else self._value(key, names, what) for key in node.keys]
            # Without an entry whose key is not known, it would look as if the framework had none.
            if not any(isinstance(key, (Unread, list)) for key in keys):
                return dict(zip(keys, (self._value(value, names, what) for value in node.values)))
        return unread


class _Written:
    """A default as its source writes it, where that is no constant."""

    def __init__(self, node: ast.expr):
        self._text = ast.unparse(node) if hasattr(ast, "unparse") else "..."

    def __repr__(self) -> str:
        return self._text


def _default(node: Optional[ast.expr]) -> Any:
    if node is None:
        return inspect.Parameter.empty
    return node.value if isinstance(node, ast.Constant) else _Written(node)


def _signature(arguments: ast.arguments) -> inspect.Signature:
    kinds = inspect.Parameter
    positional = [(argument, kinds.POSITIONAL_ONLY) for argument in getattr(arguments, "posonlyargs", ())]
    positional += [(argument, kinds.POSITIONAL_OR_KEYWORD) for argument in arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    parameters = [kinds(argument.arg, kind, default=_default(default))
                  for (argument, kind), default in zip(positional, defaults)]
    if arguments.vararg:
        parameters.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    parameters += [kinds(argument.arg, kinds.KEYWORD_ONLY, default=_default(default))
                   for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        parameters.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _name_of(node: ast.expr) -> str:
    """`a.b` of a decorator `a.b(...)`."""
    if isinstance(node, ast.Call):
        return _name_of(node.func)
    if isinstance(node, ast.Attribute):
        return f"{_name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
