"""Reads the description of the MPI API: `*.api` (functions) and `constants.api`. Format: README.md."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass
class Parameter:
    name: str
    kind: str               # "count", "out_comm", ... : kinds.py
    args: list = field(default_factory=list)   # buffer[count, datatype] -> ["count", "datatype"]
    when: str = ""          # significant only at: sender, receiver, root, rooted ("" = always)
    ctype: str = ""         # of raw{...} and callback{...}


@dataclass
class Function:
    name: str               # MPI_Send
    chapter: int
    parameters: list
    flags: set
    returns: str = "int"
    same_as: str = ""       # the body of another function serves
    form: str = ""          # of a collective: run, begin or prepare
    operation: str = ""     # of a collective: the stem of its blocking form

    @property
    def body(self):
        return self.same_as or self.operation or self.stem

    @property
    def prefix(self):
        """MPI_, or MPIX_ of what MPI does not have."""
        return self.name[:self.name.index("_") + 1]

    @property
    def stem(self):
        return self.name[len(self.prefix):]

    @property
    def large(self):
        return "large" in self.flags

    @property
    def any_time(self):
        return "any_time" in self.flags

    @property
    def reads(self):
        """Reads only what never changes, or the caller's own memory: needs no lock."""
        return "reads" in self.flags

    @property
    def raw(self):
        """Does not return an error class: the entry point calls capi::raw:: directly."""
        return self.returns != "int" or self.name.endswith("_toint") or self.name == "MPI_Pcontrol"

    @property
    def symbols(self):
        return [self.name] + ([self.name + "_c"] if self.large else [])


@dataclass
class Constant:
    name: str
    ctype: str
    value: int
    alias: str = ""


_PARAMETER = re.compile(r"(\w+|\.\.\.):\s*(\w+\??)(?:\[([^\]]*)\])?(?:@(\w+))?(?:\{([^}]*)\})?$")


def _split_parameters(text):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "[{("
        depth -= c in "]})"
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:])
    return [p.strip() for p in parts]


def _parse_function(text, chapter, where):
    match = re.match(r"(MPIX?_\w+)\((.*)\)((?: \w+(?:\{\w+\})?)*)$", text)
    if not match:
        raise SystemExit(f"{where}: not a function: {text}")
    name, inner, tail = match.groups()
    parameters = []
    for part in _split_parameters(inner):
        m = _PARAMETER.match(part)
        if not m:
            raise SystemExit(f"{where}: {name}: not a parameter: {part}")
        args = [a.strip() for a in m.group(3).split(",")] if m.group(3) else []
        parameters.append(Parameter(m.group(1), m.group(2), args, m.group(4) or "", m.group(5) or ""))
    function = Function(name, chapter, parameters, set())
    for flag in tail.split():
        m = re.match(r"(returns|as)\{(\w+)\}$", flag)
        if m and m.group(1) == "returns":
            function.returns = m.group(2)
        elif m:
            function.same_as = m.group(2)
        elif flag in ("large", "any_time", "collective", "reads"):
            function.flags.add(flag)
        else:
            raise SystemExit(f"{where}: {name}: unknown flag {flag}")
    return function


def _forms(function):
    """The functions of one entry: of a collective its blocking, nonblocking and persistent forms (6.12, 6.13)."""
    if "collective" not in function.flags:
        return [function]
    stem, request = function.stem, Parameter("request", "out_request")

    def form(name, how, more):
        return replace(function, name="MPI_" + name, parameters=function.parameters + more, form=how, operation=stem)

    return [form(stem, "run", []), form("I" + stem[0].lower() + stem[1:], "begin", [request]),
            form(stem + "_init", "prepare", [Parameter("info", "info?"), request])]


def read_extensions(folder):
    """The functions beyond MPI's."""
    return read_functions(folder, "extensions.api")[0]


def read_functions(folder, files="[0-9]*.api"):
    """All functions, in the order of the files, and the chapters' titles."""
    functions, titles = [], {}
    for path in sorted(Path(folder).glob(files)):
        chapter, logical = None, ""
        for number, line in enumerate(path.read_text().splitlines() + [""], 1):
            if line.startswith("    "):
                logical += " " + line.strip()
                continue
            if logical:
                functions += _forms(_parse_function(logical, chapter, f"{path.name}:{number}"))
                logical = ""
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            match = re.match(r'chapter (\d+) "(.*)"$', line)
            if match:
                chapter = int(match.group(1))
                titles[chapter] = match.group(2)
            else:
                logical = line
    names = [s for f in functions for s in f.symbols]
    doubles = {n for n in names if names.count(n) > 1}
    if doubles:
        raise SystemExit(f"described twice: {sorted(doubles)}")
    return functions, titles


def read_constants(folder):
    """[(section title, [Constant])] of constants.api."""
    sections = []
    for number, line in enumerate((Path(folder) / "constants.api").read_text().splitlines(), 1):
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        match = re.match(r"section (.*)$", line)
        if match:
            sections.append((match.group(1), []))
            continue
        match = re.match(r"(MPI_\w+)\s+(.+?)\s+(-?\d+|0x[0-9a-f]+|=\s*MPI_\w+)$", line)
        if not match:
            raise SystemExit(f"constants.api:{number}: {line}")
        name, ctype, value = match.groups()
        if value.startswith("="):
            sections[-1][1].append(Constant(name, ctype, 0, value[1:].strip()))
        else:
            sections[-1][1].append(Constant(name, ctype, int(value, 0)))
    return sections
