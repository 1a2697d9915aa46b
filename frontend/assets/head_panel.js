/* Around one head: its tabs, edits, explanation, downloads and Python; what to do when none is open. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  const focus = (patch) => lmscope.panel.focus(patch);
  const TABS = [["map", "Map"], ["lines", "Lines"], ["text", "Text"], ["table", "Table"]];
  const fileName = (...words) => lmscope.download.named("lmscope", lmscope.view.get().model, ...words);

  function controls() {
    const { h } = lmscope.dom;
    place("head-tools").replaceChildren(
      lmscope.info.menu(lmscope.dom.icon("download"), "Download this head", files),
      h("button.quiet", { type: "button", onclick: askCode, title: "Copy as Python: the client's call, and a script with plain transformers", "aria-label": "Copy as Python" }, lmscope.dom.icon("copy")),
      lmscope.info.button("this head", about));
    place("head-tabs").replaceChildren(...TABS.map(([name, label]) => h("button", { type: "button", role: "tab", id: "head-tab-" + name, "data-tab": name, "aria-controls": "head-" + name, onclick: () => focus({ tab: name }) }, label)));
    place("head-tabs").setAttribute("aria-label", "One head as");
    place("head-tabs").onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = TABS.findIndex(([name]) => name === lmscope.view.get().focus.tab);
      const next = TABS[(at + step + TABS.length) % TABS.length][0];
      focus({ tab: next });
      place("head-tab-" + next).focus();
    };
  }

  /** Nothing is open: three heads of this model that are worth a look. */
  function empty() {
    const { grid, overview } = lmscope.attention.page;
    const { h } = lmscope.dom;
    const target = place("head-empty");
    const best = (name, sign) => {
      const statistic = overview && overview.sides.edited.statistics[name];
      if (!statistic) return null;
      let index = -1;
      statistic.value.forEach((value, i) => (index = Number.isFinite(value) && (index < 0 || sign * value > sign * statistic.value[index]) ? i : index));
      return index < 0 ? null : grid.headAt(index);
    };
    const offer = (text, found) => found && h("li", {}, h("button.link", { type: "button", onclick: () => focus({ heads: [found] }) }, lmscope.grid.named(found)), " " + text);
    const offers = [
      offer("looks most at the previous token", best("previous", 1)), offer("looks most at the first token", best("first", 1)),
      offer("spreads its attention most evenly", best("normalised", 1)),
    ].filter(Boolean);
    const { text } = lmscope.view.get();
    if (text !== null && !text.trim()) {
      const { example } = lmscope.dom.config();
      const use = h("button.link", { type: "button", onclick: () => lmscope.view.update({ text: example }, { push: true }) }, example);
      return target.replaceChildren(h("h3", {}, "Start with a sentence"), h("p", {}, "Type one above and press Run, or take this one:"), h("p", {}, use));
    }
    target.replaceChildren(
      h("h3", {}, "Open a head"),
      h("p", {}, "Each small picture is one head on your text: queries down, keys across, bright where it looks. Click one, or type its name, such as 5.3."),
      offers.length ? h("p", {}, "On this text:") : "", h("ul", {}, offers));
  }

  /** What can be done to the open heads. */
  function actions(view) {
    const { h } = lmscope.dom;
    const { same, named } = lmscope.grid;
    const target = place("head-actions");
    const { heads } = view.focus;
    if (!heads.length) return target.replaceChildren();
    const mine = (edit) => heads.some((each) => same(each, edit));
    const edited = view.edits.filter(mine);
    const state = JSON.stringify([heads, edited, view.edits.length]);
    if (target.dataset.state === state) return;
    target.dataset.state = state;
    const others = view.edits.filter((edit) => !mine(edit));
    const room = lmscope.dom.config().edits - others.length;
    const add = (by) => {
      if (heads.length > room) return lmscope.dom.announce("A view carries at most " + lmscope.dom.config().edits + " edits; " + heads.length + " heads do not fit");
      lmscope.view.update({ edits: [...others, ...heads.map(({ layer, head }) => ({ ...lmscope.dom.config().edit, kind: "head.scale", layer, head, by }))] }, { push: true });
    };
    const factor = h("input.factor", { type: "number", step: "0.1", value: "0.5", "aria-label": "Factor", id: "head-factor" });
    const scale = () => {
      const by = Number(factor.value);
      if (factor.value.trim() === "" || !Number.isFinite(by) || Math.abs(by) > 1e6) return lmscope.dom.announce("A factor is a number between −1,000,000 and 1,000,000");
      add(by);
    };
    const them = heads.length === 1 ? "head" : heads.length + " heads";
    target.replaceChildren(...[
      h("button", { type: "button", onclick: () => add(0) }, "Switch " + them + " off"),
      h("span.scale-by", {}, h("button", { type: "button", onclick: scale }, "Scale by"), factor),
      edited.length ? h("button.quiet", { type: "button", onclick: () => lmscope.view.update({ edits: others }, { push: true }) }, "Undo " + edited.length + (edited.length === 1 ? " edit" : " edits")) : null,
      heads.length > 1 ? h("button.quiet", { type: "button", onclick: () => focus({ heads: [heads[heads.length - 1]] }) }, "Only " + named(heads[heads.length - 1])) : null,
    ].filter(Boolean));
    factor.addEventListener("keydown", (event) => event.key === "Enter" && scale());
  }

  function about() {
    const { head } = lmscope.attention.page;
    const answer = head && head.answer;
    const weighted = answer && answer.unit === "norm";
    return {
      title: lmscope.head.title(lmscope.view.get().focus.heads),
      definition: [
        weighted ? "Value-weighted map: attention α times the length of what the key writes through this head, ‖v W_O‖." : "The attention probability of each query (row) to each key (column), after the softmax; a row sums to 1 over the keys it may see.",
        "Entropy of a row: −Σ p ln p; its baseline ln n is uniform attention over the n keys that the row may see. For a causal model n grows with the position.",
        ...(answer && answer.pooled ? ["This map is reduced: a cell shows the " + answer.reading.pool + " of several pairs. Zoom in for exact values."] : []),
        ...(answer && answer.difference ? ["Difference: edited minus unedited. Its scale is never narrower than the measured numerical noise, " + lmscope.numbers.exact(answer.noise, answer.conditions) + "."] : []),
      ],
      unit: weighted ? "norm (of the residual stream)" : "probability; entropy in nats", source: weighted ? "Kobayashi et al. 2020, “Attention is Not Only a Weight”" : lmscope.panel.SOURCE, conditions: answer && answer.conditions,
    };
  }

  function files() {
    const { head } = lmscope.attention.page;
    const view = lmscope.view.get();
    if (!head || !view.focus.heads.length) return [["Nothing is open", () => {}]];
    const name = fileName("head", view.focus.heads.slice(0, 4).map(lmscope.grid.named).join("-"), view.focus.side);
    const picture = view.focus.tab === "lines" ? (kind) => lmscope.download.svg(place("head-lines").querySelector("svg"), kind, name + "-lines") : (kind) => mapPicture(kind, name);
    return [
      ["PNG", () => picture("png")], ["SVG", () => picture("svg")],
      ["CSV of the map", () => lmscope.download.csv(name + "-map.csv", mapRows(view))], ["CSV of the table", () => lmscope.download.csv(name + "-table.csv", tableRows(view))],
      ["JSON of the answer", () => lmscope.download.json(name + ".json", whole())],
    ];
  }

  /** The map as a picture, also from another tab. */
  async function mapPicture(kind, name) {
    const { tab } = lmscope.view.get().focus;
    if (tab !== "map") {
      focus({ tab: "map" });
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    await lmscope.download.plot("attention-map", kind, name + "-map");
    if (tab !== "map") focus({ tab });
  }

  function mapRows(view) {
    const { head } = lmscope.attention.page;
    const side = head.sides[view.focus.side] ? view.focus.side : "edited";
    const { data } = head.figures[side];
    const values = lmscope.dom.numbers(data[0].z);
    const [q, k] = head.answer.cells;
    return [["query \\ key", ...data[0].x], ...Array.from({ length: q }, (_, row) => [data[0].y[row], ...values.subarray(row * k, (row + 1) * k)])];
  }

  function tableRows(view) {
    const { head } = lmscope.attention.page;
    const { columns, rows } = lmscope.head.tableOf(head, view);
    return [columns.map((each) => each.label), ...rows.map((row) => columns.map((each) => row[each.name]))];
  }

  /** The answer as the API gives it: the maps back in their places. */
  function whole() {
    const { head } = lmscope.attention.page;
    const answer = { ...head.answer };
    for (const side of Object.keys(head.sides)) answer[side] = { map: head.figures[side].data[0].z, ...answer[side] };
    return answer;
  }

  function askCode() {
    const { asked } = lmscope.attention.page;
    if (!asked) return lmscope.dom.announce("Open a head first");
    const view = lmscope.view.get();
    window.dash_clientside.set_props("attention-code-ask", { data: { ask: JSON.parse(asked), statistic: view.focus.colour, query: view.focus.token, origin: lmscope.info.server(), asked: Date.now() } });
  }

  lmscope.headPanel = { TABS, controls, empty, actions };
})();
