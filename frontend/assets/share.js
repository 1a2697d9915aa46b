/* Share: copies the link of exactly this view, and says so. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // without https the browser offers only the old way
      const field = lmscope.dom.h("textarea", { value: text, "aria-hidden": "true", style: "position:fixed;top:0;opacity:0" });
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }

  async function share() {
    const view = lmscope.view.get();
    if (!view) return;
    try {
      const link = location.origin + lmscope.dom.config().path + lmscope.view.instrument() + (await lmscope.view.pack(view));
      const copied = await copy(link);
      lmscope.dom.announce(copied ? "Link copied" : "Copy the address from the address bar");
    } catch (error) {
      lmscope.notice.show("link-notice", {
        type: "too-large", what: "This view does not fit in a link", why: error.message,
        instead: "Shorten the text, or send the text beside the link.",
      });
    }
  }

  function start() {
    const button = document.getElementById("share-button");
    button.title = button.ariaLabel = "Copy the link of this view";
    button.addEventListener("click", share);
  }

  lmscope.share = { start, copy };
})();
