/* Pages that are made of panels: a change of the view lets all of them ask and draw; and the words that they share. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  const setProps = (id, props) => window.dash_clientside.set_props(id, props);
  const pages = [];
  const LATE_MS = 60;
  const LONG_MS = 1500;

  /**
   * A page. `id`: of its element; `instrument`: what the model's card must offer; `refusal`: what is said where it does
   * not, and `cannot` where; `sized`: the element whose width decides how the page is drawn.
   */
  function page({ id, instrument, cannot, refusal, sized }) {
    const panels = [];
    let unsubscribe = null;
    let resizing = null;
    let question = null; // JSON of the question that the answers belong to
    let turn = 0;
    let latecomers = null; // timer of those who ask after the others

    /**
     * A panel of the page, all of it optional: start(printed) when the page is in the document, leave() when it goes,
     * anew() when the question has changed and older answers no longer count, retry() when what was refused may be asked
     * again, ask(view) and draw(view) at every change; `late` panels ask last, and those `after` only when all that
     * are `settled` have their answers, or take long. While a slider is in the hand only live(view) is called.
     */
    function join(panel) {
      panels.push(panel);
      panels.sort((a, b) => Boolean(a.late) - Boolean(b.late));
    }

    const each = (act, ...given) => panels.forEach((panel) => panel[act] && panel[act](...given));

    /** Called by Dash when the page is in the document. */
    function start(_page, given) {
      leave();
      question = null;
      turn += 1;
      each("anew");
      each("start", given);
      lmscope.panel.measure();
      unsubscribe = lmscope.view.subscribe((view) => (lmscope.view.isAt(id) ? (each("retry"), look(view)) : leave()));
      resizing = new ResizeObserver(() => again());
      resizing.observe(place(sized));
      return true;
    }

    function leave() {
      if (unsubscribe) {
        unsubscribe();
        each("leave");
      }
      if (resizing) resizing.disconnect();
      unsubscribe = resizing = null;
    }

    const isOpen = () => Boolean(unsubscribe && lmscope.view.isAt(id) && lmscope.view.get());
    const again = () => isOpen() && look(lmscope.view.get());
    const retry = () => isOpen() && each("retry");

    function look(view) {
      if (lmscope.view.isMoving()) return each("live", view);
      const ability = abilityOf(view, instrument);
      const isRefused = Boolean(ability && !ability.can);
      refuse(isRefused, ability);
      const alone = panels.filter((panel) => panel.alone && (abilityOf(view, panel.alone) || {}).can);
      place(id).classList.toggle("some", isRefused && alone.length > 0);
      if (isRefused && !alone.length) return void (question = null);
      const now = JSON.stringify(lmscope.panel.question(view));
      if (now !== question) {
        question = now;
        turn += 1;
        each("anew");
      }
      if (isRefused) return alone.forEach((panel) => panel.draw(view));
      if (!lmscope.view.isHeld()) askAll(view);
      return each("draw", view);
    }

    /** What a person reads first is asked first: requests that are out together overtake one another. */
    function askAll(view) {
      for (const panel of panels) if (panel.ask && !panel.after) panel.ask(view);
      const after = panels.filter((panel) => panel.ask && panel.after);
      if (latecomers !== null || !after.length) return;
      const until = performance.now() + LONG_MS;
      latecomers = setTimeout(function turn() {
        if (performance.now() < until && panels.some((panel) => panel.settled && !panel.settled())) return void (latecomers = setTimeout(turn, LATE_MS));
        latecomers = null;
        const now = lmscope.view.get();
        if (isOpen() && !lmscope.view.isMoving() && !lmscope.view.isHeld() && question !== null) after.forEach((panel) => (panel.ask(now), panel.draw(now)));
      }, LATE_MS);
    }

    function refuse(isRefused, ability) {
      place(id).classList.toggle("cannot", isRefused);
      if (!isRefused) return lmscope.notice.clear(cannot);
      if (place(cannot).firstElementChild) return;
      lmscope.notice.show(cannot, { type: "cannot", why: ability.why, ...refusal });
    }

    const made = { join, start, isOpen, again, retry, turn: () => turn, question: () => question };
    made.jobs = lmscope.panelJobs.on(made);
    made.asker = (name, given) => lmscope.panelAnswers.asker(made, name, given);
    made.asking = (name, given) => lmscope.panelAsks.question(made, name, given);
    pages.push(made);
    return made;
  }

  // ------------------------------------------------------------------ what every panel says in the same words

  /** What the model's card says of an instrument; undefined while nothing is known of it. */
  function abilityOf(view, instrument) {
    const card = lmscope.shelf.card(view);
    return card ? card.can[instrument] : undefined;
  }

  const compared = (view) => view.compare && view.edits.some((edit) => edit.on);
  const sideOf = (view) => (compared(view) ? view.focus.side : "edited");

  const known = new Map(); // id -> what the token reads, from every answer since the page was opened

  function learn(words) {
    for (const [id, word] of Object.entries(words || {})) known.set(Number(id), word);
  }

  /** A word of the vocabulary with its spaces visible. */
  const wordOf = (id) => (known.has(id) ? lmscope.strip.printed({ piece: known.get(id), part: 0 }, true) : "id " + id);

  function tokenName(position) {
    const strip = lmscope.strip.answer();
    const token = strip && strip.tokens[position];
    return position + (token ? " " + lmscope.strip.printed(token, false) : "");
  }

  const figures = (conditions) => lmscope.numbers.digits(conditions);
  const share = (value, conditions) => lmscope.dom.digits(value, figures(conditions));
  const signed = (value, conditions) => (Number.isFinite(value) && value > 0 ? "+" : "") + lmscope.dom.digits(value, figures(conditions));
  const fileName = (...words) => lmscope.download.named("lmscope", lmscope.view.get().model, ...words);

  /** A page is long: each panel, [name, id of its title], is one click away. The address holds the view, so these are no anchors. */
  function jumps(titles) {
    const { h } = lmscope.dom;
    const there = titles.filter(([, id]) => place(id));
    return h("nav.jumps", { "aria-label": "Panels of this page" }, there.map(([name, id]) => h("button.link", { type: "button", onclick: () => jump(id) }, name)));
  }

  function jump(id) {
    const title = place(id);
    title.tabIndex = -1;
    title.closest(".sheet").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    title.focus({ preventScroll: true });
  }

  lmscope.panels = { page, jumps };
  lmscope.panelWords = { place, setProps, abilityOf, compared, sideOf, learn, wordOf, tokenName, share, signed, fileName, known: (id) => known.get(id) };

  window.addEventListener("load", () => {
    lmscope.shelf.subscribe(() => pages.forEach((each) => (each.retry(), each.again())));
    lmscope.strip.listeners.add(() => pages.forEach((each) => each.again()));
  });
})();
