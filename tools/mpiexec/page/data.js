// The data of the page: index, overviews, chunks (page_data.h describes what is in them). Times are nanoseconds.
"use strict";

// The browser may still read the file. Something stands behind each element, so that one that is whole has a sibling.
async function textOf(id) {
  const kLook_ms = 20;
  for (;;) {
    const over = document.readyState !== "loading", element = document.getElementById(id);
    if (element && (over || element.nextSibling)) return element.textContent;
    if (over) throw new Error("the file is not whole");
    await new Promise(then => setTimeout(then, kLook_ms));
  }
}

async function unpack(id) {
  const text = await textOf(id);
  const packed = await (await fetch("data:application/octet-stream;base64," + text)).blob();
  const stream = packed.stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// LEB128 numbers; those beyond 2^53 are not exact.
function numbers(bytes) {
  const found = new Float64Array(bytes.length);
  let count = 0;
  for (let i = 0; i < bytes.length; ) {
    let byte = bytes[i++];
    if (byte < 128) {
      found[count++] = byte;
      continue;
    }
    let value = byte & 127, unit = 128;
    do {
      byte = bytes[i++];
      value += (byte & 127) * unit;
      unit *= 128;
    } while (byte >= 128);
    found[count++] = value;
  }
  return found.subarray(0, count);
}
const signed = value => value % 2 === 0 ? value / 2 : -(value + 1) / 2;

function columnsOf(bytes) {
  const columns = [];
  for (let at = 0; at < bytes.length; ) {
    let length = 0, unit = 1, byte;
    do {
      byte = bytes[at++];
      length += (byte & 127) * unit;
      unit *= 128;
    } while (byte >= 128);
    columns.push(numbers(bytes.subarray(at, at + length)));
    at += length;
  }
  return columns;
}

const kShapeFields = 10;
const SpanKind = {call: 0, asleep: 1, progress: 2, inner: 3, unfinished: 4};

function shapesOf(column) {
  const shapes = [];
  for (let i = 0; i < column.length; i += kShapeFields) {
    const [kind, site, given, algorithm, context, peer, source, tag, count, bytes] = column.subarray(i, i + kShapeFields);
    shapes.push({kind, site, given, algorithm, context, peer: signed(peer), source: signed(source), tag: signed(tag), count, bytes});
  }
  return shapes;
}

// Spans of lane l are first[l] .. first[l + 1].
function chunkOf(bytes, begin) {
  const [lanes, begins, durations, shapes, uneven, waited, cause, culprit, request,
         from, to, sentBy, matchedAfter, doneAfter, size, tag, what, context, shapeColumn] = columnsOf(bytes);
  const first = new Uint32Array(lanes.length + 1), ends = new Float64Array(begins.length);
  let next = 0;
  for (let l = 0; l < lanes.length; l++) {
    let at = begin;
    first[l] = next;
    for (let i = 0; i < lanes[l]; i++, next++) {
      at += signed(begins[next]);
      begins[next] = at;
      ends[next] = at + durations[next];
    }
  }
  first[lanes.length] = next;
  let at = begin;
  const sent = new Float64Array(from.length), matched = new Float64Array(from.length), done = new Float64Array(from.length);
  for (let i = 0; i < from.length; i++) {
    at += signed(sentBy[i]);
    sent[i] = at;
    matched[i] = at + signed(matchedAfter[i]);
    done[i] = matched[i] + doneAfter[i];
  }
  return {first, begins, ends, shapes, uneven, waited, cause, culprit, request, shapeList: shapesOf(shapeColumn),
          from, to, sent, matched, done, size, tag, what, context};
}

class Trace {
  static async open() {
    const trace = new Trace();
    trace.index = JSON.parse(new TextDecoder().decode(await unpack("index")));
    trace.length = Math.max(1, trace.index.length_ns);
    trace.parts = new Map();
    trace.chunks = new Map();
    trace.onload = () => {};
    await trace.part(0, 0, true);
    return trace;
  }

  // Of a level: bytes by cause, lane and bin; null: not read yet.
  part(level, number, wait = false) {
    const id = this.index.levels[level].parts[number];
    const known = this.parts.get(id);
    if (known) return known.bytes || (wait ? known.reading : null);
    const entry = {bytes: null};
    entry.reading = unpack("part" + id).then(bytes => {
      entry.bytes = bytes;
      this.onload();
      return bytes;
    });
    this.parts.set(id, entry);
    return wait ? entry.reading : null;
  }

  // Numbers of the chunks that reach into a stretch of time.
  chunksIn(from, to) {
    const all = this.index.chunks;
    let low = 0, high = all.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle][1] <= from) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (; low < all.length && all[low][0] <= to; low++) found.push(low);
    return found;
  }

  // Null: not read yet.
  chunk(number, wait = false) {
    const kKept = 64;
    let entry = this.chunks.get(number);
    if (!entry) {
      const [begin, , , , part] = this.index.chunks[number];
      entry = {chunk: null};
      entry.reading = unpack("part" + part).then(bytes => {
        entry.chunk = chunkOf(bytes, begin);
        this.onload();
        return entry.chunk;
      });
    }
    this.chunks.delete(number);
    this.chunks.set(number, entry);  // the newest is last
    while (this.chunks.size > kKept) this.chunks.delete(this.chunks.keys().next().value);
    return entry.chunk || (wait ? entry.reading : null);
  }

  // --- Words.
  time(ns) {
    const a = Math.abs(ns);
    if (a >= 1e9) return (ns / 1e9).toFixed(3) + " s";
    if (a >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
    if (a >= 1e3) return (ns / 1e3).toFixed(3) + " µs";
    return Math.round(ns) + " ns";
  }
  bytes(count) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (count >= 10240 && unit + 1 < units.length) count /= 1024, unit++;
    return (unit === 0 ? Math.round(count) : count.toFixed(1)) + " " + units[unit];
  }
  place(site) {
    const [, inside, file, line, fallback] = this.index.sites[site];
    const where = file ? file + ":" + line : fallback;
    return inside ? inside + " (" + where + ")" : where;
  }
  rank(record) { return this.index.ranks[record].rank; }
  laneName(lane) {
    const [record, thread] = this.index.lanes[lane];
    return "rank " + this.rank(record) + (thread ? ", " + thread : "");
  }
  spanName(shape) {
    switch (shape.kind) {
      case SpanKind.asleep: return "asleep";
      case SpanKind.progress: return "progress";
      case SpanKind.inner: return this.index.functions[shape.site] || "call";
      default: return this.index.sites[shape.site][0];
    }
  }
  // As [name, value] pairs; which there are: record::Given.
  arguments(shape) {
    const any = value => value === -1 ? "any" : value === -3 ? "none" : String(value);
    const found = [];
    const add = (bit, name, value) => {
      if (shape.given & bit) found.push([name, value]);
    };
    add(1, "communicator", this.index.contexts[shape.context]);
    add(2, "destination", any(shape.peer));
    add(256, "target", any(shape.peer));
    add(4, "source", any(shape.source));
    add(8, "root", any(shape.source));
    add(16, "tag", shape.tag === -2 ? "any" : shape.tag);
    add(32, "count", shape.count);
    add(64, "bytes", this.bytes(shape.bytes));
    if (shape.algorithm) found.push(["algorithm", this.index.algorithms[shape.algorithm - 1]]);
    return found;
  }
}
