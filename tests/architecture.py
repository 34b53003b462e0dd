"""The rules of the architecture as functions of a source tree: each returns its breaches, one sentence a breach.

`tests/test_architecture.py` applies them to chatnb, and to small bad trees, so that a rule which has gone blind is
noticed. The rows and columns are those of ARCHITECTURE.md. Only the syntax tree is read; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROW_0 = ("_clock", "_ids", "_json", "_killpoint", "_ports", "errors")
ROW_6 = (
    "_changes",
    "_children",
    "_composition",
    "_copies",
    "_copies_names",
    "_hooks",
    "_inputs",
    "_notebook",
    "_options",
    "_pending",
    "_schemas",
    "_state",
    "agent",
    "chat",
    "compare",
    "policies",
    "testing",
    "usage",
)


@dataclass(frozen=True)
class Unit:
    """A folder, or files that count as one, with its row and the libraries it may use besides the eager ones."""

    name: str
    row: int
    libraries: frozenset[str] = frozenset()


def _unit(name: str, row: int, *libraries: str) -> Unit:
    return Unit(name, row, frozenset(libraries))


UNITS: Mapping[str, Unit] = {
    **dict.fromkeys(ROW_0, _unit("row 0", 0, "psutil")),
    "messages": _unit("messages", 1),
    "runtime": _unit("runtime", 1, "cloudpickle", "nest_asyncio2"),
    "history": _unit("history", 2),
    "actions": _unit("actions", 2, "griffe"),
    "models": _unit("models", 2, "anthropic", "httpx2", "pydantic_ai"),
    "export": _unit("export", 2, "latex2mathml", "markdown_it", "mdit_py_plugins", "nbformat", "nh3"),
    "store": _unit("store", 3, "alembic", "psycopg", "sqlalchemy"),
    "turns": _unit("turns", 4),
    "recovery": _unit("recovery", 5),
    **dict.fromkeys(ROW_6, _unit("the public objects", 6, "ipywidgets", "opentelemetry", "pandas")),
    "kernel": _unit("kernel", 7, "IPython", "ipykernel"),
    "widget": _unit("widget", 8, "anywidget", "jsonschema", "traitlets"),
    "sites": _unit("sites", 9, "a2a", "click", "jsonschema", "mcp", "mcp_types", "starlette", "uvicorn"),
}
# These may stand at the head of a file; all other libraries are imported on use.
EAGER = frozenset({"click", "psutil", "pydantic", "pydantic_core"})
# The places that may import a lower row, inside a function only.
EXCEPTIONS = {
    "chatnb._notebook": ("chatnb.kernel",),  # binds the ports of calls for chat.py
    "chatnb.agent": ("chatnb.kernel.host",),  # which host shows its objects
    "chatnb.chat": ("chatnb.kernel", "chatnb.widget"),
}
# Reached by imports inside functions alone, so their files are loaded on use.
LOADED_ON_USE = ("chatnb.kernel", "chatnb.widget")
NETWORK = frozenset({"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "socketserver", "urllib3"})
FORBIDDEN_NAMES = frozenset({"common", "helpers", "manager", "misc", "utils"})


@dataclass(frozen=True)
class Import:
    """One import: of what, on which line, and whether it happens when the file is loaded."""

    target: str
    line: int
    at_head: bool


class _Imports(ast.NodeVisitor):
    def __init__(self, module: str, is_package: bool) -> None:
        self.found: list[Import] = []
        self._depth = 0
        self._base = module.split(".") if is_package else module.split(".")[:-1]

    def _add(self, target: str, node: ast.AST) -> None:
        self.found.append(Import(target, getattr(node, "lineno", 0), self._depth == 0))

    def _in_function(self, node: ast.AST) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _in_function  # noqa: N815 - ast's names

    def visit_If(self, node: ast.If) -> None:
        test = node.test
        name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
        for child in node.orelse if name == "TYPE_CHECKING" else [node.test, *node.body, *node.orelse]:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._base[: len(self._base) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            # A name may be a submodule; which of the two it is does not matter to any rule.
            self._add(f"{module}.{alias.name}", node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(first.value, str):
            self._add(first.value, node)
        self.generic_visit(node)


@dataclass(frozen=True)
class Module:
    """A file of the package with its imports."""

    name: str
    path: Path
    imports: tuple[Import, ...]
    tree: ast.Module

    @property
    def unit(self) -> Unit | None:
        """The row's entry, or None for a file that stands in no row."""
        return UNITS.get(self.name.split(".")[1]) if "." in self.name else None


def read(root: Path) -> dict[str, Module]:
    """Parses every file of `root/chatnb`, by module name."""
    modules = {}
    for path in sorted((root / "chatnb").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        tree = ast.parse(path.read_text("utf-8"), str(path))
        visitor = _Imports(name, is_package)
        visitor.visit(tree)
        modules[name] = Module(name, path, tuple(visitor.found), tree)
    return modules


def row_breaches(modules: Mapping[str, Module]) -> Iterator[str]:
    """A file imports only from its own folder and from the rows above it."""
    for module in modules.values():
        if module.name == "chatnb":
            continue
        if module.unit is None:
            yield f"{module.name} stands in no row"
            continue
        for item in module.imports:
            if item.target.split(".")[0] != "chatnb":
                continue
            allowed = EXCEPTIONS.get(module.name, ())
            if not item.at_head and any(_is_within(item.target, name) for name in allowed):
                continue
            yield from _row_breach(module, module.unit, item)


def _row_breach(module: Module, unit: Unit, item: Import) -> Iterator[str]:
    parts = item.target.split(".")
    target = UNITS.get(parts[1]) if len(parts) > 1 else None
    where = f"{module.name}, line {item.line}"
    if target is None:
        if item.target != "chatnb.__version__":
            yield f"{where}: imports {item.target}, which stands in no row; import it from its home"
    elif target.name != unit.name and target.row >= unit.row:
        yield f"{where}: {unit.name} (row {unit.row}) imports {item.target} (row {target.row})"


def library_breaches(modules: Mapping[str, Module]) -> Iterator[str]:
    """A library is used only where the column names it, and loaded on use unless it is an eager one."""
    for module in modules.values():
        unit = module.unit
        for item in module.imports:
            library = item.target.split(".")[0]
            if library in ("chatnb", "__main__") or library in sys.stdlib_module_names:
                continue
            listed = unit is not None and (library in unit.libraries or (library in EAGER_BY_ROW and unit.row >= 1))
            if not listed:
                yield f"{module.name}, line {item.line}: {library} is not in the column of its row"
    for start in modules:
        if not any(_is_within(start, name) for name in LOADED_ON_USE) and _is_entry(modules[start]):
            yield from _loads_heavy(modules, start)


EAGER_BY_ROW = frozenset({"pydantic", "pydantic_core"})


def _is_entry(module: Module) -> bool:
    """Whether others load this file at their head by rule: the `__init__.py` files, rows 0 and 6, the command line."""
    name = module.name
    single = name.count(".") == 1 and module.path.name != "__init__.py"
    return module.path.name == "__init__.py" or single or name == "chatnb.sites.cli"


def _loads_heavy(modules: Mapping[str, Module], start: str) -> Iterator[str]:
    """Follows the imports at the heads of files and reports libraries that are not eager."""
    chains = {start: start}
    queue = [start]
    while queue:
        name = queue.pop()
        for item in modules[name].imports:
            if not item.at_head:
                continue
            library = item.target.split(".")[0]
            if library == "chatnb":
                for loaded in _loaded_by(modules, item.target):
                    if loaded not in chains:
                        chains[loaded] = f"{chains[name]} -> {loaded}"
                        queue.append(loaded)
            elif library not in sys.stdlib_module_names and library not in EAGER:
                yield f"{library} is loaded at the head, not on use: {chains[name]} -> {library}"


def _loaded_by(modules: Mapping[str, Module], target: str) -> Iterator[str]:
    parts = target.split(".")
    for end in range(2, len(parts) + 1):
        if (name := ".".join(parts[:end])) in modules:
            yield name


def network_breaches(modules: Mapping[str, Module], allowed: frozenset[str]) -> Iterator[str]:
    """Only the listed files may open connections or listen."""
    for module in modules.values():
        if module.name in allowed:
            continue
        for item in module.imports:
            if item.target.split(".")[0] in NETWORK or _is_within(item.target, "urllib.request"):
                yield f"{module.name}, line {item.line}: uses the network through {item.target}"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in ("open_connection", "start_server", "create_server"):
                yield f"{module.name}, line {node.lineno}: uses the network through {node.attr}"


def size_breaches(root: Path, exceptions: Mapping[str, int], ceiling: int = 500) -> Iterator[str]:
    """Files end at the ceiling. An exception names the file's present length, and goes when it fits."""
    lengths = {}
    for pattern in ("chatnb/**/*.py", "tests/**/*.py", "widgets/src/**/*.ts*", "widgets/tests/**/*.ts*", "*.py"):
        for path in root.glob(pattern):
            lines = path.read_text("utf-8").splitlines()
            if not any("Generated by" in line for line in lines[:1]):  # nobody reads those
                lengths[path.relative_to(root).as_posix()] = len(lines)
    for name, length in sorted(lengths.items()):
        if length > exceptions.get(name, ceiling):
            yield f"{name} has {length} lines; the ceiling is {exceptions.get(name, ceiling)}"
    for name, length in exceptions.items():
        if lengths.get(name, 0) < length:
            yield f"{name} has {lengths.get(name, 0)} lines now: lower or remove its exception of {length}"


def all_breaches(modules: Mapping[str, Module]) -> Iterator[str]:
    """Each folder says what it owns and lists its public names, sorted and without doubles."""
    for module in modules.values():
        is_package = module.path.name == "__init__.py"
        if is_package and not ast.get_docstring(module.tree):
            yield f"{module.name} does not say what it owns"
        if not is_package or module.name == "chatnb" or ".migrations" in module.name:
            continue
        names = _all_of(module.tree)
        if names is None:
            yield f"{module.name} has no literal __all__"
        elif names not in (sorted(set(names)), sorted(set(names), key=_constants_first)):
            yield f"{module.name}: __all__ is not sorted: {sorted(set(names))}"


def _constants_first(name: str) -> tuple[bool, bool, str]:
    """The other usual order: constants, classes, functions."""
    return not name.isupper(), not name[0].isupper(), name


def _all_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            try:
                return list(ast.literal_eval(getattr(node, "value", None)))  # type: ignore[arg-type]
            except ValueError:
                return None
    return None


def name_breaches(modules: Mapping[str, Module]) -> Iterator[str]:
    """No module has a name that says nothing."""
    for module in modules.values():
        if module.name.split(".")[-1].strip("_") in FORBIDDEN_NAMES:
            yield f"{module.name} has a name that says nothing"


def _is_within(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")
