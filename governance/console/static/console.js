// Keys for who decides much: j and k move, x ticks, v r p decide on what is ticked, else on the item at hand, u undoes, Enter opens.
"use strict";
(() => {
  let at = -1;
  document.documentElement.classList.add("js");
  const items = () => [...document.querySelectorAll(".item")];
  const go = (to) => {
    const all = items();
    if (!all.length) return;
    at = Math.max(0, Math.min(all.length - 1, to));
    all.forEach((item, n) => item.classList.toggle("at", n === at));
    all[at].focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  };
  const arrive = () => { // after a decision the page says at which item it was made
    at = items().findIndex((item) => item.classList.contains("at"));
    if (at >= 0) go(at);
  };
  const decide = (decision) => {
    const form = document.getElementById("bulk");
    const place = form && form.querySelector('input[name="ids"]:checked') ? form.querySelector(".bar") : items()[at];
    const button = place && place.querySelector(`button[value="${decision}"]`);
    if (button) button.click();
  };
  const acts = {
    j: () => go(at + 1),
    k: () => go(at - 1),
    x: () => { const box = items()[at] && items()[at].querySelector('input[name="ids"]'); if (box) box.checked = !box.checked; },
    v: () => decide("verify"),
    r: () => decide("reject"),
    p: () => decide("pin"),
    Enter: () => { const link = items()[at] && items()[at].querySelector("a.open"); if (link) link.click(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && !/^[jk]$/.test(event.key)) return;
    const { tagName, type } = event.target;
    if (/^(INPUT|SELECT|TEXTAREA|BUTTON|A|SUMMARY)$/.test(tagName) && !(type === "checkbox" && /^[a-z]$/.test(event.key))) return;
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (Object.hasOwn(acts, event.key) && items().length) { event.preventDefault(); acts[event.key](); }
    else if (button) { event.preventDefault(); button.click(); }
  });
  document.addEventListener("change", (event) => {
    if (event.target.id !== "all") return;
    document.querySelectorAll('#bulk input[name="ids"]').forEach((box) => { box.checked = event.target.checked; });
  });
  const tell = (said) => { // what was typed and ticked stays: it can be sent again
    document.querySelectorAll(".note.away").forEach((old) => old.remove());
    const note = document.createElement("p");
    note.className = "note wrong away";
    note.setAttribute("role", "alert");
    note.tabIndex = -1;
    note.textContent = said;
    document.getElementById("content").prepend(note);
    note.focus();
  };
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    const isPage = /^text\/html\b/.test(xhr.getResponseHeader("content-type") || "");
    if (isPage && ![429, 503, 504].includes(xhr.status)) return;
    event.detail.shouldSwap = false;
    const said = isPage && new DOMParser().parseFromString(xhr.responseText, "text/html").querySelector('[role="alert"]');
    tell(said ? said.textContent.trim() : document.body.dataset.away);
  });
  document.addEventListener("htmx:sendError", () => tell(document.body.dataset.away));
  document.addEventListener("htmx:afterSettle", () => { // a new page begins at its top, for eyes, keys and ears
    arrive();
    if (at >= 0 || location.hash) return;
    const start = document.querySelector("main .note[role]") || document.querySelector("main h1");
    if (start) { start.tabIndex = -1; start.focus({ preventScroll: true }); }
    window.scrollTo(0, 0);
  });
  document.addEventListener("DOMContentLoaded", arrive);
})();
