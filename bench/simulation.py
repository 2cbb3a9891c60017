"""What the reports of simulated experiments share: running bench/simulated, and tables and curves of what came out."""
import subprocess
import sys
from pathlib import Path

import plot

MACHINES = Path(__file__).resolve().parent.parent / "machines"


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


class Report:
    def __init__(self, out, limit):
        self.out, self.limit, self.failed = out, limit, False

    def figure(self, title, unit, curves):
        """curves: name -> {x: value}; a curve `paper...` is what the one without that word is compared with."""
        print(f"\n{title} ({unit})")
        print(f"  {'x':>9}" + "".join(f"{name:>20}" for name in curves) + f"{'difference':>14}")
        for x in sorted(set().union(*curves.values())):
            differences = []
            for name, paper in curves.items():
                ours = curves.get(name.replace("paper", "tern"), {})
                if not name.startswith("paper") or x not in paper or x not in ours:
                    continue
                off = 100 * (ours[x] / paper[x] - 1)
                wrong = self.limit is not None and abs(off) > self.limit
                self.failed |= wrong
                differences.append(f"{off:+.1f} %" + (" !" if wrong else ""))
            print(f"  {x:>9}" + "".join(f"{c[x]:>20.3f}" if x in c else f"{'-':>20}" for c in curves.values()) +
                  "  " + ", ".join(differences))
        rows = [{"x": x, "unit": unit, "mpis": {n: {"median": c[x], "low": c[x], "high": c[x]} for n, c in curves.items() if x in c}}
                for x in sorted(set().union(*curves.values()))]
        if self.out:
            plot.curves(self.out / (title.split(":")[0].lower().replace(" ", "-") + ".svg"), title, rows)
