/* A pad for two sliders at once: one point, across and up; arrow keys move it as the hand does. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place } = steer;
  const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
  const FAR = 10; // steps of an arrow key with Shift
  let held = false;
  let drawn = null;

  /** The two sliders of the pad, or null where there are not two. */
  function pair(view) {
    const fit = steer.fitting();
    if (fit.length < 2) return null;
    const [across, up] = (view.focus.pad || []).map((id) => fit.find((card) => card.id === id) || null);
    const one = across || fit.find((card) => card !== up);
    return [one, up && up !== one ? up : fit.find((card) => card !== one)];
  }

  const current = () => pair(lmscope.view.get());
  const values = (cards) => cards.map((card) => steer.sliders.valueOf(lmscope.view.get(), card));
  const clamp = (value, { low, high }) => Math.min(high, Math.max(low, value));
  const rounded = (value, { step }) => Number((Math.round(value / step) * step).toPrecision(6));

  // ------------------------------------------------------------------ the point

  function put(cards, wanted, live, byKeys = false) {
    const pairs = cards.map((card, i) => [card, rounded(clamp(wanted[i], steer.sliders.ends(card)), steer.sliders.ends(card))]);
    if (live) steer.sliders.follow("pad", pairs);
    else steer.sliders.settle("pad", pairs, byKeys);
    show(cards, pairs.map(([, value]) => value));
  }

  const share = (value, { low, high }) => (clamp(value, { low, high }) - low) / (high - low);

  function show(cards, [x, y]) {
    const [across, up] = cards.map(steer.sliders.ends);
    const thumb = place("steer-pad-thumb");
    thumb.style.left = 100 * share(x, across) + "%";
    thumb.style.bottom = 100 * share(y, up) + "%";
    thumb.setAttribute("aria-valuemin", across.low);
    thumb.setAttribute("aria-valuemax", across.high);
    thumb.setAttribute("aria-valuenow", clamp(x, across));
    thumb.setAttribute("aria-valuetext", cards[0].name + " " + steer.sliders.withSign(x) + ", " + cards[1].name + " " + steer.sliders.withSign(y));
    place("steer-pad-says").textContent = thumb.getAttribute("aria-valuetext");
  }

  /** Where a pointer is, as the two values. */
  function at(event, cards) {
    const box = place("steer-pad").getBoundingClientRect();
    const [across, up] = cards.map(steer.sliders.ends);
    return [across.low + ((event.clientX - box.left) / box.width) * (across.high - across.low), up.low + ((box.bottom - event.clientY) / box.height) * (up.high - up.low)];
  }

  function listen(pad) {
    pad.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      held = true;
      pad.setPointerCapture(event.pointerId);
      place("steer-pad-thumb").focus({ preventScroll: true });
      put(current(), at(event, current()), true);
    });
    pad.addEventListener("pointermove", (event) => held && put(current(), at(event, current()), true));
    const end = (event) => {
      if (!held) return;
      held = false;
      put(current(), at(event, current()), false);
    };
    pad.addEventListener("pointerup", end);
    pad.addEventListener("pointercancel", end);
    pad.addEventListener("dblclick", () => put(current(), [0, 0], false));
  }

  function key(event) {
    const cards = current();
    if (event.key === "Home") {
      event.preventDefault();
      return put(cards, [0, 0], false, true);
    }
    const way = KEYS[event.key];
    if (!way) return undefined;
    event.preventDefault();
    const [x, y] = values(cards);
    const by = (i) => way[i] * steer.sliders.ends(cards[i]).step * (event.shiftKey ? FAR : 1);
    return put(cards, [x + by(0), y + by(1)], false, true);
  }

  // ------------------------------------------------------------------ the panel

  function draw(view) {
    const cards = pair(view);
    place("steer-pad-panel").hidden = cards === null;
    if (cards === null) return;
    const state = JSON.stringify([steer.fitting().map(steer.sliders.keyOf), cards.map((card) => card.id)]);
    if (state !== drawn) {
      drawn = state;
      build(cards);
    }
    if (!held) show(cards, values(cards));
  }

  function build(cards) {
    const { h } = lmscope.dom;
    const choose = (i) => (id) => {
      const next = cards.map((card) => card.id);
      if (next[1 - i] === id) next[1 - i] = next[i];
      next[i] = id;
      lmscope.panel.focus({ pad: next });
    };
    const options = steer.fitting().map((card) => [card.id, card.name]);
    const selects = ["across", "up"].map((name, i) => {
      const select = lmscope.panel.select("steer-pad-" + name, name, options, choose(i));
      select.show(cards[i].id);
      return select.element;
    });
    place("steer-pad-choice").replaceChildren(...selects);
    const [across, up] = cards.map(steer.sliders.ends);
    const thumb = h("span", { id: "steer-pad-thumb", class: "pad-thumb", role: "slider", tabindex: "0", "aria-roledescription": "two sliders in one point", "aria-label": cards[0].name + " across, " + cards[1].name + " up", onkeydown: key });
    const zero = [h("span.pad-line.across", { "aria-hidden": "true" }), h("span.pad-line.up", { "aria-hidden": "true" })];
    zero[0].style.bottom = 100 * share(0, up) + "%";
    zero[1].style.left = 100 * share(0, across) + "%";
    place("steer-pad").replaceChildren(...zero, thumb);
    for (const [side, text] of [["left", cards[0].minus], ["right", cards[0].plus], ["below", cards[1].minus], ["above", cards[1].plus]]) place("steer-pad-" + side).textContent = text;
  }

  function start() {
    drawn = null;
    held = false;
    listen(place("steer-pad"));
  }

  steer.pad = { pair };
  steer.join({
    start, draw,
    live: (view) => { const cards = pair(view); if (cards && !held && drawn) show(cards, values(cards)); },
  });
})();
