"""The part of bench/tune that chooses algorithms of collectives: every row of the library's table that applies to a communicator of a
shape (tern-info --collectives) is measured beside the table's own choice, by bench/levels.c."""
import os
import re
import statistics
import subprocess

import simulation

# Of bench/levels.c; its names are those of TERN_COLL but for this one, which calls MPI_Reduce_scatter_block.
OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall", "reduce_scatter")
NAMES = {"reduce_scatter": "reduce_scatter_block"}
SIMULATED_GAIN, GAIN = 1.01, 1.05  # a row replaces the table's if it is so much faster; simulated times have no noise


def parse_shape(text):
    """'4x24' to (4, 24), '16' to (1, 16)."""
    nodes, _, ranks = text.rpartition("x")
    return int(nodes or 1), int(ranks)


def table(text):
    """What tern-info prints: {operation: ([(first byte, row)], [other rows])}."""
    found, operation = {}, None
    for line in text.splitlines()[1:]:
        operation = line[:22].strip() or operation
        window, row = line[22:40].strip(), line[40:].strip()
        used, others = found.setdefault(operation, ([], []))
        if window == "others":
            others += row.split(", ")
            continue
        first = re.search(r"^(?:from )?(\d+)([KM]?)", window)
        used.append((int(first[1]) << {"": 0, "K": 10, "M": 20}[first[2]] if first else 1, line[40:60].strip()))
    return found


class Shape:
    def __init__(self, options):
        self.options, self.text = options, options.collectives
        self.nodes, self.per_node = parse_shape(self.text)
        self.ranks = self.nodes * self.per_node
        env = dict(os.environ, TERN_CONFIG="", TERN_COLL="")
        listed = subprocess.run([options.build / "bin/tern-info", "--collectives", self.text], capture_output=True, text=True, env=env,
                                check=True)
        self.table = table(listed.stdout)

    def suffix(self):
        return f"@{self.ranks}" + (f"x{self.nodes}" if self.nodes > 1 else "")

    def times(self, operation, row):
        """{bytes: us}; row None: the table's choice."""
        arguments = ["--only", operation, "--way", "library", "--blocks-max", "65536", "--rounds", "2" if self.options.machine else "20"]
        forced = f"{NAMES.get(operation, operation)}={row}" if row else ""
        if self.options.machine:
            series = simulation.run(self.options.build, self.options.machine, self.options.build / "bench-programs/levels.so", arguments,
                                    f"ranks={self.ranks}", f"ranks_per_node={self.per_node}", "node_path=1", f"coll={forced}")
        else:
            hosts = ["-host", ",".join(f"{name}:{self.per_node}" for name in self.options.hosts.split(","))] if self.options.hosts else []
            command = [self.options.build / "bin/mpiexec", *hosts, "-n", str(self.ranks),
                       self.options.build / "bench-programs/bench_levels", *arguments]
            series = simulation.points_of(command, dict(os.environ, TERN_CONFIG="", TERN_COLL=forced))[0]
        return next(iter(series.values()))

    def chosen(self, operation, size):
        """The table's own row."""
        return [row for first, row in self.table[NAMES.get(operation, operation)][0] if first <= max(size, 1)][-1]


def measure(shape, operation):
    """{row: {bytes: us}}; None: the table's choice. Runs of all rows are interleaved, so that drift of the machine meets all."""
    used, others = shape.table[NAMES.get(operation, operation)]
    rows = [None, *dict.fromkeys([row for _, row in used] + others)]
    # In simulated time node memory is not there; the rows of the table are then those of messages.
    runs = {row: [] for row in rows if row != "node" or not shape.options.machine}
    for _ in range(1 if shape.options.machine else shape.options.repeat):
        for row, seen in runs.items():
            seen.append(shape.times(operation, row))
    return {row: {size: statistics.median(run[size] for run in seen) for size in seen[0]} for row, seen in runs.items()}


def entries_of(shape, operation, times):
    """TERN_COLL's entries where another row than the table's is faster, and where the table's is right again."""
    gain = SIMULATED_GAIN if shape.options.machine else GAIN
    entries, row = [], None  # row: what the entries so far say; None: nothing
    for size in sorted(times[None]):
        own = shape.chosen(operation, size)
        best = min((row for row in times if row), key=lambda row: times[row][size], default=own)
        wanted = best if best != own and times[best][size] * gain < times[None][size] else own
        if wanted != (row or own):
            entries.append(f"{NAMES.get(operation, operation)}={wanted}:{size}{shape.suffix()}")
            row = wanted
    return entries


def tune(options):
    """The value of `coll` for this shape, as text."""
    shape = Shape(options)
    entries = []
    for operation in options.only.split(",") if options.only else OPERATIONS:
        times = measure(shape, operation)
        print(f"# {operation}, us: " + ", ".join(row or "default" for row in times))
        for size in sorted(times[None]):
            print(f"#   {size:>8} " + " ".join(f"{times[row][size]:>9.2f}" for row in times) + f"  {shape.chosen(operation, size)}")
        entries += entries_of(shape, operation, times)
    return ",".join(entries)


def merged(old, new, shape):
    """Entries of other shapes stay."""
    suffix = Shape.suffix(shape)
    kept = [entry for entry in old.split(",") if entry and not entry.endswith(suffix)]
    return ",".join(kept + [entry for entry in new.split(",") if entry])
