"""What the reports of simulated experiments share: running bench/simulated, tables and curves of what came out, the marks that say
what a number proves, and recordings, from which the page of the papers is made (bench/papers) and against which tests compare.

Marks. `fitted`: a parameter of the machine was chosen so that this figure comes out (`fitted` in its file). `formula`: the paper's curve
is a formula of its own, with the model's transfer time. `predicted`: none of both, and the model comes within NEAR of the paper's number
(differences, which may be near zero: within NEAR of the largest that the paper has of that curve).
`differs`: it does not; the figure says why. `no number`: the paper's text has none for this point (its pictures are lost).
"""
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import plot

HERE = Path(__file__).resolve().parent
MACHINES = HERE.parent / "machines"
RECORDINGS = HERE / "recorded"
NEAR = 15  # percent
MARKS = ("predicted", "fitted", "formula", "differs", "no number")


def points_of(command, env=None):
    """Runs it in that environment. Returns points {series: {x: value}}, and changes of channels [(from, to, microseconds, channel)]."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    points, changes = {}, []
    for line in done.stdout.splitlines():
        if line.startswith("CHANNEL "):
            _, sender, receiver, at_us, channel = line.split()
            changes.append((int(sender), int(receiver), float(at_us), channel))
        else:
            _, series, x, value, *_ = line.split()  # a count has no unit
            points.setdefault(series, {})[int(x)] = float(value)
    return points, changes


def run(build, machine, program, arguments, *tunables):
    """Points of one simulated run: {series: {x: value}}."""
    return run_with_changes(build, machine, program, arguments, *tunables)[0]


def run_with_changes(build, machine, program, arguments, *tunables):
    """As points_of; changes with the setting channels=RANK."""
    command = [build / "bench-programs/simulated", MACHINES / machine, program, *tunables]
    return points_of([*command, "--", *arguments])


def rows_of(curves, unit):
    """For plot.curves."""
    return [{"x": x, "unit": unit, "mpis": {n: {"median": c[x], "low": c[x], "high": c[x]} for n, c in curves.items() if x in c}}
            for x in sorted(set().union(*curves.values()))]


def parameters_of(machine):
    """[(section.name, value, source, fitted or None)] of a machine's file."""
    with open(MACHINES / machine, "rb") as file:
        sections = tomllib.load(file)
    return [(f"{section}.{name}", entry["value"], entry["source"], entry.get("fitted"))
            for section, table in sections.items() for name, entry in table.items() if isinstance(entry, dict)]


def fingerprint(*machines):
    """Changes when a parameter of the machines does; not with its comments and sources."""
    values = [(name, value) for machine in machines for name, value, *_ in parameters_of(machine)]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def paper_name(name):
    return name.replace("tern", "paper", 1) if name.startswith("tern") else f"paper {name}"


class Report:
    """The figures of one script. `name`: of its recording. `beside`: further machines that it compares with."""

    def __init__(self, name, machine, out=None, beside=()):
        self.name, self.machine, self.machines, self.out = name, machine, (machine, *beside), out
        self.figures, self.conclusions = [], []
        self.fitted = {figure.strip() for *_, fitted in parameters_of(machine) if fitted for figure in fitted.split(";")}
        if out:
            out.mkdir(parents=True, exist_ok=True)

    def figure(self, title, unit, curves, kind="values", why=None, tolerance=3, zero=False, fitted=()):
        """curves: name -> {x: value}. The curve `paper X` (or `paper...` of `tern...`) is what the paper says of X. `kind`: "formula" if
        the paper's curves are formulas. `why`: why the model differs from the paper, where it does. `tolerance`: by how many percent
        a later run may differ from the recording. `zero`: differences are in points of the unit, for values that may be near zero.
        `fitted`: curves for which a setting of the script was chosen (not a parameter of the machine's file)."""
        compared = []
        print(f"\n{title} ({unit})")
        print(f"  {'x':>9}" + "".join(f"{name:>20}" for name in curves) + f"{'difference':>14}")
        for x in sorted(set().union(*curves.values())):
            words = []
            for name, ours in curves.items():
                paper = curves.get(paper_name(name), {})
                if name.startswith("paper") or x not in ours or x not in paper:
                    continue
                off = ours[x] - paper[x] if zero else 100 * (ours[x] / paper[x] - 1)
                near = max(1, NEAR / 100 * max(map(abs, paper.values()))) if zero else NEAR
                mark = "fitted" if name in fitted else self.mark(title, kind, abs(off) <= near)
                compared.append({"curve": name, "x": x, "ours": ours[x], "paper": paper[x], "difference": round(off, 2), "mark": mark})
                words.append(f"{off:+.1f} {'points' if zero else '%'} {mark}")
            print(f"  {x:>9}" + "".join(f"{c[x]:>20.3f}" if x in c else f"{'-':>20}" for c in curves.values()) + "  " + ", ".join(words))
        if any(entry["mark"] == "differs" for entry in compared):
            if not why:
                sys.exit(f"{self.name}, {title}: it differs from the paper, and nobody says why")
            print(f"  differs: {why}")
        self.figures.append({"title": title, "unit": unit, "kind": kind, "tolerance": tolerance, "zero": zero, "why": why,
                             "curves": curves, "compared": compared})
        if self.out:
            plot.curves(self.out / (title.split(":")[0].lower().replace(" ", "-") + ".svg"), title, rows_of(curves, unit))

    def mark(self, title, kind, near):
        if kind == "formula":
            return "formula"
        if any(re.match(rf"{figure}\b", title) for figure in self.fitted):
            return "fitted"
        return "predicted" if near else "differs"

    def conclude(self, text, holds, why=None, fitted=False):
        """A conclusion of the paper; `why`: why it does not hold here. `fitted`: a setting was chosen so that it does."""
        print(f"  {'yes' if holds else 'NO '}  {text}{' (fitted)' if fitted else ''}")
        self.conclusions.append({"text": text, "holds": bool(holds), "why": why, "fitted": fitted})

    # --- Recordings.
    def path(self):
        return RECORDINGS / f"{self.name}.json"

    def record(self):
        RECORDINGS.mkdir(exist_ok=True)
        old = json.loads(self.path().read_text()) if self.path().exists() else {"figures": [], "conclusions": []}
        mine = {figure["title"] for figure in self.figures}, {entry["text"] for entry in self.conclusions}
        kept = [f for f in old["figures"] if f["title"] not in mine[0]], [c for c in old["conclusions"] if c["text"] not in mine[1]]
        text = {"machine": self.machine, "parameters": fingerprint(*self.machines), "figures": self.figures + kept[0],
                "conclusions": self.conclusions + kept[1]}
        self.path().write_text(json.dumps(text, indent=1) + "\n")

    def differences(self):
        """What is not as in the recording, a line each; figures that were not made now do not count."""
        if not self.path().exists():
            return [f"{self.path()} is missing: make it with --record"]
        recorded = json.loads(self.path().read_text())
        figures = {figure["title"]: figure for figure in recorded["figures"]}
        holds = {entry["text"]: entry["holds"] for entry in recorded["conclusions"]}
        lines = []
        if recorded["parameters"] != fingerprint(*self.machines):
            lines.append(f"{' or '.join(self.machines)} has other parameters than the recording: make it anew with --record")
        for figure in self.figures:
            known = figures.get(figure["title"])
            if not known:
                lines.append(f"{figure['title']}: not recorded")
                continue
            for name, curve in figure["curves"].items():
                for x, value in curve.items():
                    before = known["curves"].get(name, {}).get(str(x))
                    if before is None:
                        lines.append(f"{figure['title']}, {name}, {x}: not recorded")
                    elif abs(value - before) > known["tolerance"] / 100 * max(abs(before), 1 if known["zero"] else 0):
                        lines.append(f"{figure['title']}, {name}, {x}: {value:.4g}, recorded {before:.4g}, tolerance {known['tolerance']} %")
        for entry in self.conclusions:
            if entry["holds"] != holds.get(entry["text"]):
                lines.append(f"'{entry['text']}': {entry['holds']}, recorded {holds.get(entry['text'])}")
        return lines

    def finish(self, options):
        """Exit code of the script: with --check 1 if something is not as recorded."""
        if options.record:
            self.record()
        if not options.check:
            return 0
        lines = self.differences()
        for line in lines:
            print(line)
        return 1 if lines else 0


def add_options(parser):
    """What all scripts take."""
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--out", type=Path, help="draws one SVG for each figure into this folder")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a figure is not as in bench/recorded")
    parser.add_argument("--record", action="store_true", help="writes the figures to bench/recorded")
