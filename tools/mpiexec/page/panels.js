// What stands below the time line: advice, the selected call, tables and the matrix; search and keys.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};
const table = (heads, rows) => {
  const numeric = heads.map((_, i) => rows.every(row => typeof row[i] === "string" ? /^[\d.,]+( \S+)?$/.test(row[i]) : false));
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head, i) => make("th", numeric[i] ? {class: "number"} : {}, head)))),
              make("tbody", {}, ...rows.map(row => make("tr", {}, ...row.map((cell, i) => make("td", numeric[i] ? {class: "number"} : {}, cell))))));
};
const causeBar = (causes, whole) => make("span", {class: "bar"}, ...causes.map((ns, cause) =>
  make("i", {style: `width:${100 * ns / Math.max(1, whole)}%;background:${kCauseColours[cause]}`,
             title: `${kCauseWords[cause]}: ${(100 * ns / Math.max(1, whole)).toFixed(1)} %`})));

class Panels {
  constructor(trace, view) {
    this.trace = trace;
    this.view = view;
    this.panel = document.getElementById("panel");
    this.tabs = {
      advice: ["what costs most", () => this.advice()],
      selection: ["selected call", () => this.selection()],
      found: ["found", () => this.foundList()],
      ranks: ["ranks", () => this.ranks()],
      matrix: ["who sends to whom", () => this.matrix()],
      traffic: ["protocols and paths", () => this.traffic()],
      counters: ["memory and counters", () => this.counters()],
      help: ["keys", () => this.help()],
    };
    this.found = {text: "", spans: [], more: false};
    for (const [name, [title]] of Object.entries(this.tabs)) {
      document.getElementById("tabs").append(make("button", {id: "tab-" + name, role: "tab", onclick: () => this.open(name)}, title));
    }
    view.onselect = span => this.open(span ? "selection" : "advice");
    this.head();
    this.listen();
    this.open("advice");
  }

  open(name) {
    this.shown = name;
    for (const tab of document.querySelectorAll("#tabs button")) tab.setAttribute("aria-selected", tab.id === "tab-" + name);
    this.panel.replaceChildren(...[this.tabs[name][1]()].flat());
    this.panel.scrollTop = 0;
  }

  head() {
    const index = this.trace.index, lost = index.ranks.reduce((sum, rank) => sum + rank.lost, 0);
    const hosts = new Set(index.ranks.map(rank => rank.host)).size;
    document.getElementById("summary").textContent =
      `${index.ranks.length} ranks on ${hosts} host${hosts === 1 ? "" : "s"}, ${this.trace.time(this.trace.length)}, ` +
      `${index.events.toLocaleString("en")} events, ${index.messages.toLocaleString("en")} messages` +
      (lost ? `; ${lost.toLocaleString("en")} events were lost (--trace-size)` : "");
    const legend = document.getElementById("legend");
    legend.append(make("span", {}, make("i", {style: "background:#eef1f4;border:1px solid #ccc"}), "computes"));
    index.causes.forEach((name, cause) =>
      legend.append(make("span", {title: kCauseWords[cause]}, make("i", {style: "background:" + kCauseColours[cause]}), name)));
  }

  // --- Panels.
  siteLink(site) {
    return make("button", {class: "link", onclick: () => this.search("#" + site)},
                this.trace.index.sites[site][0] + " at " + this.trace.place(site));
  }
  advice() {
    const index = this.trace.index, kTop = 10, rows = [];
    const list = make("ol", {});
    index.places.forEach((place, i) => {
      if (i >= kTop && place.advice.length === 0) return;
      const item = make("li", {class: "place"}, this.siteLink(place.site), " ",
                        causeBar(place.causes, place.ns),
                        ` ${(100 * place.ns / Math.max(1, index.all_ns)).toFixed(1)} % of the time of all ranks, ${place.calls.toLocaleString("en")} calls, ` +
                        `${this.trace.time(place.ns / place.calls)} each`);
      for (const number of place.advice) item.append(make("p", {class: "advice"}, index.advice[number].text));
      list.append(item);
    });
    if (index.advice.length === 0) rows.push(make("p", {}, "No advice: nothing that one place waits for is worth a change."));
    return [...rows, list];
  }

  selection() {
    const span = this.view.selected, trace = this.trace;
    if (!span) return make("p", {}, "Click on a call.");
    const rows = [["rank", trace.laneName(span.lane)], ["begins at", trace.time(span.begin)], ["takes", trace.time(span.end - span.begin)]];
    if (span.shape.kind === SpanKind.unfinished) rows.push(["", "the rank did not come back from it"]);
    if (span.outer) rows.push(["called at", trace.place(span.shape.site)]);
    for (const pair of trace.arguments(span.shape)) rows.push(pair.map(String));
    if (span.request) rows.push(["request", "0x" + span.request.toString(16)]);
    if (span.uneven) rows.push(["imbalance", trace.time(span.uneven) + ": several ranks had not come yet"]);
    if (span.waited) {
      rows.push([trace.index.causes[span.cause], trace.time(span.waited) + ": " + kCauseWords[span.cause] +
                 (span.culprit >= 0 ? ", rank " + span.culprit : "")]);
    }
    const messages = (span.messages || []).slice(0, 500).map(m => [
      trace.rank(m.from) + " → " + trace.rank(m.to), String(m.tag), trace.bytes(m.size), trace.index.protocols[m.protocol] || "",
      trace.time(m.sent), trace.time(m.matched - m.sent), trace.time(m.done - m.matched), m.unexpected ? "before its receive" : ""]);
    return make("div", {class: "columns"},
                make("div", {}, make("h3", {id: "selected-name"}, trace.spanName(span.shape)), table(["", ""], rows)),
                make("div", {}, make("h3", {}, `messages (${(span.messages || []).length})`),
                     table(["from → to", "tag", "length", "protocol", "sent at", "matched after", "complete after", "came"], messages)));
  }

  ranks() {
    const trace = this.trace;
    return table(["rank", "host", "process", "in MPI", "", "waits", "memory"], trace.index.ranks.map(rank => {
      const all = rank.causes.reduce((a, b) => a + b, 0), percent = ns => (100 * ns / Math.max(1, rank.ns)).toFixed(1) + " %";
      return [String(rank.rank), rank.host, String(rank.process), percent(all), causeBar(rank.causes, rank.ns),
              percent(all - rank.causes[0]), rank.memory ? trace.bytes(rank.memory) : "unknown"];
    }));
  }

  matrix() {
    const {index} = this.trace, n = index.ranks.length, kFields = 5;
    const choice = make("select", {onchange: () => draw()}, make("option", {value: "-1"}, "all paths"),
                        ...index.paths.map((path, i) => make("option", {value: String(i)}, path)));
    const size = Math.max(160, Math.min(560, n * Math.max(1, Math.floor(420 / n)))), cell = size / n;
    const canvas = make("canvas", {width: String(size), height: String(size), id: "matrix"}), words = make("p", {}, "\u00a0");
    let sums = new Map();
    const draw = () => {
      sums = new Map();
      for (let i = 0; i < index.matrix.length; i += kFields) {
        const [from, to, path, messages, bytes] = index.matrix.slice(i, i + kFields);
        if (choice.value !== "-1" && Number(choice.value) !== path) continue;
        const known = sums.get(from * n + to) || [0, 0];
        sums.set(from * n + to, [known[0] + messages, known[1] + bytes]);
      }
      const most = Math.max(1, ...Array.from(sums.values(), sum => sum[1]).slice(0, 100000));
      const colour = d3.scaleSequential(d3.interpolateYlGnBu).domain([0, Math.log1p(most)]);
      const paper = canvas.getContext("2d");
      paper.fillStyle = "#f5f6f8";
      paper.fillRect(0, 0, size, size);
      for (const [at, [, bytes]] of sums) {
        paper.fillStyle = colour(Math.max(0.3, Math.log1p(bytes)));
        paper.fillRect((at % n) * cell, Math.floor(at / n) * cell, Math.max(1, cell - (cell > 4 ? 1 : 0)), Math.max(1, cell - (cell > 4 ? 1 : 0)));
      }
    };
    canvas.onmousemove = event => {
      const to = Math.floor(event.offsetX / cell), from = Math.floor(event.offsetY / cell), sum = sums.get(from * n + to) || [0, 0];
      if (from >= n || to >= n) return;
      words.textContent = `rank ${this.trace.rank(from)} to rank ${this.trace.rank(to)}: ${sum[0].toLocaleString("en")} messages, ${this.trace.bytes(sum[1])}`;
    };
    draw();
    const top = [];
    for (const [at, [messages, bytes]] of [...sums].sort((a, b) => b[1][1] - a[1][1]).slice(0, 12)) {
      top.push([`${this.trace.rank(Math.floor(at / n))} → ${this.trace.rank(at % n)}`, messages.toLocaleString("en"), this.trace.bytes(bytes)]);
    }
    return make("div", {class: "columns"}, make("div", {}, make("p", {}, "Rows send, columns receive; by bytes. ", choice), canvas, words),
                make("div", {}, make("h3", {}, "most bytes"), table(["from → to", "messages", "bytes"], top),
                     make("p", {}, "Collectives inside a node go through shared memory, without messages, and are not counted here.")));
  }

  traffic() {
    const {index} = this.trace, kFields = 4, byProtocol = new Map(), paths = new Map();
    for (let i = 0; i < index.mix.length; i += kFields) {
      const [protocol, size, messages, bytes] = index.mix.slice(i, i + kFields);
      const row = byProtocol.get(protocol) || {messages: 0, bytes: 0, sizes: Array(index.sizes.length + 1).fill(0)};
      row.messages += messages, row.bytes += bytes, row.sizes[size] += messages;
      byProtocol.set(protocol, row);
    }
    for (let i = 0; i < index.matrix.length; i += 5) {
      const known = paths.get(index.matrix[i + 2]) || [0, 0];
      paths.set(index.matrix[i + 2], [known[0] + index.matrix[i + 3], known[1] + index.matrix[i + 4]]);
    }
    const heads = ["protocol", "messages", "bytes", ...index.sizes.map(size => "≤ " + this.trace.bytes(size)), "longer"];
    const rows = [...byProtocol].map(([protocol, row]) => [index.protocols[protocol] || "other", row.messages.toLocaleString("en"),
                                                         this.trace.bytes(row.bytes), ...row.sizes.map(count => count.toLocaleString("en"))]);
    const drawn = index.flow.map((steps, path) => {
      const wide = 720, tall = 54, most = Math.max(1, ...steps);
      const x = d3.scaleLinear().domain([0, steps.length - 1]).range([0, wide]), y = d3.scaleLinear().domain([0, most]).range([tall, 2]);
      const area = d3.area().x((_, i) => x(i)).y0(tall).y1(bytes => y(bytes)).curve(d3.curveStepAfter);
      const svg = d3.create("svg").attr("width", wide).attr("height", tall).attr("role", "img");
      svg.append("path").attr("d", area(steps)).attr("fill", "#1a62b8");
      const [messages, bytes] = paths.get(path) || [0, 0];
      const peak = most / (this.trace.length / steps.length) * 1e9;
      return make("div", {}, make("p", {}, `${index.paths[path]}: ${messages.toLocaleString("en")} messages, ${this.trace.bytes(bytes)}; at most ${this.trace.bytes(peak)}/s`), svg.node());
    });
    return [make("h3", {}, "messages by protocol and length"), table(heads, rows), make("h3", {}, "bytes sent by each path over time"), ...drawn];
  }

  counters() {
    const {index} = this.trace;
    const value = (number, unit) => unit === "bytes" ? this.trace.bytes(number) : unit === "nanoseconds" ? this.trace.time(number) : number.toLocaleString("en");
    return table(["counter", "of", "all ranks", "most of one", "meaning"],
                 index.counters.map(([name, group, unit, meaning, total, most]) => [name, group, value(total, unit), value(most, unit), meaning]));
  }

  help() {
    const keys = [["w s", "zoom in, out (also the wheel)"], ["a d ← →", "earlier, later (also drag)"], ["↑ ↓", "other rows (also shift and wheel)"],
                  ["+ -", "taller, flatter rows"], ["0", "the whole time"], ["f", "the selected call, or what was found, on the screen"],
                  ["n N", "next, previous call of the row"], ["m", "messages as arrows"], ["c", "colours: causes or functions"],
                  ["/", "search: words of a function, file, place; rank 3; tag 7"], ["Escape", "nothing selected"], ["?", "this page"]];
    return [table(["key", ""], keys.map(([key, does]) => [make("span", {}, ...key.split(" ").flatMap(k => [make("kbd", {}, k), " "])), does])),
            make("p", {}, "The minimap at the top shows all ranks together: drag there to choose a stretch of time. Where too many events are on the screen, each bar shows what part of that time each cause took.")];
  }

  // --- Search.
  async search(text) {
    const {trace} = this, kMost = 2000, turn = this.searching = {};
    this.found = {text, spans: [], more: false};
    document.getElementById("search").value = text.startsWith("#") ? trace.index.sites[text.slice(1)][0] + " " + trace.place(Number(text.slice(1))) : text;
    const words = text.trim().toLowerCase();
    const rank = /\brank (\d+)/.exec(words), tag = /\btag (-?\d+)/.exec(words);
    const rest = words.replace(/\b(rank|tag) -?\d+/g, "").trim().split(/\s+/).filter(Boolean);
    const fits = shape => {
      if (shape.kind !== SpanKind.call && shape.kind !== SpanKind.unfinished) return false;
      if (text.startsWith("#")) return shape.site === Number(text.slice(1));
      if (tag && !(shape.given & 16 && shape.tag === Number(tag[1]))) return false;
      const whole = (trace.spanName(shape) + " " + trace.place(shape.site)).toLowerCase();
      return rest.every(word => whole.includes(word));
    };
    const lanes = trace.index.lanes.map(([record], lane) => lane).filter(lane => !rank || trace.rank(trace.index.lanes[lane][0]) === Number(rank[1]));
    for (let number = 0; words && number < trace.index.chunks.length && !this.found.more; number++) {
      const chunk = await trace.chunk(number, true), begin = trace.index.chunks[number][0];
      if (turn !== this.searching) return;
      const good = chunk.shapeList.map(fits);
      for (const lane of lanes) {
        for (let i = chunk.first[lane]; i < chunk.first[lane + 1]; i++) {
          if (!good[chunk.shapes[i]] || (chunk.begins[i] < begin && number !== 0)) continue;
          if (this.found.spans.length === kMost) {
            this.found.more = true;
            break;
          }
          this.found.spans.push({lane, begin: chunk.begins[i], end: chunk.ends[i], shape: chunk.shapeList[chunk.shapes[i]], waited: chunk.waited[i] + chunk.uneven[i]});
        }
      }
    }
    this.view.marked = this.found.spans;
    this.view.redraw();
    this.open("found");
  }
  foundList() {
    const {spans, more} = this.found, {trace} = this;
    const longest = [...spans].sort((a, b) => (b.end - b.begin) - (a.end - a.begin)).slice(0, 200);
    const go = span => make("button", {class: "link", onclick: async () => {
      this.view.goTo(span);
      const whole = await this.view.spanAt(span.lane, (span.begin + span.end) / 2, 1);
      await this.view.select(whole);
    }}, trace.laneName(span.lane));
    return [make("p", {id: "found-count"}, `${more ? "more than " : ""}${spans.length.toLocaleString("en")} calls; the longest first:`),
            table(["", "call", "at", "takes", "waits", "place"], longest.map(span => [go(span), trace.spanName(span.shape), trace.time(span.begin),
                                                                            trace.time(span.end - span.begin), trace.time(span.waited), trace.place(span.shape.site)]))];
  }

  // --- Keys and buttons.
  async step(forward) {
    const {view, trace} = this, from = view.selected;
    if (!from) return;
    const slack = view.slack();
    for (const number of trace.chunksIn(forward ? from.end : Math.max(0, from.begin - 1), forward ? trace.length : from.begin)) {
      const chunk = await trace.chunk(number, true);
      let best = -1;
      for (let i = chunk.first[from.lane]; i < chunk.first[from.lane + 1]; i++) {
        if (chunk.shapeList[chunk.shapes[i]].kind !== SpanKind.call) continue;
        if (forward ? chunk.begins[i] >= from.end && best < 0 : chunk.ends[i] <= from.begin) best = i;
      }
      if (best < 0) continue;
      const span = await view.spanAt(from.lane, (chunk.begins[best] + chunk.ends[best]) / 2, Math.min(1, slack));
      await view.select(span);
      const [begin, end] = view.domain();
      if (span.begin < begin || span.end > end) view.goTo(span);
      return;
    }
  }
  listen() {
    const {view} = this, by = id => document.getElementById(id);
    by("whole").onclick = () => view.show(0, this.trace.length);
    by("taller").onclick = () => view.setRow(view.row() * 1.5);
    by("flatter").onclick = () => view.setRow(view.row() / 1.5);
    by("help").onclick = () => this.open("help");
    by("messages").onchange = () => {
      view.showMessages = by("messages").checked;
      view.redraw();
    };
    by("colours").onchange = () => {
      view.byFunction = by("colours").value === "function";
      view.redraw();
    };
    by("search").onkeydown = event => {
      if (event.key === "Enter") this.search(by("search").value);
      if (event.key === "Escape") view.canvas.focus();
      event.stopPropagation();
    };
    const keys = {
      w: () => view.zoomBy(1.5), s: () => view.zoomBy(1 / 1.5), a: () => view.panBy(-0.2), d: () => view.panBy(0.2),
      ArrowLeft: () => view.panBy(-0.2), ArrowRight: () => view.panBy(0.2), ArrowUp: () => view.scrollBy(-3 * view.row()),
      ArrowDown: () => view.scrollBy(3 * view.row()), "+": () => view.setRow(view.row() * 1.5), "-": () => view.setRow(view.row() / 1.5),
      0: () => view.show(0, this.trace.length), f: () => view.selected && view.goTo(view.selected),
      n: () => this.step(true), N: () => this.step(false), m: () => by("messages").click(),
      c: () => {
        by("colours").value = view.byFunction ? "cause" : "function";
        by("colours").onchange();
      },
      "/": () => by("search").focus(), "?": () => this.open("help"),
      Escape: () => {
        view.marked = null;
        view.select(null);
      },
    };
    document.onkeydown = event => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
      act();
      event.preventDefault();
    };
  }
}

// What tests and scripts may use: the parts, once the page is ready.
window.tern = Trace.open().then(trace => {
  const view = new View(trace), panels = new Panels(trace, view);
  document.body.dataset.state = "ready";
  document.body.dataset.lanes = trace.index.lanes.length;
  return {trace, view, panels};
}).catch(error => {
  document.getElementById("summary").textContent = "This page cannot be shown: " + error.message +
    ". It needs a browser with DecompressionStream (Chromium 80, Firefox 113, Safari 16.4, or later).";
  throw error;
});
