#!/usr/bin/env python3
"""Makes stand-ins of the C library's shared libraries that have only what an older release had.

stubs.py --limit 2.28 --into FOLDER [--compiler CC]

A program that is linked with them (-L FOLDER) gets, of each symbol, the newest version that is not above the limit, so that it also
runs on the older C library. What came later is an error of the linker (--no-undefined), never of a user; replacements.c has some of it.
The symbols are read from the libraries of the compiler, in which all old versions still are. Nothing of the stand-ins is ever run.

Up to 2.33 threads and the dynamic linker's functions had libraries of their own, where an old system still looks for them.
"""
import argparse
import pathlib
import re
import subprocess

LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")
# What moved into libc.so.6 with 2.34: name to the library in which older systems have it.
MOVED = (("libdl.so.2", re.compile(r"dl(open|close|sym|vsym|error|addr1?|info|mopen)$")),
         ("libpthread.so.0", re.compile(r"(pthread_|sem_(?!ctl|get|op|timedop))")),
         ("librt.so.1", re.compile(r"(aio_|lio_|mq_|shm_(open|unlink)|timer_)")))


def version(text):
    return tuple(int(part) for part in text.split("."))


class Symbol:
    def __init__(self, address, size, kind, weak, release):
        self.address, self.size, self.kind, self.weak, self.release = address, size, kind, weak, release


def symbols(library, limit):
    """Name to Symbol of everything that the library had at the limit."""
    found = {}
    listing = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True, text=True, stdout=subprocess.PIPE).stdout
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] in ("UND", "ABS", "Ndx") or fields[3] == "TLS":
            continue
        match = re.fullmatch(r"(\w+)@@?GLIBC_([\d.]+)", fields[7])
        if not match or version(match[2]) > limit:
            continue
        name, release = match[1], match[2]
        if name not in found or version(found[name].release) < version(release):
            kind = "object" if fields[3] == "OBJECT" else "function"
            found[name] = Symbol(int(fields[1], 16), int(fields[2], 0), kind, fields[4] == "WEAK", release)
    return found


def write_library(folder, soname, mine, compiler):
    """A shared library with these symbols, and the name by which the linker looks for it."""
    releases = sorted({symbol.release for symbol in mine.values()}, key=version)
    text, nodes = [], []
    # Data with several names (environ, __environ) has one place, so that an executable's copy of it gets all its names.
    place = {}
    for number, (name, symbol) in enumerate(sorted(mine.items())):
        label = f"stub_{number}"
        text += [f"{'.weak' if symbol.weak else '.globl'} {label}", f".type {label}, %{symbol.kind}"]
        size = max(symbol.size, 1) if symbol.kind == "object" else 4
        if symbol.kind == "object" and symbol.address in place:
            text += [f".set {label}, {place[symbol.address]}"]
        else:
            text += [".data" if symbol.kind == "object" else ".text", f"{label}: .skip {size}"]
            place[symbol.address] = label
        text += [f".size {label}, {size}", f".symver {label}, {name}@@GLIBC_{symbol.release}"]
    for number, release in enumerate(releases):
        nodes.append(f"GLIBC_{release} {{ {'local: stub_*;' if number == 0 else ''} }};")
    (folder / f"{soname}.s").write_text("\n".join(text + ['.section .note.GNU-stack,"",%progbits', ""]))
    (folder / f"{soname}.map").write_text("\n".join(nodes) + "\n")
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={folder / (soname + '.map')}",
                    "-o", folder / soname, folder / f"{soname}.s"], check=True)
    link = folder / re.sub(r"\.so\..*", ".so", soname)
    link.unlink(missing_ok=True)
    if soname == "libc.so.6":
        rest = [file_of(compiler, "libc_nonshared.a")]
        link.write_text(f"GROUP ( {folder / soname} {' '.join(map(str, rest))} AS_NEEDED ( {folder / 'ld.so'} ) )\n")
    else:
        link.symlink_to(soname)


def file_of(compiler, name):
    return pathlib.Path(subprocess.run([compiler, f"-print-file-name={name}"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip())


def dynamic_linker(libc):
    """The dynamic linker that libc.so.6 needs; it has functions of its own (__tls_get_addr)."""
    text = subprocess.run(["readelf", "-d", libc], check=True, text=True, stdout=subprocess.PIPE).stdout
    return libc.parent / re.search(r"NEEDED.*\[(ld-[\w.-]+)\]", text)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", required=True)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    folder, limit = arguments.into.resolve(), version(arguments.limit)
    folder.mkdir(parents=True, exist_ok=True)

    libraries = {name: {} for name in LIBRARIES}
    for name in LIBRARIES:
        path = file_of(arguments.compiler, name).resolve()
        for symbol, facts in symbols(path, limit).items():
            owner = name
            if name == "libc.so.6":
                owner = next((library for library, pattern in MOVED if pattern.match(symbol)), name)
            known = libraries[owner].get(symbol)
            if known is None or version(known.release) < version(facts.release):
                libraries[owner][symbol] = facts
    linker = dynamic_linker(file_of(arguments.compiler, "libc.so.6").resolve())
    own = {name: facts for name, facts in symbols(linker, limit).items() if name not in libraries["libc.so.6"]}
    write_library(folder, linker.name, own, arguments.compiler)
    (folder / "ld.so").unlink(missing_ok=True)
    (folder / "ld.so").symlink_to(linker.name)
    for name, mine in libraries.items():
        write_library(folder, name, mine, arguments.compiler)


if __name__ == "__main__":
    main()
