/* The attention page: what the view says becomes a grid and a head, what the hand does becomes the view. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const CELLS = [128, 192, 256, 384, 512]; // cells a side of one head's map: never more than its picture has pixels

  const place = (id) => document.getElementById(id);
  let grid = null; // the Grid of the mounted page
  let overview = null; // decoded
  let raw = null; // as it came
  let head = null; // decoded bundle
  let asked = null; // JSON of the last HeadAsk
  let printed = { looks: {}, statistics: {} }; // what the page brought with it: figure templates, names of statistics
  let unsubscribe = null;
  let resizing = null;
  let drawnTab = null; // what the head panel shows now, so that equal things are not drawn twice

  // ------------------------------------------------------------------ life of the page

  /** Called by Dash each time the page is put into the document. */
  function start(_page, given) {
    leave();
    overview = raw = head = asked = drawnTab = null;
    printed = given;
    grid = new lmscope.grid.Grid(place("grid"), { open: (heads) => focus({ heads }), hover: lmscope.gridPanel.card });
    controls();
    lmscope.panel.measure();
    unsubscribe = lmscope.view.subscribe((view) => (lmscope.view.isAt("attention-page") ? look(view) : leave()));
    resizing = new ResizeObserver(() => drawHead(lmscope.view.get()));
    resizing.observe(place("head-panel"));
    return true;
  }

  function leave() {
    if (unsubscribe) unsubscribe();
    if (resizing) resizing.disconnect();
    if (grid) grid.remove();
    unsubscribe = resizing = grid = null;
  }

  const focus = (patch) => lmscope.panel.focus(patch);
  const token = (position) => focus({ token: position });

  window.addEventListener("lmscope:theme", () => grid && head && (drawnTab = null, drawHead(lmscope.view.get())));

  // ------------------------------------------------------------------ answers

  function receiveGrid(data) {
    if (!data || !grid) return;
    raw = data;
    overview = lmscope.grid.opened(data);
    grid.show(overview);
    look(lmscope.view.get());
  }

  function receiveHead(bundle) {
    if (!bundle || !grid) return;
    head = lmscope.head.opened(bundle);
    drawnTab = null;
    drawHead(lmscope.view.get());
    place("head-panel").dataset.head = head.answer.heads.map(lmscope.grid.named).join(",");
  }

  // ------------------------------------------------------------------ the view

  /** Which heads an edit touches, in words. */
  function touchedBy(view) {
    const words = new Map();
    for (const edit of view.edits) {
      if (!edit.on || !("head" in edit)) continue;
      const name = lmscope.grid.named(edit), does = lmscope.editKinds.of(edit).does(edit);
      words.set(name, [words.get(name), does === "off" ? "switched off" : "edited " + does].filter(Boolean).join(", "));
    }
    return words;
  }

  function look(view) {
    if (!view || !grid) return;
    if (overview || raw) {
      grid.look(view.focus, touchedBy(view));
      lmscope.gridPanel.legend(view);
    } else grid.focus = view.focus;
    sync(view);
    ask(view);
    lmscope.head.statistics(grid, view);
    lmscope.headPanel.actions(view);
    drawHead(view);
  }

  /** Cells that the picture has pixels for; the same rule as .map-place in attention.css, less the axes. */
  function cells() {
    const shell = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--shell")) || 220;
    const height = Math.max(400, Math.min(760, innerHeight - shell - 300)) - 110;
    const pixels = Math.min(height, place("head-panel").clientWidth - 190) * (window.devicePixelRatio || 1);
    return [...CELLS].reverse().find((size) => size <= pixels) || CELLS[0];
  }

  const long = (size) => Boolean(overview && overview.tokens > size);

  /** Ask for a head when what decides its numbers has changed. */
  function ask(view) {
    const { heads, region } = view.focus;
    if (!heads.length || lmscope.view.isHeld()) return void (asked = null);
    const size = cells();
    const data = { view: lmscope.panel.question(view), heads, region, cells: size, token: region || long(size) ? view.focus.token : null };
    const text = JSON.stringify(data);
    if (text === asked) return;
    asked = text;
    window.dash_clientside.set_props("attention-ask", { data });
  }

  // ------------------------------------------------------------------ the head panel

  const fits = (view) => head && head.answer.heads.length === view.focus.heads.length && head.answer.heads.every((each, i) => lmscope.grid.same(each, view.focus.heads[i]));

  function drawHead(view) {
    if (!view || !grid) return;
    const open = view.focus.heads.length > 0;
    place("head-title").textContent = lmscope.head.title(view.focus.heads);
    place("head-panel").classList.toggle("stale", Boolean(open && head && !fits(view)));
    place("head-empty").hidden = open;
    place("head-tab-row").hidden = place("head-actions").hidden = place("head-statistics").hidden = !open;
    if (!open) lmscope.headPanel.empty();
    const { tab } = view.focus;
    for (const [name] of lmscope.headPanel.TABS) place("head-" + name).hidden = !open || !head || name !== tab;
    for (const button of place("head-tabs").children) {
      const mine = button.dataset.tab === tab;
      button.setAttribute("aria-selected", String(mine));
      button.tabIndex = mine ? 0 : -1;
    }
    if (!open || !head) return;
    const now = JSON.stringify([tab, view.focus.side, view.focus.scale, tab === "map" ? null : view.focus.token, lmscope.theme.now(), Boolean(view.focus.region), tab === "lines" ? place("head-lines").clientWidth : null]);
    if (now === drawnTab) return;
    drawnTab = now;
    lmscope.head[tab](head, view);
  }

  // ------------------------------------------------------------------ Plotly's events

  /** A zoom into a reduced map asks for its region; a double click shows all again. */
  function zoomed(event) {
    if (!event || !head || !grid) return;
    const edges = (name) => event[name + ".range"] || (event[name + ".range[0]"] === undefined ? null : [event[name + ".range[0]"], event[name + ".range[1]"]]);
    const [across, down] = [edges("xaxis"), edges("yaxis")];
    const automatic = event["xaxis.autorange"] || event["yaxis.autorange"];
    if (!across && !down && !automatic) return; // a resize, not a zoom
    const { region } = head.answer;
    const [q, k] = head.answer.cells;
    const [k0, k1] = tokensIn(across, region.k0, region.k1, k);
    const [q0, q1] = tokensIn(down, region.q0, region.q1, q);
    const everything = automatic || (q0 === region.q0 && q1 === region.q1 && k0 === region.k0 && k1 === region.k1);
    if (everything) focus({ region: null });
    else if (head.answer.pooled) focus({ region: { q0, q1, k0, k1 } });
  }

  /** Tokens [from, to) under a range of category places of an axis. */
  function tokensIn(range, first, last, count) {
    if (!range) return [first, last];
    const [low, high] = [...range].sort((a, b) => a - b);
    const from = Math.min(count - 1, Math.max(0, Math.floor(low + 0.5)));
    const to = Math.min(count, Math.max(from + 1, Math.ceil(high + 0.5)));
    const at = (cell) => first + Math.floor((cell * (last - first)) / count);
    return [at(from), Math.max(at(from) + 1, at(to))];
  }

  /** The part of a reduced map around the focus token, for those who do not drag. */
  function zoomToToken() {
    const { token: at, region } = lmscope.view.get().focus;
    if (at === null || region) return lmscope.dom.announce("Choose a token in the strip first");
    const count = head.answer.ids.length;
    const first = Math.max(0, Math.min(at - 64, count - 128));
    const last = Math.min(count, first + 128);
    focus({ region: { q0: first, q1: last, k0: first, k1: last } });
  }

  /** A click on the map: its query becomes the focus token. */
  function picked(event) {
    if (!event || !event.points || !event.points.length || !head) return;
    const position = parseInt(event.points[0].y, 10);
    if (Number.isInteger(position)) token(position);
  }

  // ------------------------------------------------------------------ controls

  let fields = {};

  function controls() {
    const { h } = lmscope.dom;
    const { segmented, select, check, reading } = lmscope.panel;
    const statistics = Object.entries(printed.statistics);
    fields = {
      scale: segmented("scale", "Colours", [["linear", "Linear"], ["log", "Log", "Logarithmic colours: four powers of ten; values stay as they are"]], (scale) => focus({ scale })),
      rows: segmented("rows", "Rows", lmscope.panel.ROWS, (rows) => reading({ rows })),
      first: check("Without the first token", lmscope.panel.FIRST, lmscope.panel.withoutFirst),
      weighted: check("Value-weighted", "The open head's map shows attention × ‖v W_O‖: how much is written, not only where it looks", (weighted) => reading({ weighted })),
      pool: segmented("pool", "Reduced by", [["max", "Max", "A cell that stands for several pairs shows the largest"], ["mean", "Mean", "A cell that stands for several pairs shows their mean"]], (pool) => reading({ pool })),
      definitions: segmented("definitions", "Definitions", lmscope.panel.DEFINITIONS, lmscope.panel.definitions),
    };
    const { weighted, ...shared } = fields;
    place("reading").replaceChildren(h("span.side-place", { id: "side-place" }), ...Object.values(shared).map((field) => field.element));
    place("head-weighted").replaceChildren(weighted.element);
    fields.colour = select("grid-colour", "Colour by", statistics, (colour) => focus({ colour, low: null, high: null }));
    fields.sort = select("grid-sort", "Sort by", [["", "model order"], ...statistics], (sort) => focus(sort ? { sort, colour: sort, low: null, high: null } : { sort: null }));
    lmscope.gridPanel.controls(fields);
    lmscope.headPanel.controls();
  }

  /** Controls show what the view says. */
  function sync(view) {
    const { focus: now, reading: how } = view;
    fields.colour.show(now.colour);
    fields.sort.show(now.sort || "");
    lmscope.gridPanel.syncRange(now);
    fields.scale.show(now.scale);
    fields.first.show(how.without_first);
    for (const name of ["rows", "pool", "definitions", "weighted"]) fields[name].show(how[name]);
    lmscope.panel.sidesOfAttention(place("side-place"), view);
  }

  /** What the panels' own scripts read; only this one writes. */
  const page = {
    get grid() { return grid; },
    get overview() { return overview; },
    get raw() { return raw; },
    get head() { return head; },
    get asked() { return asked; },
  };

  lmscope.attention = { page, looks: () => printed.looks, token, zoomToToken };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    attention: {
      start,
      grid: receiveGrid,
      head: receiveHead,
      code: (texts) => texts && lmscope.info.code(texts),
      zoomed,
      picked,
    },
  });
})();
