/* The head grid: every head of the model as a thumbnail, drawn by hand on one canvas the size of the window onto it. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  const SIZES = [12, 16, 24, 32, 48, 64, 96, 128]; // side of a thumbnail in CSS pixels
  const FIT = [12, 72];
  const GAP = 3;
  const GROUP_GAP = 8;
  const BAR = 4;
  const NUMBER_FROM = 30; // a thumbnail at least this wide has its number printed below
  const LABEL_FROM = 22;
  const LEFT = 40;
  const TOP = 22;
  const DIM = 0.16;

  const same = (a, b) => a.layer === b.layer && a.head === b.head;
  const named = (head) => head.layer + "." + head.head;

  // ------------------------------------------------------------------ what an answer holds

  /** Decode an Overview once: bytes of each side, statistics as typed arrays. */
  function opened(overview) {
    const { numbers } = lmscope.dom;
    const side = (maps) => {
      if (!maps) return null;
      const raw = numbers(maps.maps);
      const signed = raw instanceof Int8Array;
      const bytes = signed ? new Uint8Array(raw.buffer) : raw;
      if (signed) for (let i = 0; i < bytes.length; i++) bytes[i] ^= 128; // −128…127 becomes 0…255
      const statistics = {};
      for (const each of maps.statistics)
        statistics[each.name] = { ...each, value: numbers(each.value), uniform: numbers(each.uniform), rows: numbers(each.rows) };
      return { bytes, signed, step: maps.scale || 1 / 127, statistics };
    };
    return { ...overview, sides: { edited: side(overview.edited), unedited: side(overview.unedited), difference: side(overview.difference) } };
  }

  /** Smallest and largest defined value of a statistic; both sides of a comparison share it, a difference is symmetric. */
  function extentOf(data, sideName, name) {
    const parts = sideName === "difference" ? ["difference"] : ["edited", "unedited"];
    let low = Infinity;
    let high = -Infinity;
    for (const part of parts) {
      const statistic = data.sides[part] && data.sides[part].statistics[name];
      for (const value of statistic ? statistic.value : []) {
        if (!Number.isFinite(value)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (low > high) return null;
    if (sideName !== "difference") return { low, high };
    const most = Math.max(Math.abs(low), Math.abs(high), data.sides.difference.statistics[name].noise || 0, 1e-12);
    return { low: -most, high: most };
  }

  // ------------------------------------------------------------------ pixels

  /** For each of `pixels` pixels the cells [low, high) that it covers. */
  function spans(pixels, cells) {
    const low = new Int32Array(pixels);
    const high = new Int32Array(pixels);
    for (let pixel = 0; pixel < pixels; pixel++) {
      low[pixel] = Math.floor((pixel * cells) / pixels);
      high[pixel] = Math.max(low[pixel] + 1, Math.floor(((pixel + 1) * cells) / pixels));
    }
    return { low, high, plain: pixels >= cells };
  }

  /** Draw one map into a picture of 32-bit pixels; a pixel that covers several cells shows the strongest of them. */
  function thumbnail(picture, box, map, tables) {
    const { data, stride, height } = picture;
    const { bytes, at, columns, signed } = map;
    const { x, y, size } = box;
    const { across, down, words } = tables;
    const from = Math.max(0, -y);
    const to = Math.min(size, height - y);
    const start = Math.max(0, -x);
    const end = Math.min(size, stride - x);
    if (start >= end) return;
    const plain = across.plain && down.plain;
    for (let row = from; row < to; row++) {
      const out = (y + row) * stride + x;
      if (plain && row > from && down.low[row] === down.low[row - 1]) {
        data.copyWithin(out + start, out + start - stride, out + end - stride);
        continue;
      }
      if (plain) {
        const line = at + down.low[row] * columns;
        for (let column = start; column < end; column++) data[out + column] = words[bytes[line + across.low[column]]];
        continue;
      }
      for (let column = start; column < end; column++) {
        let best = signed ? 128 : 0;
        for (let q = down.low[row]; q < down.high[row]; q++) {
          const line = at + q * columns;
          for (let k = across.low[column]; k < across.high[column]; k++) {
            const byte = bytes[line + k];
            if (signed ? Math.abs(byte - 128) > Math.abs(best - 128) : byte > best) best = byte;
          }
        }
        data[out + column] = words[best];
      }
    }
  }

  // ------------------------------------------------------------------ the grid

  class Grid {
    /** `act` has open(heads), hover(head | null, box). */
    constructor(place, act) {
      const { h } = lmscope.dom;
      this.act = act;
      this.data = null;
      this.focus = null;
      this.touched = new Map();
      this.size = 0; // 0: fit the width
      this.active = 0;
      this.canvas = h("canvas.grid-canvas", { "aria-hidden": "true" });
      this.space = h("div.grid-space", { role: "presentation" }, this.canvas);
      this.cell = h("div", { role: "gridcell", id: "grid-active-cell" });
      this.line = h("div.unseen", { role: "row" }, this.cell);
      this.scroller = h(
        "div.grid-scroller",
        { role: "grid", tabindex: "0", "aria-multiselectable": "true", "aria-label": "Attention heads: layers down, heads across", "aria-describedby": "grid-keys" },
        this.line, this.space,
      );
      place.replaceChildren(this.scroller);
      this.scroller.addEventListener("scroll", () => (this.leave(), this.soon()), { passive: true });
      this.scroller.addEventListener("pointermove", (event) => this.hover(event));
      this.scroller.addEventListener("pointerleave", () => this.leave());
      this.scroller.addEventListener("click", (event) => this.click(event));
      this.scroller.addEventListener("keydown", (event) => this.key(event));
      this.scroller.addEventListener("focus", () => this.soon());
      this.scroller.addEventListener("blur", () => this.soon());
      this.watching = new ResizeObserver(() => this.arrange());
      this.watching.observe(this.scroller);
      this.themed = new MutationObserver(() => this.soon());
      this.themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    }

    remove() {
      this.watching.disconnect();
      this.themed.disconnect();
    }

    show(data) {
      const first = !this.data;
      this.data = data;
      this.arrange();
      if (first && this.focus && this.focus.heads.length) this.bring(this.focus.heads[this.focus.heads.length - 1]);
    }

    /** What is looked at and how, and the heads that edits touch (name → word). */
    look(focus, touched) {
      const chosen = focus.heads.length && !(this.focus && focus.heads.length === this.focus.heads.length && focus.heads.every((head, i) => same(head, this.focus.heads[i])));
      this.focus = focus;
      this.touched = touched;
      this.arrange();
      if (chosen && this.data) this.bring(focus.heads[focus.heads.length - 1]);
    }

    zoom(step) {
      const now = this.place ? this.place.size : SIZES[3];
      if (step === 0) this.size = 0;
      else if (step > 0) this.size = SIZES.find((size) => size > now) || SIZES[SIZES.length - 1];
      else this.size = [...SIZES].reverse().find((size) => size < now) || SIZES[0];
      this.arrange();
    }

    // ---------------------------------------------------------------- order and places

    side() {
      return this.data.sides[this.focus.side] ? this.focus.side : "edited";
    }

    statistic(name = this.focus.colour, side = this.side()) {
      return this.data.sides[side].statistics[name];
    }

    inRange(index) {
      const { low, high } = this.focus;
      if (low === null && high === null) return true;
      const value = this.statistic().value[index];
      return Number.isFinite(value) && (low === null || value >= low) && (high === null || value <= high);
    }

    /** Indices of heads in the order drawn; undefined values last. Sorted: heads out of range are left out. */
    order() {
      const all = Array.from({ length: this.data.layers.length * this.data.heads }, (_, index) => index);
      if (!this.focus.sort) return all;
      const { value } = this.statistic(this.focus.sort);
      const weight = (index) => (Number.isFinite(value[index]) ? value[index] : -Infinity);
      return all.filter((index) => this.inRange(index)).sort((a, b) => weight(b) - weight(a) || a - b);
    }

    headAt(index) {
      return { layer: this.data.layers[Math.floor(index / this.data.heads)], head: index % this.data.heads };
    }

    indexOf(head) {
      const row = this.data.layers.indexOf(head.layer);
      return row < 0 || head.head >= this.data.heads ? -1 : row * this.data.heads + head.head;
    }

    arrange() {
      if (!this.data || !this.focus) return;
      const { heads, kv_heads: groups } = this.data;
      const sorted = Boolean(this.focus.sort);
      const width = this.scroller.clientWidth;
      const grouped = !sorted && groups < heads ? groups : 1;
      const left = sorted ? GAP : LEFT;
      const room = width - left - (grouped - 1) * GROUP_GAP - GAP;
      let size = this.size;
      if (!size) size = Math.min(FIT[1], Math.max(FIT[0], Math.floor(room / heads) - GAP));
      const columns = sorted ? Math.max(1, Math.floor(room / (size + GAP))) : heads;
      const label = sorted && size >= LABEL_FROM ? 13 : 0;
      const number = size >= NUMBER_FROM ? 13 : 0;
      const order = this.order();
      const place = { size, columns, left, label, number, order, sorted, perGroup: grouped > 1 ? heads / groups : Infinity };
      place.top = sorted ? GAP : TOP + (grouped > 1 ? 6 : 0);
      place.pitch = size + GAP;
      place.row = label + size + 2 + BAR + number + GAP + 2;
      place.rows = Math.ceil(order.length / columns);
      this.place = place;
      const last = this.cellBox(columns - 1);
      this.space.style.width = Math.max(width, last.x + size + GAP) + "px";
      this.space.style.height = Math.max(place.top + place.rows * place.row + GAP, this.scroller.clientHeight) + "px";
      this.scroller.setAttribute("aria-rowcount", place.rows);
      this.scroller.setAttribute("aria-colcount", columns);
      this.active = Math.min(this.active, Math.max(0, order.length - 1));
      this.describe();
      this.draw();
    }

    /** Place of the n-th drawn head's thumbnail inside the whole grid, CSS pixels. */
    cellBox(n) {
      const { columns, pitch, row, left, top, label, perGroup } = this.place;
      const column = n % columns;
      const group = Number.isFinite(perGroup) ? Math.floor(column / perGroup) : 0;
      return { x: left + column * pitch + group * GROUP_GAP, y: top + Math.floor(n / columns) * row + label, column, row: Math.floor(n / columns) };
    }

    // ---------------------------------------------------------------- drawing

    soon() {
      if (this.pending) return;
      this.pending = requestAnimationFrame(() => {
        this.pending = null;
        this.draw();
      });
    }

    inks() {
      const style = getComputedStyle(this.scroller);
      const ink = (name) => style.getPropertyValue(name).trim();
      return { back: ink("--grid-back"), text: ink("--grid-text"), quiet: ink("--grid-quiet"), track: ink("--grid-track"), mark: ink("--grid-mark"), off: ink("--grid-off") };
    }

    tables(side, inks) {
      const { colours } = lmscope;
      const { scale } = this.focus;
      const extent = side.signed ? Math.max(127 * side.step, this.data.noise || 0) : 1;
      const name = [side.signed, scale, extent, side.step, inks.back].join();
      if (this.kept && this.kept.name === name) return this.kept;
      const words = side.signed ? colours.differenceTable(side.step, extent) : colours.probabilityTable(scale);
      return (this.kept = { name, words, faded: colours.faded(words, inks.back, DIM) });
    }

    draw() {
      if (!this.data || !this.place || !this.scroller.isConnected) return;
      const began = performance.now();
      const ratio = window.devicePixelRatio || 1;
      const width = this.scroller.clientWidth;
      const height = this.scroller.clientHeight;
      if (!width || !height) return;
      const { canvas, data, place } = this;
      const w = Math.round(width * ratio);
      const h = Math.round(height * ratio);
      if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
        this.picture = null;
      }
      const context = (this.context = this.context || canvas.getContext("2d", { alpha: false }));
      const inks = this.inks();
      const side = data.sides[this.side()];
      if (!this.picture) this.picture = context.createImageData(w, h);
      const pixels = new Uint32Array(this.picture.data.buffer);
      pixels.fill(lmscope.colours.faded(new Uint32Array(1), inks.back, 0)[0]);
      const [q, k] = data.cells;
      const size = Math.max(1, Math.round(place.size * ratio));
      const tables = { ...this.tables(side, inks), across: spans(size, k), down: spans(size, q) };
      const picture = { data: pixels, stride: w, height: h };
      const seen = this.visible(height);
      const { scrollLeft, scrollTop } = this.scroller;
      for (let n = seen.from; n < seen.to; n++) {
        const index = place.order[n];
        const box = this.cellBox(n);
        const at = { x: Math.round((box.x - scrollLeft) * ratio), y: Math.round((box.y - scrollTop) * ratio), size };
        if (at.x >= w || at.x + size <= 0) continue;
        const words = this.inRange(index) ? tables.words : tables.faded;
        thumbnail(picture, at, { bytes: side.bytes, at: index * q * k, columns: k, signed: side.signed }, { ...tables, words });
      }
      context.putImageData(this.picture, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.overlay(context, inks, seen, width);
      this.scroller.dataset.drawMs = (performance.now() - began).toFixed(1);
      this.scroller.dataset.drawn = seen.to - seen.from;
    }

    visible(height) {
      const { top, row, columns, order } = this.place;
      const first = Math.max(0, Math.floor((this.scroller.scrollTop - top) / row));
      const last = Math.ceil((this.scroller.scrollTop + height - top) / row);
      return { from: Math.min(order.length, first * columns), to: Math.min(order.length, Math.max(0, last) * columns), first, last };
    }

    overlay(context, inks, seen, width) {
      const { scrollLeft, scrollTop } = this.scroller;
      const { place } = this;
      const chosen = new Set(this.focus.heads.map(named));
      const extent = extentOf(this.data, this.side(), this.focus.colour);
      const statistic = this.statistic();
      context.textBaseline = "middle";
      for (let n = seen.from; n < seen.to; n++) {
        const box = this.cellBox(n);
        const x = box.x - scrollLeft;
        const y = box.y - scrollTop;
        if (x > width || x + place.size < 0) continue;
        const index = place.order[n];
        const head = this.headAt(index);
        const inRange = this.inRange(index);
        this.bar(context, inks, { x, y: y + place.size + 2 }, statistic, index, extent, inRange);
        if (place.label) this.text(context, named(head), x + place.size / 2, y - 7, inks.text, "center", 10.5);
        if (this.touched.has(named(head))) this.crossed(context, inks, x, y, place.size);
        if (chosen.has(named(head))) this.frame(context, inks.mark, x, y, place.size, 2.5);
        if (n === this.active && document.activeElement === this.scroller) this.frame(context, inks.text, x, y, place.size, 1.5, [3, 2], 4);
      }
      if (!place.sorted) this.names(context, inks, seen, width);
    }

    /** Length and colour say the same; the notch is the value under uniform attention. */
    bar(context, inks, at, statistic, index, extent, inRange) {
      const { size, number } = this.place;
      const value = statistic.value[index];
      context.globalAlpha = inRange ? 1 : 0.3;
      context.fillStyle = inks.track;
      context.fillRect(at.x, at.y, size, BAR);
      if (extent && Number.isFinite(value)) {
        const span = extent.high - extent.low || 1;
        const share = (value - extent.low) / span;
        const signed = this.side() === "difference";
        context.fillStyle = signed ? lmscope.colours.diverging(share * 2 - 1) : lmscope.colours.viridis(share);
        if (signed) context.fillRect(at.x + (Math.min(0.5, share) * size), at.y, Math.abs(share - 0.5) * size, BAR);
        else context.fillRect(at.x, at.y, Math.max(1, share * size), BAR);
        const uniform = (statistic.uniform[index] - extent.low) / span;
        if (!signed && uniform >= 0 && uniform <= 1) {
          context.fillStyle = inks.text;
          context.fillRect(Math.round(at.x + uniform * (size - 1)) , at.y - 1, 1, BAR + 2);
        }
      }
      if (number) {
        const text = Number.isFinite(value) ? lmscope.numbers.fixed(value, statistic.unit, { dtype: size < 44 ? "bfloat16" : this.data.conditions.dtype }, this.side() === "difference") : "n/a";
        this.text(context, text, at.x + size / 2, at.y + BAR + 8, inks.quiet, "center", 10);
      }
      context.globalAlpha = 1;
    }

    text(context, text, x, y, colour, align, size) {
      context.font = size + "px system-ui, sans-serif";
      context.textAlign = align;
      context.fillStyle = colour;
      context.fillText(text, x, y);
    }

    frame(context, colour, x, y, size, width, dash = [], out = 2) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.strokeRect(x - out / 2 - 0.5, y - out / 2 - 0.5, size + out + 1, size + out + 1);
      context.setLineDash([]);
    }

    /** A head that an edit touches: a corner with a stroke through it. */
    crossed(context, inks, x, y, size) {
      const side = Math.max(7, Math.min(14, size * 0.4));
      context.fillStyle = inks.off;
      context.beginPath();
      context.moveTo(x + size - side, y);
      context.lineTo(x + size, y);
      context.lineTo(x + size, y + side);
      context.fill();
      context.lineWidth = 1;
      context.strokeStyle = "#ffffff";
      context.beginPath();
      context.moveTo(x + size - side * 0.6, y + side * 0.14);
      context.lineTo(x + size - side * 0.14, y + side * 0.6);
      context.stroke();
    }

    /** Names of layers and heads, and a bracket over query heads that share keys and values; they stay while scrolling. */
    names(context, inks, seen, width) {
      const { scrollLeft, scrollTop } = this.scroller;
      const { place } = this;
      const strip = place.top - 2;
      context.fillStyle = inks.back;
      context.fillRect(0, 0, width, strip);
      context.fillRect(0, 0, LEFT - 2, this.scroller.clientHeight);
      const every = place.pitch >= 17 ? 1 : place.pitch >= 12 ? 2 : 4;
      for (let head = 0; head < this.data.heads; head++) {
        const x = this.cellBox(head).x - scrollLeft;
        if (x + place.size < LEFT - 2) continue;
        if (head % every === 0) this.text(context, String(head), x + place.size / 2, 8, inks.quiet, "center", 10.5);
        if (Number.isFinite(place.perGroup) && head % place.perGroup === 0) this.bracket(context, inks, head, strip - 6);
      }
      context.fillStyle = inks.back;
      context.fillRect(0, 0, LEFT - 2, strip);
      for (let row = seen.first; row < Math.min(seen.last, place.rows); row++) {
        const y = place.top + row * place.row - scrollTop + place.size / 2;
        if (y > strip) this.text(context, "L" + this.data.layers[row], LEFT - 8, y, inks.quiet, "right", 11);
      }
    }

    bracket(context, inks, head, y) {
      const from = this.cellBox(head).x - this.scroller.scrollLeft;
      const to = this.cellBox(head + this.place.perGroup - 1).x - this.scroller.scrollLeft + this.place.size;
      context.lineWidth = 1;
      context.strokeStyle = inks.quiet;
      context.beginPath();
      context.moveTo(from + 0.5, y + 4);
      context.lineTo(from + 0.5, y + 0.5);
      context.lineTo(to - 0.5, y + 0.5);
      context.lineTo(to - 0.5, y + 4);
      context.stroke();
    }

    // ---------------------------------------------------------------- pointer and keys

    /** Which drawn head lies under the pointer; −1: none. */
    under(event) {
      if (!this.place) return -1;
      const box = this.scroller.getBoundingClientRect();
      const px = event.clientX - box.left;
      const py = event.clientY - box.top;
      const { left, top, row, columns, order, sorted, size, label } = this.place;
      if (!sorted && (px < LEFT - 2 || py < top - 2)) return -1;
      const x = px + this.scroller.scrollLeft;
      const y = py + this.scroller.scrollTop;
      if (x < left || y < top || px > this.scroller.clientWidth) return -1;
      const line = Math.floor((y - top) / row);
      if (y - top - line * row > label + size + 4 + BAR + this.place.number) return -1;
      for (let column = 0; column < columns; column++) {
        const cell = this.cellBox(column);
        if (x >= cell.x && x < cell.x + size + GAP) return line * columns + column < order.length ? line * columns + column : -1;
      }
      return -1;
    }

    hover(event) {
      const n = this.under(event);
      this.scroller.style.cursor = n >= 0 ? "pointer" : "";
      if (n === this.hovered) return;
      this.hovered = n;
      if (n < 0) return this.act.hover(null);
      const box = this.scroller.getBoundingClientRect();
      const cell = this.cellBox(n);
      const x = box.left + cell.x - this.scroller.scrollLeft;
      const y = box.top + cell.y - this.scroller.scrollTop;
      this.act.hover(this.place.order[n], { left: x, right: x + this.place.size, top: y, bottom: y + this.place.size });
    }

    leave() {
      this.hovered = undefined;
      this.act.hover(null);
    }

    click(event) {
      const n = this.under(event);
      if (n < 0) return;
      this.active = n;
      this.choose(n, event.shiftKey || event.ctrlKey || event.metaKey);
    }

    /** Open a head; `more`: add it to the selection, or take it out. */
    choose(n, more, onlyAdd) {
      if (!this.place.order.length) return;
      const head = this.headAt(this.place.order[n]);
      const before = this.focus.heads.filter((other) => !same(other, head));
      const had = before.length < this.focus.heads.length;
      if (!more) this.act.open([head]);
      else this.act.open(had && !onlyAdd && before.length ? before : [...before, head]);
      this.describe();
      this.soon();
    }

    key(event) {
      if (!this.place || !this.place.order.length) return;
      const { columns, order, row } = this.place;
      const page = Math.max(1, Math.floor(this.scroller.clientHeight / row) - 1);
      const inLine = this.active % columns;
      const far = event.ctrlKey || event.metaKey;
      const moves = {
        ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page * columns, PageDown: page * columns,
        Home: far ? -this.active : -inLine, End: far ? order.length - 1 - this.active : Math.min(columns - 1 - inLine, order.length - 1 - this.active),
      };
      if (event.key in moves) {
        const aim = this.active + moves[event.key];
        if (aim >= 0 && aim < order.length) this.active = aim;
        else if (Math.abs(moves[event.key]) > columns) this.active = aim < 0 ? inLine : order.length - 1;
        if (event.shiftKey) this.choose(this.active, true, true);
        this.bring(this.headAt(order[this.active]));
      } else if (event.key === "Enter" || event.key === " ") this.choose(this.active, event.shiftKey || event.key === " ");
      else if (event.key === "Escape") this.leave();
      else if (event.key === "+" || event.key === "=") this.zoom(1);
      else if (event.key === "-") this.zoom(-1);
      else if (event.key === "0") this.zoom(0);
      else return;
      event.preventDefault();
    }

    /** Scroll a head into sight and make it the one the keys act on. */
    bring(head) {
      const n = this.place ? this.place.order.indexOf(this.indexOf(head)) : -1;
      if (n < 0) return;
      this.active = n;
      const box = this.cellBox(n);
      const { top, label, size, row, sorted } = this.place;
      const up = box.y - label - (sorted ? 0 : top);
      const down = box.y - label + row - this.scroller.clientHeight;
      if (this.scroller.scrollTop > up) this.scroller.scrollTop = up - GAP;
      else if (this.scroller.scrollTop < down) this.scroller.scrollTop = down + GAP;
      const leftmost = box.x - (sorted ? 0 : LEFT);
      if (this.scroller.scrollLeft > leftmost) this.scroller.scrollLeft = leftmost;
      else if (this.scroller.scrollLeft < box.x + size + GAP - this.scroller.clientWidth) this.scroller.scrollLeft = box.x + size + GAP - this.scroller.clientWidth;
      this.describe();
      this.soon();
    }

    /** Put the active head into words: the canvas says nothing to a screen reader. */
    describe() {
      const { order, columns } = this.place;
      if (!order.length) return this.scroller.removeAttribute("aria-activedescendant");
      const index = order[this.active];
      const head = this.headAt(index);
      const statistic = this.statistic();
      const number = (value) => lmscope.numbers.fixed(value, statistic.unit, this.data.conditions);
      const words = [
        "Layer " + head.layer + ", head " + head.head + ": " + statistic.label + " " + number(statistic.value[index]) + " " + statistic.unit,
        this.side() === "difference" ? "edited minus unedited" : "uniform attention " + number(statistic.uniform[index]),
        this.touched.get(named(head)),
        this.inRange(index) ? null : "outside the chosen range",
      ];
      this.line.setAttribute("aria-rowindex", Math.floor(this.active / columns) + 1);
      this.cell.setAttribute("aria-colindex", (this.active % columns) + 1);
      this.cell.setAttribute("aria-selected", this.focus.heads.some((other) => same(other, head)) ? "true" : "false");
      this.cell.textContent = words.filter(Boolean).join("; ");
      this.scroller.setAttribute("aria-activedescendant", "grid-active-cell");
    }

    /** The whole grid as a canvas, for a download. */
    whole() {
      const { scroller } = this;
      const kept = scroller.getAttribute("style");
      const { scrollTop, scrollLeft } = scroller;
      scroller.style.cssText = "height:" + this.space.style.height + ";width:" + this.space.style.width + ";max-height:none;overflow:hidden";
      this.draw();
      const copy = document.createElement("canvas");
      copy.width = this.canvas.width;
      copy.height = this.canvas.height;
      copy.getContext("2d").drawImage(this.canvas, 0, 0);
      if (kept === null) scroller.removeAttribute("style");
      else scroller.setAttribute("style", kept);
      Object.assign(scroller, { scrollTop, scrollLeft });
      this.draw();
      return copy;
    }
  }

  lmscope.grid = { Grid, opened, extentOf, named, same };
})();
