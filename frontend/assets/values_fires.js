/* Where the open value fires in this text: its coefficient at every token. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place } = trace;
  let asked = null;
  let have = null; // {answer, key}
  let drawn = null;

  function ask(view) {
    const unit = view.focus.unit;
    if (!unit || lmscope.values.cannot(view) || !trace.lens.fresh()) return;
    const question = { view: lmscope.panel.question(view), layer: unit.layer, unit: unit.unit };
    const key = JSON.stringify(question);
    if (key === asked) return;
    asked = key;
    trace.setProps("fires-ask", { data: { ask: question, key } });
  }

  function receive(data) {
    if (!data || data.key !== asked) return;
    have = data;
    trace.again();
  }

  function draw(view) {
    const target = place("value-fires");
    if (!target) return;
    const shown = view.focus.unit && have && have.key === asked && trace.lens.fresh() ? have : null;
    const state = JSON.stringify([shown && shown.key, trace.turn(), view.focus.unit && !shown]);
    if (state === drawn) return;
    drawn = state;
    target.classList.toggle("stale", Boolean(view.focus.unit) && !shown && Boolean(target.children.length));
    if (shown) target.replaceChildren(...section(shown.answer));
    else if (!view.focus.unit) target.replaceChildren();
  }

  function section(answer) {
    const { h } = lmscope.dom;
    const sides = ["edited", "unedited"].filter((side) => answer[side]).map((side) => lmscope.dom.numbers(answer[side]));
    const most = Math.max(1e-12, ...sides.flatMap((at) => Array.from(at, Math.abs)));
    const said = "Its coefficient at each token" + (answer.gated ? ", the product act(g) · u" : "") + (sides[1] ? ", with the edits over without" : "") + ".";
    return [h("section.value-part", { "aria-label": "In this text" }, h("h3", {}, "In this text"), h("p.hint", {}, said), h("ol.fires", { tabindex: "0", "aria-label": said }, answer.ids.map((_, token) => item(answer, sides, most, token))))];
  }

  function item(answer, sides, most, token) {
    const { h } = lmscope.dom;
    const [at, without] = sides.map((side) => side[token]);
    const bar = h("span.fires-bar." + (at < 0 ? "less" : "more"), { "aria-hidden": "true", style: "height:" + (100 * Math.abs(at)) / most + "%" });
    const numbers = [trace.signed(at, answer.conditions), ...(without === undefined ? [] : [trace.signed(without, answer.conditions)])];
    return h("li", {}, h("button.quiet", { type: "button", title: "Go to this token", onclick: () => lmscope.panel.focus({ token }) },
      h("span.fires-room", {}, bar), h("bdi.fires-word", {}, trace.tokenName(token)), numbers.map((number) => h("span.fires-number", {}, number))));
  }

  trace.fires = { answer: () => have && have.key === asked && have.answer };
  Object.assign(window.dash_clientside.values, { fires: receive });
  trace.join({
    ask, draw,
    start: () => { asked = have = drawn = null; },
    anew: () => { drawn = null; },
    retry: () => { if (place("fires-notice").firstElementChild && !lmscope.busy.isOut("fires-answer.")) asked = null; },
  });
})();
