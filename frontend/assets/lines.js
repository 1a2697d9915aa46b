/* The lines of one head: tokens twice, queries on the left and keys on the right, a curve for each strong link. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const MOST = 400; // tokens drawn at once; more than that no eye can follow
  const NS = "http://www.w3.org/2000/svg";

  function s(kind, properties, ...children) {
    const element = document.createElementNS(NS, kind);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const shortened = (name) => (name.length > 16 ? name.slice(0, 15) + "…" : name);

  /** The part of the tokens that is drawn: all, or those around the focus. */
  function windowOn(count, token) {
    if (count <= MOST) return [0, count];
    const first = Math.min(Math.max(0, (token === null ? 0 : token) - MOST / 2), count - MOST);
    return [first, first + MOST];
  }

  /** Links [{query, key, weight}] of a side inside [first, last). */
  function linksOf(strongest, weights, n, [first, last]) {
    const links = [];
    for (let query = first; query < last; query++)
      for (let i = 0; i < n; i++) {
        const key = strongest[query * n + i];
        if (key >= first && key < last && weights[query * n + i] !== 0) links.push({ query, key, weight: weights[query * n + i] });
      }
    return links;
  }

  /**
   * Draw into `place`. `head`: {names, strongest, weights, undrawn, n, signed, conditions, token};
   * `act.token(position)` is called on a click.
   */
  function draw(place, head, act) {
    const { h } = lmscope.dom;
    const { exact } = lmscope.numbers;
    const span = windowOn(head.names.length, head.token);
    const [first, last] = span;
    const step = last - first <= 60 ? 22 : 17;
    const width = Math.max(240, place.clientWidth - 4);
    const left = Math.round(width * 0.3);
    const right = Math.round(width * 0.7);
    const y = (position) => (position - first) * step + step / 2 + 2;
    const most = Math.max(1e-12, ...head.weights.map(Math.abs));
    const links = linksOf(head.strongest, head.weights, head.n, span);
    const said = h("p.readout", { "aria-live": "polite" });
    const picture = s("svg", { class: "lines", width, height: (last - first) * step + 6, role: "img", "aria-label": "Links between queries and keys; the table tab has the same numbers" });
    const curves = links.map((link) => {
      const share = Math.abs(link.weight) / most;
      const middle = (left + right) / 2;
      const curve = s("path", {
        d: `M${left + 6} ${y(link.query)}C${middle} ${y(link.query)} ${middle} ${y(link.key)} ${right - 6} ${y(link.key)}`,
        class: "link" + (head.signed ? (link.weight > 0 ? " more" : " less") : ""),
        "stroke-width": (0.6 + 4.4 * share).toFixed(2), "stroke-opacity": (0.12 + 0.8 * share).toFixed(3),
      });
      if (head.signed && link.weight < 0) curve.setAttribute("stroke-dasharray", "5 3");
      return { ...link, curve };
    });
    const names = [];
    const word = (position, side) => {
      const label = s("text", { x: side === "query" ? left : right, y: y(position), "text-anchor": side === "query" ? "end" : "start", class: "token", "dominant-baseline": "central" }, shortened(head.names[position]));
      label.append(s("title", {}, position + " " + head.names[position]));
      label.addEventListener("pointerenter", () => isolate(position, side));
      label.addEventListener("click", () => act.token(position));
      names.push({ position, side, label });
      return label;
    };
    picture.append(...curves.map((each) => each.curve));
    for (let position = first; position < last; position++) picture.append(word(position, "query"), word(position, "key"));
    picture.addEventListener("pointerleave", () => (head.token === null ? isolate(null) : isolate(head.token, "query")));

    function isolate(position, side) {
      picture.classList.toggle("isolating", position !== null);
      const on = new Set();
      for (const link of curves) {
        const chosen = position !== null && link[side] === position;
        link.curve.classList.toggle("on", chosen);
        if (chosen) on.add(side === "query" ? link.key : link.query);
      }
      for (const name of names) name.label.classList.toggle("on", position !== null && (name.side === side ? name.position === position : on.has(name.position)));
      for (const name of names) name.label.classList.toggle("chosen", position !== null && name.side === side && name.position === position);
      said.replaceChildren(...sentence(position, side));
    }

    function sentence(position, side) {
      if (position === null) return [overall()];
      const all = side === "query" ? rowOf(position) : curves.filter((link) => link[side] === position);
      const mine = all.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
      const other = side === "query" ? "key" : "query";
      const list = mine.slice(0, 6).map((link) => head.names[link[other]] + " (" + link[other] + ") " + exact(link.weight, head.conditions, head.signed));
      const verb = side === "query" ? (head.signed ? " looks differently at " : " looks at ") : head.signed ? " is looked at differently by " : " is among the strongest keys of ";
      const rest = side === "query" ? ". Not drawn: " + exact(head.undrawn[position], head.conditions) : "";
      return [h("strong", {}, head.names[position] + " (" + position + ")"), list.length ? verb + list.join(", ") + rest + "." : side === "query" ? ": none of its links is drawn here." : " is among nobody's strongest keys."];
    }

    /** A query's strongest keys, also those outside the drawn part. */
    function rowOf(query) {
      const found = Array.from({ length: head.n }, (_, i) => ({ query, key: head.strongest[query * head.n + i], weight: head.weights[query * head.n + i] }));
      return found.filter((link) => link.key >= 0 && link.weight !== 0);
    }

    function overall() {
      const drawn = head.undrawn.filter(Number.isFinite);
      const mean = drawn.reduce((sum, value) => sum + value, 0) / Math.max(1, drawn.length);
      const part = last - first < head.names.length ? " Tokens " + first + "–" + (last - 1) + " of " + head.names.length + " are drawn: move the focus to see others." : "";
      return "The " + head.n + " strongest keys of each token. Not drawn: " + exact(mean, head.conditions) + (head.signed ? " (mean of |difference| of a row)." : " of each row's attention on average.") + part;
    }

    const heading = h("div.lines-head", { style: "width:" + width + "px" }, h("span", { style: "right:" + (width - left) + "px" }, "query: looks"), h("span", { style: "left:" + right + "px" }, "key: is looked at"));
    const scroller = h("div.lines-scroller", { tabindex: "0", role: "region", "aria-label": "Links" }, picture);
    place.replaceChildren(said, heading, scroller);
    if (head.token === null || head.token < first || head.token >= last) isolate(null);
    else {
      isolate(head.token, "query");
      const at = y(head.token);
      if (at > scroller.clientHeight - step) scroller.scrollTop = at - scroller.clientHeight / 2;
    }
  }

  lmscope.lines = { draw, windowOn, linksOf };
})();
