"""No file of the Python package needs itself, by whatever way: neither at import nor from inside of a function, where a circle hides until
the day on which somebody moves a line. The same holds of its folders."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "escapement"


def files(package):
    """Dotted name inside of the package -> file. A folder goes by its name, and the package itself by none."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(package):
    """name -> names of the files that it imports, anywhere in it."""
    known = files(package)
    return {name: sorted({target for node in ast.walk(ast.parse(file.read_text())) for target in targets(node, name, file, known, package.name)}
                         - {name})
            for name, file in known.items()}


def targets(node, name, file, known, package):
    if isinstance(node, ast.Constant) and file.name == "__init__.py":   # the table of what is imported at first use
        return [node.value] if isinstance(node.value, str) and node.value and node.value in known else []
    if isinstance(node, ast.Import):
        wanted = [alias.name.partition(".")[2] for alias in node.names if alias.name.partition(".")[0] == package]
        return [found for text in wanted if (found := longest_known(text, known)) is not None]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = absolute(node, name, file, package)
    return [] if base is None else [longest_known(f"{base}.{alias.name}".strip("."), known) for alias in node.names]


def absolute(node, name, file, package):
    """What the import names, as a dotted name inside of the package; None for other packages."""
    module = node.module or ""
    if not node.level:
        return module.partition(".")[2] if module.partition(".")[0] == package else None
    folder = name.split(".") if file.name == "__init__.py" and name else name.split(".")[:-1]
    above = folder[:len(folder) - (node.level - 1)]
    return ".".join([*above, *filter(None, [module])])


def longest_known(text, known):
    """`from .a import b` imports the file a.b, or of the file a what is called b."""
    while text not in known:
        text = text.rpartition(".")[0]
    return text


def circle(graph):
    """One circle, as a list that ends as it starts; empty if there is none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name):], name]
        if name in done:
            return []
        path.append(name)
        found = next(filter(None, map(visit, graph[name])), [])
        path.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, graph)), [])


def folders(graph):
    """The same graph between folders. Files that stand in none are each for themselves."""
    def folder(name):
        return name.partition(".")[0]

    found = {}
    for name, imported in graph.items():
        found.setdefault(folder(name), set()).update({folder(target) for target in imported} - {folder(name)})
    return {name: sorted(imported) for name, imported in found.items()}


def test_no_file_needs_itself():
    graph = imports(PACKAGE)
    assert len(graph) > 30 and sum(map(len, graph.values())) > 80
    assert " -> ".join(circle(graph)) == ""


def test_no_folder_needs_itself():
    assert " -> ".join(circle(folders(imports(PACKAGE)))) == ""


def package(root, init="", **texts):
    for name, text in texts.items():
        file = root / "made" / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "made" / "__init__.py").write_text(init)
    return imports(root / "made")


def test_a_circle_is_found(tmp_path):
    graph = package(tmp_path, a="from . import b\n", b="import os\nfrom .c import thing\n", c="def late():\n    from .a import other\n")
    assert circle(graph) == ["a", "b", "c", "a"]


def test_a_circle_by_the_packages_name_is_found(tmp_path):
    graph = package(tmp_path, a="import made.b\n", b="from made import a\n", c="from made.a import thing\nimport numpy\n")
    assert circle(graph) == ["a", "b", "a"] and graph["c"] == ["a"]


def test_a_circle_through_the_package_is_found(tmp_path):
    assert circle(package(tmp_path, init="LAZY = {'f': 'a'}\n", a="from . import f\n")) == ["", "a", ""]


def test_a_circle_of_folders_is_found(tmp_path):
    graph = package(tmp_path, x__a="from ..y.b import thing\n", x__c="from . import a\n", y__b="", y__d="from ..x import c\n")
    assert graph == {"": [], "x.a": ["y.b"], "x.c": ["x.a"], "y.b": [], "y.d": ["x.c"]}
    assert not circle(graph) and circle(folders(graph)) == ["x", "y", "x"]
