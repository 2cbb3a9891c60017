// The time line: a row for each lane, drawn from an overview or, where few enough events are on the screen, from the
// events themselves. d3 has the zoom, the axis, the brush of the minimap and the colours of functions.
"use strict";

const kCauseColours = ["#7d93ab", "#d9822b", "#8e5bb5", "#c8352c", "#e3b81f", "#2a8f83", "#4f7d3a"];
const kCauseWords = ["the library's own work and data on the way", "waits for a late sender", "waits for a late receiver",
                     "waits for a rank that is late at a collective", "waits for several ranks: imbalance",
                     "waits for a window's lock or partner", "reads or writes a file"];
const kInnerColours = {1: "#3b4754", 2: "#9fb6a5", 3: "#ffffff66", 4: "#555555"};
const kEventsDrawn = 1500000;  // reading them takes about half a second
const kArrowsDrawn = 4000;     // more are a grey area

class View {
  constructor(trace) {
    this.trace = trace;
    this.lanes = trace.index.lanes.length;
    this.canvas = document.getElementById("lanes");
    this.names = document.getElementById("names");
    this.scroller = document.getElementById("scroll");
    this.tip = document.getElementById("tip");
    this.rowHeight = 0;  // 0: all rows fit
    this.top = 0;
    this.selected = null;  // {lane, begin, end, ...}
    this.marked = null;    // lanes and times of what was searched
    this.byFunction = false;
    this.showMessages = false;
    this.onselect = () => {};
    this.functionColours = d3.scaleOrdinal(d3.schemeTableau10.concat(d3.schemeSet3));
    this.scale = d3.scaleLinear().domain([0, trace.length]);
    this.zoom = d3.zoom()
      .filter(() => !d3.event.button && !(d3.event.type === "wheel" && d3.event.shiftKey))
      .wheelDelta(() => -d3.event.deltaY * (d3.event.deltaMode ? 0.05 : 0.002))
      .on("zoom", () => this.redraw());
    const surface = d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    surface.on("wheel.rows", () => {
      if (d3.event.shiftKey) this.scrollBy(d3.event.deltaY || d3.event.deltaX), d3.event.preventDefault();
    });
    surface.on("click", () => this.click(d3.mouse(this.canvas)));
    surface.on("mousemove", () => this.hover(d3.mouse(this.canvas)));
    surface.on("mouseleave", () => this.tip.hidden = true);
    this.scroller.onscroll = () => {
      this.top = this.scroller.scrollTop;
      this.redraw();
    };
    this.brush = d3.brushX().on("start end", () => {
      if (d3.event.sourceEvent && d3.event.sourceEvent.type !== "zoom") this.brushing = d3.event.type === "start";
    }).on("brush", () => {
      if (!d3.event.sourceEvent || !d3.event.selection) return;
      this.show(...d3.event.selection.map(x => x / this.miniWidth * this.trace.length));
    });
    trace.onload = () => this.redraw();
    new ResizeObserver(() => this.resize()).observe(document.getElementById("stage"));
    this.resize();
  }

  // --- Sizes and places.
  resize() {
    const sized = canvas => {
      const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
      canvas.width = Math.max(1, Math.round(box.width * ratio));
      canvas.height = Math.max(1, Math.round(box.height * ratio));
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
      return [box.width, box.height];
    };
    const before = this.width ? this.domain() : [0, this.trace.length];
    [this.width, this.height] = sized(this.canvas);
    sized(this.names);
    const mini = document.querySelector("#minimap canvas");
    [this.miniWidth, this.miniHeight] = sized(mini);
    this.scale.range([0, this.width]);
    const kShortest_ns = 20;  // shown across the whole width
    this.zoom.extent([[0, 0], [this.width, this.height]]).translateExtent([[0, 0], [this.width, this.height]])
      .scaleExtent([1, Math.max(1, this.trace.length / kShortest_ns)]);
    this.brush.extent([[0, 0], [this.miniWidth, this.miniHeight]]);
    d3.select("#minimap svg").call(this.brush);
    this.drawMinimap(mini);
    this.show(...before);
    this.fitRows();
  }
  row() { return this.rowHeight || Math.max(1, Math.min(26, this.height / this.lanes)); }
  fitRows() {
    this.scroller.firstElementChild.style.height = this.row() * this.lanes + "px";
    this.top = this.scroller.scrollTop = Math.max(0, Math.min(this.top, this.row() * this.lanes - this.height));
    this.redraw();
  }
  setRow(height) {
    const middle = (this.top + this.height / 2) / this.row();
    this.rowHeight = height <= this.height / this.lanes ? 0 : Math.min(60, height);
    this.top = middle * this.row() - this.height / 2;
    this.fitRows();
    this.scrollBy(0);
  }
  scrollBy(pixels) {
    this.scroller.scrollTop = this.top + pixels;
    this.top = this.scroller.scrollTop;
    this.redraw();
  }
  transform() { return d3.zoomTransform(this.canvas); }
  domain() { return this.transform().rescaleX(this.scale).domain(); }
  show(from, to) {
    const scale = this.trace.length / Math.max(to - from, 1e-9);
    d3.select(this.canvas).call(this.zoom.transform,
                                d3.zoomIdentity.scale(scale).translate(-this.scale(from), 0));
  }
  zoomBy(factor) { d3.select(this.canvas).call(this.zoom.scaleBy, factor); }
  panBy(part) { d3.select(this.canvas).call(this.zoom.translateBy, -part * this.width / this.transform().k, 0); }
  laneAt(y) {
    const lane = Math.floor((y + this.top) / this.row());
    return lane >= 0 && lane < this.lanes ? lane : -1;
  }

  // --- Drawing.
  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const paper = this.canvas.getContext("2d"), [from, to] = this.domain(), row = this.row();
    paper.clearRect(0, 0, this.width, this.height);
    const first = Math.max(0, Math.floor(this.top / row)), last = Math.min(this.lanes, Math.ceil((this.top + this.height) / row));
    paper.fillStyle = "#eef1f4";
    const gap = row > 5 ? 1 : 0;
    for (let lane = first; lane < last; lane++) paper.fillRect(0, lane * row - this.top, this.width, row - gap);
    const chunks = this.chunksDrawn(from, to);
    this.detailed = chunks !== null;
    if (chunks) for (const chunk of chunks) this.drawSpans(paper, chunk, from, to, first, last);
    else this.drawOverview(paper, from, to, first, last);
    if (chunks && this.showMessages) this.drawArrows(paper, chunks, from, to);
    this.drawSelection(paper, from, to);
    this.drawNames(first, last);
    d3.select("#axis g").call(d3.axisTop(this.transform().rescaleX(this.scale)).ticks(Math.max(2, this.width / 110))
      .tickFormat(t => this.tick(t, to - from)));
    if (!this.brushing) d3.select("#minimap svg").call(this.brush.move, [from, to].map(t => Math.max(0, t / this.trace.length * this.miniWidth)));
  }
  // As many digits as tell neighbours apart.
  tick(t, shown) {
    const [unit, name] = shown > 5e9 ? [1e9, "s"] : shown > 5e6 ? [1e6, "ms"] : shown > 5e3 ? [1e3, "µs"] : [1, "ns"];
    return d3.format(",." + Math.max(0, Math.ceil(-Math.log10(shown / unit / 20))) + "f")(t / unit) + " " + name;
  }

  // The chunks on the screen; null: too many events, or not all are read yet.
  chunksDrawn(from, to) {
    const inside = this.trace.chunksIn(from, to);
    let events = 0;
    for (const number of inside) {
      const [begin, end, spans, messages] = this.trace.index.chunks[number];
      events += (spans + messages) * Math.min(1, (Math.min(end, to) - Math.max(begin, from)) / Math.max(1, end - begin));
    }
    if (events > kEventsDrawn || inside.length > 48) return null;
    const chunks = inside.map(number => this.trace.chunk(number));
    return chunks.every(Boolean) ? chunks : null;
  }

  colourOf(span, shape) {
    if (shape.kind !== SpanKind.call) return kInnerColours[shape.kind];
    return this.byFunction ? this.functionColours(this.trace.index.sites[shape.site][0]) : kCauseColours[0];
  }

  drawSpans(paper, chunk, from, to, first, last) {
    const row = this.row(), gap = row > 5 ? 1 : 0, perNs = this.width / (to - from);
    const bar = (a, b, y, height, colour) => {
      const left = Math.max(-1, (a - from) * perNs), right = Math.min(this.width + 1, (b - from) * perNs);
      if (right <= 0 || left >= this.width) return;
      paper.fillStyle = colour;
      paper.fillRect(left, y, Math.max(right - left, 0.7), height);
    };
    paper.font = "11px sans-serif";
    paper.textBaseline = "middle";
    for (let lane = first; lane < last; lane++) {
      const y = lane * row - this.top, height = row - gap;
      let drawn = -1;  // where the last bar ended: shorter ones behind it are the same pixel
      for (let i = chunk.first[lane]; i < chunk.first[lane + 1]; i++) {
        const begin = chunk.begins[i], end = chunk.ends[i];
        if (end < from) continue;
        if (begin > to) break;
        const right = (end - from) * perNs;
        if (right - drawn < 0.35) continue;
        drawn = right;
        const shape = chunk.shapeList[chunk.shapes[i]], outer = shape.kind === SpanKind.call;
        const inset = outer ? 0 : height * 0.3;
        bar(begin, end, y + inset, height - 2 * inset, this.colourOf(i, shape));
        if (outer && !this.byFunction) {
          const even = begin + chunk.uneven[i], free = even + chunk.waited[i];
          if (chunk.uneven[i]) bar(begin, even, y, height, kCauseColours[4]);
          if (chunk.waited[i]) bar(even, free, y, height, kCauseColours[chunk.cause[i]]);
        }
        const left = Math.max(0, (begin - from) * perNs), room = Math.min(right, this.width) - left;
        if (outer && height >= 12 && room > 46) {
          paper.fillStyle = "#fff";
          paper.fillText(this.trace.spanName(shape).replace("MPI_", "").slice(0, Math.floor(room / 6.5)), left + 4, y + height / 2 + 0.5);
        }
      }
    }
  }

  // The finest level whose bins are about as wide as a pixel.
  levelFor(from, to) {
    const levels = this.trace.index.levels;
    let level = 0;
    while (level + 1 < levels.length && levels[level].bins * (to - from) / this.trace.length < this.width) level++;
    return level;
  }
  drawOverview(paper, from, to, first, last) {
    const wanted = this.levelFor(from, to), kPart = 1024;
    let level = wanted, parts;
    for (;; level--) {
      const perBin = this.trace.length / this.trace.index.levels[level].bins;
      const begin = Math.max(0, Math.floor(from / perBin / kPart));
      const end = Math.min(this.trace.index.levels[level].parts.length - 1, Math.floor(to / perBin / kPart));
      parts = [];
      for (let part = begin; part <= end; part++) parts.push([part, this.trace.part(level, part)]);
      if (level === 0 || parts.every(([, bytes]) => bytes)) break;
    }
    const row = this.row(), gap = row > 5 ? 1 : 0, height = row - gap;
    const perBin = this.trace.length / this.trace.index.levels[level].bins, wide = perBin / (to - from) * this.width;
    for (const [part, bytes] of parts) {
      if (!bytes) continue;
      for (let lane = first; lane < last; lane++) {
        const y = lane * row - this.top;
        for (let bin = 0; bin < kPart; bin++) {
          const x = ((part * kPart + bin) * perBin - from) / (to - from) * this.width;
          if (x + wide < 0) continue;
          if (x > this.width) break;
          let up = y + height;
          for (let cause = 0; cause < kCauseColours.length; cause++) {
            const share = bytes[(cause * this.lanes + lane) * kPart + bin];
            if (share === 0) continue;
            const tall = share / 255 * height;
            up -= tall;
            paper.fillStyle = kCauseColours[cause];
            paper.fillRect(x, Math.max(y, up), wide + 0.4, tall);
          }
        }
      }
    }
  }

  drawArrows(paper, chunks, from, to) {
    const row = this.row(), x = t => (t - from) / (to - from) * this.width;
    const middle = record => (this.laneOf(record) + 0.5) * row - this.top;
    let drawn = 0;
    paper.lineWidth = 1;
    for (const chunk of chunks) {
      for (let i = 0; i < chunk.from.length && drawn < kArrowsDrawn; i++) {
        if (chunk.done[i] < from || chunk.sent[i] > to) continue;
        drawn++;
        this.arrow(paper, x(chunk.sent[i]), middle(chunk.from[i]), x(chunk.done[i]), middle(chunk.to[i]), "#1d232988");
      }
    }
  }
  arrow(paper, x0, y0, x1, y1, colour) {
    paper.strokeStyle = paper.fillStyle = colour;
    paper.beginPath();
    paper.moveTo(x0, y0);
    paper.lineTo(x1, y1);
    paper.stroke();
    const angle = Math.atan2(y1 - y0, x1 - x0), head = 6;
    paper.beginPath();
    paper.moveTo(x1, y1);
    for (const turn of [2.7, -2.7]) paper.lineTo(x1 + head * Math.cos(angle + turn), y1 + head * Math.sin(angle + turn));
    paper.fill();
  }
  laneOf(record) {
    if (!this.laneOfRecord) {
      this.laneOfRecord = [];
      this.trace.index.lanes.forEach(([record], lane) => this.laneOfRecord[record] ??= lane);
    }
    return this.laneOfRecord[record];
  }

  drawSelection(paper, from, to) {
    const row = this.row(), x = t => (t - from) / (to - from) * this.width;
    const frame = (lane, begin, end, colour) => {
      paper.strokeStyle = colour;
      paper.lineWidth = 2;
      paper.strokeRect(x(begin), lane * row - this.top, Math.max(2, x(end) - x(begin)), Math.max(3, row - 1));
    };
    for (const mark of this.marked || []) {
      if (mark.end >= from && mark.begin <= to) frame(mark.lane, mark.begin, mark.end, "#0b84ff");
    }
    if (!this.selected) return;
    frame(this.selected.lane, this.selected.begin, this.selected.end, "#000");
    paper.lineWidth = 1.5;
    for (const m of this.selected.messages || []) {
      const middle = record => (this.laneOf(record) + 0.5) * row - this.top;
      this.arrow(paper, x(m.sent), middle(m.from), x(m.done), middle(m.to), m.late ? "#c8352c" : "#1d2329");
    }
  }

  drawNames(first, last) {
    const paper = this.names.getContext("2d"), row = this.row();
    paper.clearRect(0, 0, 132, this.height);
    paper.fillStyle = "#1d2329";
    paper.font = Math.min(12, Math.max(9, row - 2)) + "px sans-serif";
    paper.textBaseline = "middle";
    const each = Math.max(1, Math.ceil(11 / row));
    for (let lane = Math.ceil(first / each) * each; lane < last; lane += each) {
      paper.fillText(this.trace.laneName(lane), 8, (lane + 0.5) * row - this.top);
    }
  }

  drawMinimap(canvas) {
    const paper = canvas.getContext("2d"), bytes = this.trace.parts.get(this.trace.index.levels[0].parts[0]).bytes;
    const kPart = 1024, wide = this.miniWidth / kPart;
    paper.clearRect(0, 0, this.miniWidth, this.miniHeight);
    for (let bin = 0; bin < kPart; bin++) {
      let up = this.miniHeight;
      for (let cause = 0; cause < kCauseColours.length; cause++) {
        let sum = 0;
        for (let lane = 0; lane < this.lanes; lane++) sum += bytes[(cause * this.lanes + lane) * kPart + bin];
        const tall = sum / 255 / this.lanes * this.miniHeight;
        up -= tall;
        paper.fillStyle = kCauseColours[cause];
        paper.fillRect(bin * wide, up, wide + 0.3, tall);
      }
    }
  }

  // --- What is under the pointer.
  // The innermost span at a place; waits until its chunk is read.
  async spanAt(lane, time, slack) {
    let best = null;
    for (const number of this.trace.chunksIn(time - slack, time + slack)) {
      const chunk = await this.trace.chunk(number, true);
      for (let i = chunk.first[lane]; i < chunk.first[lane + 1]; i++) {
        if (chunk.begins[i] > time + slack) break;
        if (chunk.ends[i] < time - slack) continue;
        const shape = chunk.shapeList[chunk.shapes[i]];
        const away = Math.max(0, chunk.begins[i] - time, time - chunk.ends[i]);
        const long = chunk.ends[i] - chunk.begins[i];
        const outer = shape.kind === SpanKind.call || shape.kind === SpanKind.unfinished;
        if (best && (best.away < away || (best.away === away && (best.outer && !outer || best.long < long)))) continue;
        best = {lane, away, long, outer, shape, begin: chunk.begins[i], end: chunk.ends[i], uneven: chunk.uneven[i],
                waited: chunk.waited[i], cause: chunk.cause[i], culprit: chunk.culprit[i] - 1, request: chunk.request[i]};
      }
    }
    return best;
  }
  // Those that begin or end in a span, or that it waited for.
  async messagesOf(span) {
    const [record] = this.trace.index.lanes[span.lane], found = new Map();
    for (const number of this.trace.chunksIn(span.begin, span.end)) {
      const chunk = await this.trace.chunk(number, true);
      for (let i = 0; i < chunk.from.length; i++) {
        const out = chunk.from[i] === record && chunk.sent[i] >= span.begin && chunk.sent[i] <= span.end;
        const came = chunk.to[i] === record && chunk.done[i] >= span.begin && chunk.done[i] <= span.end;
        if (!out && !came) continue;
        const what = chunk.what[i];
        const message = {from: chunk.from[i], to: chunk.to[i], sent: chunk.sent[i], matched: chunk.matched[i], done: chunk.done[i],
                         size: chunk.size[i], tag: chunk.tag[i], context: chunk.context[i], unexpected: what % 2 === 1,
                         protocol: (what >> 1) & 15, path: what >> 5, late: came && chunk.sent[i] > span.begin};
        found.set([message.from, message.to, message.sent, message.tag].join(), message);
      }
    }
    return [...found.values()].sort((a, b) => a.sent - b.sent);
  }
  slack() {
    const [from, to] = this.domain();
    return (to - from) / this.width * 3;
  }
  async click([x, y]) {
    this.canvas.focus();
    const lane = this.laneAt(y), time = this.transform().rescaleX(this.scale).invert(x);
    const span = lane < 0 ? null : await this.spanAt(lane, time, this.slack());
    await this.select(span);
  }
  async select(span) {
    this.selected = span;
    if (span) span.messages = await this.messagesOf(span);
    this.redraw();
    this.onselect(span);
  }
  // Puts a span on the screen, with its surroundings.
  goTo(span) {
    const wide = Math.max((span.end - span.begin) * 8, 2000), middle = (span.begin + span.end) / 2;
    this.show(Math.max(0, middle - wide / 2), Math.min(this.trace.length, middle + wide / 2));
    const y = span.lane * this.row();
    if (y < this.top || y + this.row() > this.top + this.height) this.scrollBy(y - this.height / 2 - this.top);
  }
  async hover([x, y]) {
    const lane = this.laneAt(y), turn = this.hovered = {};
    if (lane < 0 || !this.detailed) {
      this.tip.hidden = lane < 0;
      if (lane >= 0) this.tell(x, y, this.trace.laneName(lane) + "\n" + this.trace.time(this.transform().rescaleX(this.scale).invert(x)));
      return;
    }
    const span = await this.spanAt(lane, this.transform().rescaleX(this.scale).invert(x), this.slack() / 3);
    if (turn !== this.hovered) return;
    if (!span) {
      this.tell(x, y, this.trace.laneName(lane) + "\ncomputes");
      return;
    }
    const lines = [this.trace.laneName(lane) + ": " + this.trace.spanName(span.shape) + ", " + this.trace.time(span.end - span.begin)];
    if (span.outer) lines.push(this.trace.place(span.shape.site));
    if (span.uneven) lines.push(this.trace.time(span.uneven) + " imbalance");
    if (span.waited) lines.push(this.trace.time(span.waited) + " " + this.trace.index.causes[span.cause] + (span.culprit >= 0 ? ": rank " + span.culprit : ""));
    this.tell(x, y, lines.join("\n"));
  }
  tell(x, y, text) {
    this.tip.textContent = text;
    this.tip.hidden = false;
    this.tip.style.left = Math.min(x + 144, this.width - 120) + "px";
    this.tip.style.top = (y + 70 > this.height ? y - 60 : y + 14) + "px";
  }
}
