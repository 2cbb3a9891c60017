"""Curves as SVG, by hand: no plotting library is needed to look at a result in a browser."""
import itertools
import math
from xml.sax.saxutils import escape

COLOURS = {"tern": "#0b6e4f", "tern-event": "#8e44ad", "tern-ed": "#c0392b", "tern-adaptive": "#d68910",
           "tern-udp": "#16a2b8", "tern-paper": "#7a5230",
           "tern-traditional": "#8e9a00",
           "tern-both": "#35a77c", "mpich": "#c0392b", "openmpi": "#2e6da4", "paper": "#111111", "paper-both": "#444444", "paper-udp": "#444444",
           "paper-traditional": "#777777"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 440, 70, 20, 40, 50


def _ticks(low, high):
    """Powers of ten (and their halves when few) within [low, high]."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** e for e in range(first, last + 1)]


def _size(x):
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if x >= factor and x % factor == 0:
            return f"{x // factor}{unit}"
    return str(x)


def curves(path, title, rows, by_time=False):
    """Writes curves_text to the path, if there is anything to draw."""
    text = curves_text(title, rows, by_time)
    if text:
        path.write_text(text)


def curves_text(title, rows, by_time=False):
    """One SVG: x logarithmic (bytes or ranks) or linear (time), y logarithmic, a line per MPI with its quartiles as a band."""
    x_scale, x_label = (float, str) if by_time else (math.log2, _size)
    rows = sorted((r for r in rows if r["x"] > 0), key=lambda r: r["x"])
    if len(rows) < 2:
        return ""
    values = [s[k] for r in rows for s in r["mpis"].values() for k in ("low", "high") if s[k] > 0]
    if not values:
        return ""
    ticks = _ticks(min(values), max(values))
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    left, right = x_scale(rows[0]["x"]), x_scale(rows[-1]["x"])

    def px(x):
        return LEFT + (x_scale(x) - left) / ((right - left) or 1) * (WIDTH - LEFT - RIGHT)

    def py(y):
        return HEIGHT - BOTTOM - (math.log10(max(y, ticks[0])) - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">{escape(title)} ({escape(rows[0]["unit"])})</text>']
    for tick in ticks:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(tick):.1f}" y2="{py(tick):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{py(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for row in rows[:: max(1, len(rows) // 12)]:
        out.append(f'<text x="{px(row["x"]):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x_label(row["x"])}</text>')
    present = dict.fromkeys(n for r in rows for n in r["mpis"])
    taken = {COLOURS[n] for n in present if n in COLOURS}
    spare = itertools.cycle(c for c in ("#0b6e4f", "#c0392b", "#2e6da4", "#d68910", "#8e44ad", "#7a5230", "#16a2b8", "#777777")
                             if c not in taken)
    colours = {n: COLOURS[n] for n in COLOURS if n in present} | {n: next(spare) for n in present if n not in COLOURS}
    for index, name in enumerate(colours):
        have = [r for r in rows if name in r["mpis"]]
        line = " ".join(f'{px(r["x"]):.1f},{py(r["mpis"][name]["median"]):.1f}' for r in have)
        band = " ".join([f'{px(r["x"]):.1f},{py(r["mpis"][name]["high"]):.1f}' for r in have] +
                        [f'{px(r["x"]):.1f},{py(r["mpis"][name]["low"]):.1f}' for r in reversed(have)])
        dots = "".join(f'<circle cx="{px(r["x"]):.1f}" cy="{py(r["mpis"][name]["median"]):.1f}" r="3" fill="{colours[name]}"/>' for r in have)
        out.append(dots + f'<polygon points="{band}" fill="{colours[name]}" opacity="0.15"/>'
                   f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="2"/>'
                   f'<text x="{LEFT + 10}" y="{TOP + 14 + 16 * index}" fill="{colours[name]}">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def time_line(path, title, spans, colours, marks=()):
    """One SVG: a row for each peer, x the time in milliseconds, a bar for each span (peer, begin, end, what) in what's colour; below,
    where each of `marks` (time, text) begins."""
    if not spans:
        return
    peers = sorted({peer for peer, *_ in spans})
    end = max(until for _, _, until, _ in spans)
    row = max(4, min(16, (HEIGHT - TOP - BOTTOM) // len(peers)))
    height = TOP + BOTTOM + row * len(peers)

    def px(at):
        return LEFT + at / end * (WIDTH - LEFT - RIGHT)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="15">{escape(title)}</text>']
    for index, (what, colour) in enumerate(colours.items()):
        out.append(f'<rect x="{LEFT + 110 * index}" y="25" width="12" height="10" fill="{colour}"/>'
                   f'<text x="{LEFT + 110 * index + 16}" y="34">{escape(what)}</text>')
    for peer, begin, until, what in spans:
        y = TOP + row * peers.index(peer)
        out.append(f'<rect x="{px(begin):.1f}" y="{y}" width="{max(0.5, px(until) - px(begin)):.1f}" height="{row - 1}" '
                   f'fill="{colours[what]}"/>')
    for index in range(0, len(peers), max(1, 16 // row)):
        out.append(f'<text x="{LEFT - 6}" y="{TOP + row * index + row - 1}" text-anchor="end" font-size="{min(11, 2 * row)}">'
                   f'{peers[index]}</text>')
    for tick in range(9):
        at = end * tick / 8
        out.append(f'<text x="{px(at):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{at:.0f} ms</text>')
    for index, (at, text) in enumerate(marks):  # in two lines, since parts may be short
        out.append(f'<line x1="{px(at):.1f}" x2="{px(at):.1f}" y1="{TOP}" y2="{height - BOTTOM + 4}" stroke="black"/>'
                   f'<text x="{px(at) + 2:.1f}" y="{height - BOTTOM + 32 + 12 * (index % 2)}" font-size="10">{escape(text)}</text>')
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")


def bars_text(title, unit, curves):
    """One SVG: a bar for each curve at each x, for figures with a single x."""
    bars = [(name, x, y) for name, curve in curves.items() for x, y in sorted(curve.items())]
    most = max((abs(y) for *_, y in bars), default=0) or 1
    height = TOP + 24 * len(bars) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">{escape(title)} ({escape(unit)})</text>']
    for index, (name, x, y) in enumerate(bars):
        top = TOP + 24 * index
        colour = "#111111" if name.startswith("paper") else "#0b6e4f"
        out.append(f'<text x="190" y="{top + 13}" text-anchor="end">{escape(name)}, {_size(x)}</text>'
                   f'<rect x="196" y="{top}" width="{max(1, abs(y) / most * (WIDTH - 300)):.1f}" height="18" fill="{colour}"/>'
                   f'<text x="{200 + max(1, abs(y) / most * (WIDTH - 300)):.1f}" y="{top + 13}">{y:.4g}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
