#!/usr/bin/env python3
"""Checks of the source tree.

layers    a folder of src/ includes only folders below it (layers.txt has the order)
sizes     no source file of more than 600 lines; no line of more than 120 columns (Python: 145)
classes   no class of more than 40 functions or 25 fields
vocabulary the words of docs/architecture.md name types only where they may; units in constants; comments that stand alone
words     no left-over notes, no machine-specific paths, headers without heavy includes, with a head comment
tunables  every row of the table says what it is for; every TERN_* variable that sources mention exists; how variables are read
numbers   a named number has a comment on it, or on its group: its source, or what follows from it
sources   every source file of src/ is compiled, and every folder of tests is built
headers   every header of src/ compiles alone (results are kept in the build tree and reused while nothing changed)
globals   no writable global data below src/capi/ (the rule that makes a rank an object)

Prints one line per finding; exit code 1 when there are any.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

MOST_LINES = 600
MOST_COLUMNS = 120  # of C and C++, as .clang-format says
MOST_PYTHON_COLUMNS = 145
CODE = {".h", ".cc", ".c", ".py"}
FOLDERS = ("src", "api", "tools", "tests", "bench", "examples")
EXTERNAL = ("fmt/",)
HEAVY = ("<regex>", "<iostream>", "<spdlog/", "<fmt/", "<sstream>")
# Written in two parts so that this file does not contain them.
NOTES = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
HOMES = re.compile(r"(?<![\w.$}])/(" + "|".join(["ho" + "me", "ro" + "ot", "wo" + "rk", "Us" + "ers"]) + r")/")
# Writable data that is meant, with its reason.
GLOBALS = {
    "innermost": "sim/crash_note.cc: a signal handler gets no argument of ours",
    "previous_abort": "sim/crash_note.cc: what the handler goes back to",
    "previous_segv": "sim/crash_note.cc: what the handler goes back to",
    "sse42_there": "base/crc32c.cc: the processor's, asked once; it never changes",
    "avx2_there": "datatype/op_loops.cc: the processor's, asked once; it never changes",
    "fast_short": "base/string_copy.h: the processor's, asked once; it never changes",
    "end_of_this_stack": "base/stack_end.cc: a thread's, found once; it never changes",
    "running_strand": "sim/scheduler.cc: calls of the C library get no argument of ours",
    "current_watch": "process/hang_monitor.cc: a signal handler gets no argument of ours",
}


def files(root, folders=FOLDERS, suffixes=CODE):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and "__pycache__" not in path.parts:
                yield path


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


def check_layers(root, build):
    order = [line for line in text_of(root / "tests/style/layers.txt").split("\n") if line and not line.startswith("#")]
    floor = {name: number for number, name in enumerate(order)}
    include = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
    for path in files(root, ("src",), {".h", ".cc"}):
        name = path.relative_to(root / "src").parts[0]
        if name not in floor:
            yield f"{path}: the folder {name} has no place in layers.txt"
            continue
        for wanted in include.findall(text_of(path)):
            other = wanted.split("/")[0]
            if "/" not in wanted:
                if not (path.parent / wanted).exists() and ".gen." not in wanted and wanted not in ("mpi.h", "mpix.h"):
                    yield f'{path}: includes "{wanted}" without its folder'
            elif wanted.startswith(EXTERNAL):
                continue
            elif other not in floor:
                yield f'{path}: includes "{wanted}", which is on no floor'
            elif floor[other] < floor[name]:
                yield f'{path}: {name}/ includes "{wanted}" from a floor above it'


def check_sizes(root, build):
    for path in files(root):
        lines = text_of(path).split("\n")
        if len(lines) > MOST_LINES + 1:
            yield f"{path}: {len(lines) - 1} lines, more than {MOST_LINES}: more than one subject?"
        most = MOST_PYTHON_COLUMNS if path.suffix == ".py" else MOST_COLUMNS
        for number, line in enumerate(lines, 1):
            if len(line) > most and "http" not in line and not line.lstrip().startswith('R"'):
                yield f"{path}:{number}: {len(line)} columns, more than {most}"


def check_words(root, build):
    everywhere = list(files(root, FOLDERS + ("docs", "scripts", "cmake"), CODE | {".md", ".txt", ".cmake", ".api", ".sh"}))
    for path in everywhere:
        for number, line in enumerate(text_of(path).split("\n"), 1):
            if NOTES.search(line):
                yield f"{path}:{number}: a left-over note: {line.strip()}"
            if HOMES.search(line):
                yield f"{path}:{number}: a path of one machine: {line.strip()}"
    for path in files(root, ("src",), {".h"}):
        content = text_of(path)
        if not content.startswith("//"):
            yield f"{path}: has no head comment"
        if "#pragma once" not in content:
            yield f"{path}: has no #pragma once"
        if re.search(r"^\s*using namespace", content, re.M):
            yield f"{path}: opens a namespace for everybody who includes it"
        for heavy in HEAVY:
            if "#include " + heavy in content:
                yield f"{path}: includes {heavy}, which is too heavy for a header"


TYPE = re.compile(r"^\s*(?:template.*)?(?:class|struct|enum class|union)(?: alignas\([^)]*\))? ([A-Z]\w+)(?!\w|;)", re.M)


def vocabulary(root):
    """{word: folders and files that may have types with it; None: everywhere} of the table of docs/architecture.md."""
    rows = re.findall(r"^\| ([a-z, ]+) \| .* \| (everywhere|nowhere|`.*`) \|$", text_of(root / "docs/architecture.md"), re.M)
    for words, places in rows:
        for word in words.split(", "):
            yield word, None if places == "everywhere" else re.findall(r"`(.*?)`", places)


def check_vocabulary(root, build):
    terms = dict(vocabulary(root))
    if len(terms) < 10:
        yield "docs/architecture.md: the table of words was not understood"
    for path in files(root, ("src",), {".h"}):
        place = str(path.relative_to(root / "src"))
        text = text_of(path)
        for name in TYPE.findall(text):
            for part in re.findall(r"[A-Z][a-z]+", name):
                term = part.lower() if part.lower() in terms else part.lower().rstrip("s")
                if terms.get(term) is not None and not place.startswith(tuple(terms[term])):
                    yield f"{path}: {name}: \"{term}\" means something else (docs/architecture.md, Words)"
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"///<? ?(The same|Likewise)\b", line):
                yield f"{path}:{number}: a comment that says nothing alone: {line.strip()}"
    for path in files(root, ("src", "tools", "tests"), {".h", ".cc", ".c"}):
        for name in set(re.findall(r"\bk[A-Z]\w*(?:_bytes|Ns|Us|Ms)\b", text_of(path))):
            yield f"{path}: {name}: constants are kSomeBytes, kSome_ns"


def check_tunables(root, build):
    header = text_of(root / "src/base/tunables.h")
    names = set()
    for name, rest in re.findall(r"\bX\((\w+),(.*?)\"\)", header, re.S):
        names.add(name)
        meaning = " ".join(re.findall(r'"((?:[^"\\]|\\.)*)(?:"|$)', rest))
        if len(meaning.split()) < 4:
            yield f"the tunable {name} does not say what it is for"
    if not names:
        yield "no row of the table of tunables was understood"
    listed = re.search(r"kNotTunables\[\] = \{(.*?)\};", text_of(root / "src/base/tunables.cc"), re.S)
    known = {n.upper() for n in names} | set(re.findall(r'"(\w+)"', listed.group(1) if listed else ""))
    for path in files(root, ("src", "tools"), {".h", ".cc", ".py", ".in"}):
        for name in re.findall(r'getenv\("TERN_([A-Z0-9_]+)"\)|"TERN_([A-Z0-9_]+)="', text_of(path)):
            name = name[0] or name[1]
            if name not in known:
                yield f"{path}: reads or sets TERN_{name}, which is no tunable and not in kNotTunables"
    # docs/security.md: programs with more rights than their user believe the launcher's variables only. What simulates is
    # no part of the library.
    others = ("src/process/launch", "src/sim/", "src/capi/simulated/")
    for path in files(root, ("src",), {".h", ".cc"}):
        if re.search(r"(?<!secure_)\bgetenv\(", text_of(path)) and not str(path.relative_to(root)).startswith(others):
            yield f"{path}: reads a variable by getenv; secure_getenv is for all but what launchers set"


# Sizes of wire fields follow from their drawings, and are asserted. The other two are still to be done.
NUMBERS_NOT_CHECKED = ("src/wire/", "src/p2p/", "src/rma/")
CONSTANT = re.compile(
    r"\s*(?:inline |static )*constexpr (?:std::)?(?:u?int\d*_t|size_t|int|unsigned|long|float|double|Count|\w+seconds_t|rlim_t)"
    r"\s+(k[A-Z]\w*)\s*=\s*(.*\d.*)$"
)


def check_numbers(root, build):
    for path in files(root, ("src", "tools"), {".h", ".cc"}):
        if str(path.relative_to(root)).startswith(NUMBERS_NOT_CHECKED):
            continue
        lines = text_of(path).split("\n")
        for number, line in enumerate(lines):
            found = CONSTANT.match(line)
            if not found or "//" in line:
                continue
            before = number - 1  # the group: declarations right above, and the namespace that holds them
            while before >= 0 and re.match(r"\s*((inline |static )*constexpr |namespace \w)", lines[before]):
                if "//" in lines[before] and "constexpr" in lines[before]:
                    break
                before -= 1
            if before < 0 or "//" not in lines[before]:
                yield f"{path}:{number + 1}: {found.group(1)} has no comment: where is the number from?"


def check_sources(root, build):
    commands = build / "compile_commands.json"
    if commands.exists():
        compiled = {str(pathlib.Path(entry["directory"], entry["file"]).resolve()) for entry in json.loads(text_of(commands))}
        for path in [path for path in compiled if "/Unity/" in path]:  # files that are compiled together
            compiled.update(re.findall(r'^#include "(/.*)"', text_of(pathlib.Path(path)), re.M))
        for path in files(root, ("src",), {".cc", ".c"}):
            if str(path.resolve()) not in compiled:
                yield f"{path}: is compiled nowhere"
    else:
        yield f"{commands} is missing: not configured by CMake?"
    for folder in sorted((root / "tests").iterdir()):
        if folder.is_dir() and any(folder.glob("*")) and not (folder / "CMakeLists.txt").exists():
            yield f"{folder}: has files but no CMakeLists.txt, so nothing of it is built"


def header_is_checked(stamp):
    """Whether the stamp is newer than everything that its header included when it was last checked."""
    try:
        checked = stamp.stat().st_mtime
        return all(os.stat(name).st_mtime <= checked for name in text_of(stamp).split("\n") if name)
    except OSError:
        return False


def leads_its_source(root, path):
    """Whether PATH.cc includes it before all else: then the build has compiled it alone."""
    source = path.with_suffix(".cc")
    first = re.search(r'^#include [<"]([^>"]+)', text_of(source), re.M) if source.exists() else None
    return first is not None and first.group(1) == str(path.relative_to(root / "src"))


def check_header(root, build, path):
    stamp = build / "style" / (str(path.relative_to(root)).replace("/", "+") + ".ok")
    if header_is_checked(stamp):
        return None
    stamp.parent.mkdir(parents=True, exist_ok=True)
    used = stamp.with_suffix(".d")
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter",
               "-MMD", "-MF", str(used), f"-I{root}/src", f"-I{build}/include", f"-I{build}/generated/capi",
               "-x", "c++", "-"]
    source = f'#include "{path.relative_to(root / "src")}"\n'
    lone = subprocess.run(command, input=source, capture_output=True, text=True)
    if lone.returncode != 0:
        return f"{path}: does not compile alone:\n" + "\n".join(lone.stderr.split("\n")[:8])
    stamp.write_text("\n".join(text_of(used).replace("\\\n", " ").split()[1:]))
    return None


def check_headers(root, build):
    headers = [path for path in files(root, ("src",), {".h"}) if not leads_its_source(root, path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for finding in pool.map(lambda path: check_header(root, build, path), headers):
            if finding:
                yield finding


def check_globals(root, build):
    objects = [path for path in (build / "src").rglob("*.o") if "tern_core.dir" in str(path) or "tern_sim.dir" in str(path)]
    if not objects:
        yield f"there are no objects of the core in {build}"
    line = re.compile(r"^[0-9a-f]+ (.)(.)(.)(.)(.)(.)([OF ]) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(.*)$")
    for path in objects:
        listing = subprocess.run(["objdump", "-t", "-C", "-w", str(path)], capture_output=True, text=True).stdout
        for entry in listing.split("\n"):
            match = line.match(entry)
            if not match or match.group(8).split(".")[1:2] not in (["data"], ["bss"], ["tbss"], ["tdata"]):
                continue
            section, size, name = match.group(8), int(match.group(9), 16), match.group(10).strip()
            if size == 0 or section.startswith(".data.rel.ro"):
                continue
            # The compiler's own (references to type information, handles of linkage), the standard library's, and fmt's.
            if name.startswith(("DW.ref.", "guard variable for", "__dso_handle", "std::", "fmt::")) or name in ("", section):
                continue
            if name.split("::")[-1] not in GLOBALS:
                yield f"{path.name}: writable global {name} ({section}, {size} bytes)"


# Larger than the limits: Call is the seam of all entry points, one short function for each kind of argument.
LARGE_CLASSES = {"Call"}
MOST_FUNCTIONS, MOST_FIELDS = 40, 25


def members_of(body):
    """(functions, fields) that the body of a class declares itself."""
    flat, depth = "", 0
    for c in body:
        depth -= c == "}"
        if depth == 0:
            flat += "};" if c == "}" else " {" if c == "{" else c
        depth += c == "{"
    members = [re.sub(r"^(public|private|protected):\s*", "", one.strip()) for one in flat.split(";")]
    members = [one for one in members if one and not re.match(r"(friend|using|static_assert|template)\b|}$", one)]
    functions = [one for one in members if "(" in one and not one.startswith(("std::function<", "const std::function<"))]
    fields = [one for one in members if one not in functions and
              not re.match(r"(enum|struct|class|union|static constexpr|public|private|protected)\b", one)]
    return len(functions), len(fields)


def check_classes(root, build):
    head = re.compile(r"\b(?:class|struct)\s+(?:alignas\(\w+\)\s+)?(\w+)(?:\s+final)?(?:\s*:[^{;()]*)?\s*\{")
    for path in files(root, ("src",), (".h",)):
        text = re.sub(r"//[^\n]*", "", text_of(path))
        for match in head.finditer(text):
            at, depth = match.end(), 1
            while depth and at < len(text):
                depth += (text[at] == "{") - (text[at] == "}")
                at += 1
            functions, fields = members_of(text[match.end():at - 1])
            # What has hardly a function is a table of values.
            too_large = functions > MOST_FUNCTIONS or (fields > MOST_FIELDS and functions > 5)
            if too_large and match.group(1) not in LARGE_CLASSES:
                yield f"{path}: {match.group(1)} has {functions} functions and {fields} fields: it is several classes"


def main():
    checks = {name[6:]: function for name, function in globals().items() if name.startswith("check_") and name != "check_header"}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build", type=pathlib.Path, default=None)
    parser.add_argument("checks", nargs="*", choices=[*checks, []], default=[])
    arguments = parser.parse_args()
    build = arguments.build or arguments.root / "build/release"
    found = 0
    for name in arguments.checks or checks:
        for finding in checks[name](arguments.root, build):
            print(finding.replace(f"{arguments.root}/", ""))
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
