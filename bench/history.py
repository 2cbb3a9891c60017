"""A history of benchmark runs: one line of JSON for each run of bench/run --history FILE, and what has changed since one.

Times of different days cannot be compared, nor those of different machines. What is kept and compared are the ratios to the
better peer of the same run; a figure whose peers were not measured is compared with nothing. A change counts when it is
larger than the limit and the quartiles of both runs, divided by the peer's median, do not overlap.
"""
import datetime
import json
import pathlib
import platform
import subprocess

LIMIT = 0.05


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit_of(root):
    done = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def entry_of(results, root):
    """What is kept of a run: for each figure the ratio, and our quartiles as ratios."""
    figures = {}
    for case, rows in results.items():
        for row in rows:
            ours = row["mpis"].get("tern")
            if row.get("ratio") is None or not ours or not ours["median"]:
                continue
            scale = row["ratio"] / ours["median"]
            figures[f"{case} {row['series']} {row['x']} {row['unit']}"] = [
                round(row["ratio"], 4), round(ours["low"] * scale, 4), round(ours["high"] * scale, 4)]
    return {"commit": commit_of(root), "date": datetime.date.today().isoformat(), "processor": processor(), "figures": figures}


def append(path, results, root):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry_of(results, root)) + "\n")


def read(path, root):
    """The last run of a history; or of a results.json."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    try:
        whole = json.loads(text)  # one object: a results.json, or a history of one run
    except json.JSONDecodeError:
        whole = json.loads([line for line in text.splitlines() if line.strip()][-1])
    return whole if "figures" in whole else dict(entry_of(whole, root), commit="results.json", date="")


def more_is_better(figure):
    return figure.rsplit(" ", 1)[1] in ("GB/s", "M/s", "percent")


def changes(before, now):
    """(figure, ratio before, ratio now, worse) of what has changed, the worst first."""
    found = []
    for figure, (ratio, low, high) in now["figures"].items():
        if figure not in before["figures"]:
            continue
        old, old_low, old_high = before["figures"][figure]
        apart = low > old_high or high < old_low
        if not old or not apart or abs(ratio / old - 1) <= LIMIT:
            continue
        worse = (ratio < old) == more_is_better(figure)
        found.append((figure, old, ratio, worse))
    change = lambda one: max(one[1] / one[2], one[2] / one[1]) if one[2] else float("inf")
    return sorted(found, key=lambda one: (not one[3], -change(one)))


def report(before, now):
    """The lines of --compare."""
    common = len(before["figures"].keys() & now["figures"].keys())
    yield f"compared with {before['commit']} {before['date']}: {common} figures, by their ratios to the better peer"
    if before.get("processor") and before["processor"] != now["processor"]:
        yield f"  measured on another processor ({before['processor']}): ratios differ between machines, too"
    found = changes(before, now)
    for figure, old, ratio, worse in found:
        yield f"  {'worse ' if worse else 'better'}  {figure:<60}{old:>8.3f} -> {ratio:.3f}"
    if not found:
        yield f"  nothing has changed by more than {100 * LIMIT:.0f} %"
