"""A type of our namespace has one definition. Two types of one name in two files compile and link, and then one's functions run on
the other's objects."""
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r"^(?:template <[^\n]*>\n)?(?:class|struct|union|enum class)(?: ESCAPEMENT_API)? (\w+)(?![\w:<])[^;{\n]*\{", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w: ]*?) ?\{", re.MULTILINE)   # an inline namespace is the one around it
END = re.compile(r"^\}  // namespace", re.MULTILINE)


def definitions(text):
    """(namespace, name) of each type that is defined at the left margin, but for those of anonymous namespaces."""
    marks = sorted([(m.start(), "open", m[1].replace("::inline ESCAPEMENT_ABI", "")) for m in NAMESPACE.finditer(text)] + [(m.start(), "close", "") for m in END.finditer(text)]
                   + [(m.start(), "type", m[1]) for m in DEFINITION.finditer(text)])
    spaces, found = [], []
    for _, kind, name in marks:
        if kind == "open":
            spaces.append(name)
        elif kind == "close" and spaces:
            spaces.pop()
        elif kind == "type" and spaces and "" not in spaces:
            found.append(("::".join(spaces), name))
    return found


def test_no_name_has_two_definitions():
    places = defaultdict(set)
    for top in ("src", "include"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in (".h", ".cpp"):
                for name in definitions(file.read_text()):
                    places[name].add(file.relative_to(ROOT).as_posix())
    assert len(places) > 200
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_second_definition_is_found():
    text = "namespace a {\nstruct S {\n};\nnamespace {\nstruct Hidden {\n};\n}  // namespace\nclass S;\nclass T final : public S {\n};\n}  // namespace a\n"
    assert definitions(text) == [("a", "S"), ("a", "T")]
