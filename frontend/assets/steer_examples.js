/* Labelled examples: pasted in two boxes or as rows, or a file; checked by the server before anything is made of them. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const { place, setProps } = lmscope.steer;
  const { fill, lines, redraw } = lmscope.steer.cards;
  const WAYS = [["two", "Two boxes", "One text a line: one box for each pole"], ["rows", "Labelled rows", "One a line: text, label from −1 to 1"], ["file", "File", "CSV or JSONL with text and label"], ["kept", "Kept here", "Examples that were sent to this server before"]];
  const given = { way: "two", plus: "", minus: "", rows: "", file: null, kept: "" };
  let card = null; // ExamplesCard of exactly what is given now
  let kept = []; // cards of what the server keeps
  let checking = null; // AbortController of the question that is out
  let due = 0;
  let changed = () => {};
  let ways = null;

  /** What was checked no longer counts. */
  function touch(patch) {
    Object.assign(given, patch);
    if (checking) checking.abort();
    card = checking = null;
    lmscope.notice.clear("make-examples-notice");
    draw();
    changed();
  }

  // ------------------------------------------------------------------ what is asked

  /**
   * Rows as JSONL, a line for a line, so that what the server says of a line is true of what was pasted. The label
   * stands after the last comma, semicolon or tab; a line that has none is sent as it is, and refused with its number.
   */
  function jsonl(text) {
    const split = (line) => {
      const found = /^(.*)[,;\t]([^,;\t]*)$/s.exec(line);
      if (!found) return { text: line };
      const quoted = /^\s*"(.*)"\s*$/s.exec(found[1]);
      return { text: quoted ? quoted[1].replace(/""/g, '"') : found[1].trim(), label: found[2].trim() };
    };
    return text.split(/\r?\n/).map((line, i) => (!line.trim() || (i === 0 && /^"?text"?\s*[,;\t]\s*"?label"?\s*$/i.test(line.trim())) ? "" : JSON.stringify(split(line)))).join("\n");
  }

  const base64 = (blob) => new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,?/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });

  /** `ExamplesAsk`, or a problem in words. */
  async function question(name) {
    const empty = (why, instead) => ({ problem: { type: "invalid", what: "There are no examples yet", why, instead } });
    if (given.way === "two") {
      const [plus, minus] = [lines(given.plus), lines(given.minus)];
      return plus.length + minus.length ? { ask: { name, plus, minus } } : empty("both boxes are empty", "Paste texts of one pole into each, one a line.");
    }
    if (given.way === "rows") return given.rows.trim() ? { ask: { name, format: "jsonl", file: await base64(new Blob([jsonl(given.rows)])) } } : empty("nothing was pasted", "Paste rows such as: I loved every minute, 1");
    if (given.way === "file") return given.file ? { ask: { name, format: await format(given.file), file: await base64(given.file) } } : empty("no file was chosen", "Choose a CSV or JSONL file.");
    return empty("none was chosen", "Choose one of the list, or paste texts.");
  }

  async function format(file) {
    if (/\.(jsonl|ndjson|json)$/i.test(file.name)) return "jsonl";
    if (/\.(csv|tsv|txt)$/i.test(file.name)) return "csv";
    return (await file.slice(0, 64).text()).trimStart().startsWith("{") ? "jsonl" : "csv";
  }

  /** Ask the server to look at every row. It goes past Dash, whose bodies are too small for files. */
  async function check(name) {
    const mine = (checking = new AbortController());
    const show = (problem) => checking === mine && lmscope.notice.show("make-examples-notice", problem);
    lmscope.notice.clear("make-examples-notice");
    draw();
    try {
      const { ask, problem } = await question(name);
      if (problem) return show(problem);
      const answer = await fetch(lmscope.dom.config().path + "examples", { method: "POST", headers: { "Content-Type": "application/json", "X-Lmscope-Tab": lmscope.tab.id }, body: JSON.stringify(ask), signal: mine.signal });
      const said = await answer.json();
      if (checking !== mine) return undefined;
      if (answer.ok) found(said);
      else show(said.what ? said : { type: "broken", what: "The examples could not be checked", why: "the server answered with status " + answer.status, instead: "Try again." });
    } catch (error) {
      if (error.name !== "AbortError") show({ type: "unreachable", what: "The examples could not be checked", why: "the server does not answer, or the file cannot be read any more", instead: "Try again when the server is back; choose the file anew." });
    } finally {
      if (checking === mine) checking = null;
      draw();
      changed();
    }
    return undefined;
  }

  function found(said) {
    card = said;
    refresh();
    lmscope.dom.announce("The examples are fine: " + said.plus + " and " + said.minus + " texts");
  }

  // ------------------------------------------------------------------ files

  /** A file that is too large is refused by its size, before a byte of it is read. */
  function take(file) {
    if (!file) return;
    const most = lmscope.dom.config().upload;
    touch({ file: file.size > most ? null : file, way: "file" });
    if (file.size > most) lmscope.notice.show("make-examples-notice", { type: "too-large", what: "“" + file.name + "” is too large", why: "it has " + file.size.toLocaleString("en") + " bytes, and at most " + most.toLocaleString("en") + " are read", instead: "Take fewer texts: a few thousand of each pole are enough." });
  }

  // ------------------------------------------------------------------ drawing

  function area(name, label, placeholder, rows) {
    const { h } = lmscope.dom;
    const input = h("textarea", { id: "make-" + name, rows, spellcheck: "false", placeholder, value: given[name], oninput: () => touch({ [name]: input.value }) });
    return h("label.make-area", {}, h("span", { id: "make-" + name + "-label" }, label), input);
  }

  function body() {
    const { h } = lmscope.dom;
    if (given.way === "two") return [h("div.make-two", {}, area("plus", "Texts of the + pole, one a line", "What a lovely film.\nI would watch it again tomorrow.", 6), area("minus", "Texts of the − pole, one a line", "A waste of two hours.\nThe plot makes no sense.", 6))];
    if (given.way === "rows") return [area("rows", "Rows: a text, a comma, and its label from −1 to 1", "What a lovely film., 1\n\"Slow, but kind.\", 0.4\nA waste of two hours., -1", 8)];
    if (given.way === "file") {
      const input = h("input", { type: "file", id: "make-file", accept: ".csv,.tsv,.txt,.jsonl,.ndjson,.json", onclick: () => (input.value = ""), onchange: () => take(input.files[0]) }); // emptied: the same file, mended, is a change
      const drop = h("div.make-drop", { ondragover: (event) => event.preventDefault(), ondrop: (event) => (event.preventDefault(), take(event.dataTransfer.files[0])) },
        h("label", { for: "make-file" }, "A CSV file whose first line is ", h("code", {}, "text,label"), ", or JSONL with ", h("code", {}, "{\"text\": …, \"label\": …}"), " on each line; at most " + lmscope.dom.bytes(lmscope.dom.config().upload) + "."), input,
        h("p.note", { id: "make-file-name" }, given.file ? given.file.name + ", " + lmscope.dom.bytes(given.file.size) : ""));
      return [drop];
    }
    const select = h("select", { id: "make-kept", onchange: () => { touch({ kept: select.value }); card = kept.find((each) => each.id === given.kept) || null; draw(); changed(); } });
    fill(select, [["", kept.length ? "Choose …" : "none yet"], ...kept.map((each) => [each.id, each.name + " (" + each.plus + " + " + each.minus + " texts)"])], given.kept);
    return [h("label.field", {}, h("span", {}, "Examples"), select)];
  }

  /** What the check has found. */
  function facts() {
    const { h, sentence } = lmscope.dom;
    if (!card) return [];
    const count = (n, one, many) => (n ? n + " " + (n === 1 ? one : many) : null);
    const more = [count(card.duplicates, "text came more than once and is kept once", "texts came more than once and are kept once"), count(card.neutral, "text is labelled 0 and left out", "texts are labelled 0 and left out")].filter(Boolean);
    return [
      h("p.make-checked", {}, h("span.mark", { "aria-hidden": "true" }, "✓ "), h("strong", {}, card.rows + " examples"), ": " + card.plus + " of the + pole, " + card.minus + " of the − pole; the longest has " + card.longest.toLocaleString("en") + " characters." + (more.length ? " " + more.join("; ") + "." : "")),
      ...card.notices.map((text) => h("p.note", {}, sentence(text))),
    ];
  }

  function draw() {
    const target = place("make-examples");
    if (!target) return;
    ways.show(given.way);
    if (target.dataset.way !== given.way + (given.way === "kept" ? kept.length : "")) {
      target.dataset.way = given.way + (given.way === "kept" ? kept.length : "");
      target.replaceChildren(...body());
    }
    if (given.way === "file") place("make-file-name").textContent = given.file ? given.file.name + ", " + lmscope.dom.bytes(given.file.size) : "";
    const { h } = lmscope.dom;
    const waiting = checking !== null;
    redraw(place("make-check"), [
      given.way === "kept" ? null : h("button", { type: "button", id: "make-check-act", disabled: waiting || card !== null, onclick: () => check(lmscope.steer.make.name() || "examples") }, waiting ? "Checking …" : "Check the examples"),
      ...facts(),
    ].filter(Boolean));
  }

  /** The places of this part, once; `onchange` is told when what was checked changes. */
  function elements(onchange) {
    const { h } = lmscope.dom;
    changed = onchange;
    ways = lmscope.panel.segmented("make-way", "Examples", WAYS, (way) => touch({ way }));
    return [ways.element, h("div", { id: "make-examples" }), h("div.notice-place", { id: "make-examples-notice", "aria-live": "polite" }), h("div", { id: "make-check", "aria-live": "polite" })];
  }

  function receive(cards) {
    if (!cards) return;
    kept = cards;
    draw();
    lmscope.steer.again();
  }

  const refresh = () => setProps("steer-kept-ask", { data: ++due });

  lmscope.steer.examples = { elements, draw, refresh, card: () => card, kept: () => kept, labels: (plus, minus) => {
    const name = (id, pole, sign) => place(id) && (place(id).textContent = "Texts of " + (pole ? "“" + pole + "”" : "the " + sign + " pole") + ", one a line");
    name("make-plus-label", plus, "+");
    name("make-minus-label", minus, "−");
  } };
  Object.assign(window.dash_clientside.steer, { kept: receive });
})();
