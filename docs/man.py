#!/usr/bin/env python3
"""Makes the man pages of the commands from commands.md, so that there is one text of them.

A section "## first, second" becomes first.1, and second.1 that refers to it. Of Markdown, what commands.md uses: paragraphs,
indented blocks, two-column tables, **bold**, `code`, [links](to pages).
"""
import argparse
import pathlib
import re

SUMMARIES = {
    "mpiexec": "start the ranks of an MPI program",
    "mpicc": "compile and link MPI programs",
    "tern-info": "what this Tern is and what it finds on this machine",
}


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def inline(text):
    """One line of roff: `code` and **bold** in bold face, links by their text."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.replace("\\|", "|"))
    parts = re.split(r"`([^`]*)`|\*\*([^*]*)\*\*", text)  # plain, code, bold, plain, code, bold, ...
    line = "".join(escape(part) if i % 3 == 0 else f"\\fB{escape(part)}\\fR" for i, part in enumerate(parts) if part)
    return "\\&" + line if line[:1] in (".", "'") else line


def table(lines):
    for line in lines[2:]:  # below the heading and its rule
        left, right = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"), maxsplit=1))
        yield ".TP"
        yield inline(left)
        yield inline(right)


def paragraph(lines):
    text = " ".join(line.strip() for line in lines)
    heading = re.match(r"\*\*([^*]+)\.\*\* (.*)", text)
    if heading:
        yield f".SH {escape(heading[1].upper())}"
        text = heading[2]
    else:
        yield ".PP"
    yield inline(text)


def page(title, body, version):
    names = [name.strip() for name in title.split(",")]
    first = names[0]
    yield ".\\\" Made from docs/commands.md."
    yield f'.TH {first.upper()} 1 "" "Tern {version}" "MPI"'
    yield ".SH NAME"
    yield f"{escape(', '.join(names))} \\- {SUMMARIES[first]}"
    described = synopsis = False
    for block in re.split(r"\n\n+", body.strip("\n")):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            yield ".PP" if synopsis else ".SH SYNOPSIS"  # the first; the others are examples
            synopsis = True
            yield from (".nf", *(escape(line[4:]) for line in lines), ".fi")
            continue
        if not described:
            described = True
            yield ".SH DESCRIPTION"
        if lines[0].startswith("### "):
            yield f".SH {escape(lines[0][4:].upper())}"
            if not lines[1:]:
                continue
            lines = lines[1:]
        if lines[0].startswith("|"):
            yield ".SH OPTIONS"
            yield from table(lines)
        else:
            yield from paragraph(lines)
    yield ".SH SEE ALSO"
    yield ", ".join(f"\\fB{escape(name)}\\fR(1)" for name in SUMMARIES if name != first)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("page", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    sections = re.split(r"^## (.+)$", arguments.page.read_text(), flags=re.M)[1:]
    for title, body in zip(sections[::2], sections[1::2]):
        first, *others = (name.strip() for name in title.split(","))
        (arguments.into / f"{first}.1").write_text("\n".join(page(title, body, arguments.version)) + "\n")
        for other in others:
            (arguments.into / f"{other}.1").write_text(f".so man1/{first}.1\n")


if __name__ == "__main__":
    main()
