/* The value vectors of the trace page's open cell: signed bars, words at both ends, and switches that become edits. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { wordOf } = trace;
  const SHOWN = 5; // words of an end
  let switching = 0;

  const editOf = (view, layer, unit) => view.edits.findIndex((edit) => edit.kind.startsWith("ffn.") && edit.layer === layer && edit.unit === unit);

  /** Off, or the edit that is there taken away. */
  function toggle(layer, unit) {
    const view = lmscope.view.get();
    const at = editOf(view, layer, unit);
    if (at >= 0) return lmscope.view.update({ edits: view.edits.filter((_, i) => i !== at) }, { push: true });
    return lmscope.edits.add({ kind: "ffn.set", at: "all", on: true, layer, unit, to: 0 });
  }

  /** LM-Debugger's off and on: the server says which number that is, once. */
  const legacy = (layer, unit, on) => trace.setProps("trace-switch-ask", { data: { ask: { view: lmscope.panel.question(lmscope.view.get()), layer, unit, on }, turn: ++switching } });

  function receive(data) {
    if (!data || !trace.isOpen() || data.turn !== switching) return;
    const view = lmscope.view.get();
    const { edit } = data.answer;
    const at = editOf(view, edit.layer, edit.unit);
    if (at < 0) lmscope.edits.add(edit);
    else lmscope.view.update({ edits: view.edits.map((each, i) => (i === at ? edit : each)) }, { push: true });
    lmscope.dom.announce(data.answer.about);
  }

  const open = (layer, unit) => document.dispatchEvent(new CustomEvent("lmscope:value", { detail: { layer, unit } }));

  // ------------------------------------------------------------------ drawing

  function list(view, answer, side) {
    const { h } = lmscope.dom;
    const size = (value) => (view.focus.ranked === "contribution" && value.contribution !== null ? value.contribution : Math.sign(value.coefficient) * value.magnitude);
    const most = Math.max(1e-12, ...side.values.map((value) => Math.abs(size(value))));
    return h("ol.values", {}, side.values.map((value) => item(view, answer, value, size(value) / most)));
  }

  function item(view, answer, value, length) {
    const { h } = lmscope.dom;
    const name = "L" + answer.layer + "U" + value.unit;
    const at = editOf(view, answer.layer, value.unit);
    const [up, down] = value.coefficient < 0 ? [value.ends.lowest, value.ends.highest] : [value.ends.highest, value.ends.lowest];
    const line = (ids, sign, words, number, title) => h("p.ends", {}, h("span.ends-words", {}, h("span." + sign, { role: "img", "aria-label": words }, sign === "up" ? "↑" : "↓"), " ", ends(ids)), h("span.value-fact", { title }, number));
    const { contribution } = value;
    return h("li.value", { "data-edited": at >= 0 ? "yes" : null },
      h("div.value-line", {},
        h("button.link.value-name", { type: "button", title: "Open this value", onclick: () => open(answer.layer, value.unit) }, name),
        strip(answer, value), bar(length),
        h("span.value-number", { title: "coefficient" + (answer.gated ? ", the product act(g)·u" : "") }, trace.signed(value.coefficient, answer.conditions)),
        switches(view, answer.layer, value.unit, at)),
      line(up, "up", "makes likelier", "‖v‖ " + trace.share(value.norm, answer.conditions), "Norm of the value"),
      line(down, "down", "makes less likely", contribution === null ? "" : trace.signed(contribution, answer.conditions) + " logits", "Direct contribution to the explained prediction"));
  }

  const ends = (ids) => ids.slice(0, SHOWN).map((id, i) => [i ? " · " : "", lmscope.dom.h("bdi", {}, wordOf(id))]).flat();

  /** From the middle to the right for more, to the left for less. */
  function bar(length) {
    const { h } = lmscope.dom;
    const width = 50 * Math.min(1, Math.abs(length));
    return h("span.signed-bar" + (length < 0 ? ".less" : ".more"), { "aria-hidden": "true" }, h("span", { style: "width:" + width + "%;" + (length < 0 ? "right:50%" : "left:50%") }));
  }

  function switches(view, layer, unit, at) {
    const { h } = lmscope.dom;
    const name = "L" + layer + "U" + unit;
    if (view.focus.debugger)
      return h("span.signs", {}, [["Off", false], ["On", true]].map(([word, on]) => h("button.sign", { type: "button", title: "As LM-Debugger did it", "aria-label": name + " " + word.toLowerCase() + " as in LM-Debugger", onclick: () => legacy(layer, unit, on) }, word)));
    return h("span.signs", {}, h("button.sign", { type: "button", "aria-pressed": String(at >= 0), title: at >= 0 ? "Take the edit of " + name + " away" : "Switch " + name + " off: its coefficient becomes 0 everywhere", "aria-label": name + " off", onclick: () => toggle(layer, unit) }, at >= 0 ? "Edited" : "Off"));
  }

  /** Its coefficient at every position, small; the open cell's own is marked. */
  function strip(answer, value) {
    const { h } = lmscope.dom;
    const at = lmscope.dom.numbers(value.at);
    const most = Math.max(1e-12, ...at.map(Math.abs));
    const step = 100 / at.length;
    const bars = Array.from(at, (m, i) => {
      const height = (9 * Math.abs(m)) / most;
      return '<rect x="' + (i * step).toFixed(2) + '" width="' + Math.max(step * 0.8, 0.3).toFixed(2) + '" y="' + (m < 0 ? 10 : 10 - height).toFixed(2) + '" height="' + Math.max(0.4, height).toFixed(2) + '" class="' + (m < 0 ? "less" : "more") + (i === answer.token ? " here" : "") + '"/>';
    }).join("");
    const said = "Coefficient at each token: " + Array.from(at, (m, i) => trace.tokenName(i) + " " + trace.signed(m, answer.conditions)).slice(0, 24).join(", ") + (at.length > 24 ? " …" : "");
    const holder = h("span.value-strip", { role: "img", "aria-label": said, title: said.replace(/, /g, "\n").replace(": ", ":\n") });
    holder.innerHTML = '<svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><line x1="0" x2="100" y1="10" y2="10"/>' + bars + "</svg>";
    return holder;
  }

  trace.values = { list, open, toggle, editOf };
  Object.assign(window.dash_clientside.trace, { switched: receive });
})();
