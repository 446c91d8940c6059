// Keys for who decides much: j and k move, x ticks, v r p decide on the item at hand, u undoes, Enter opens.
"use strict";
(() => {
  let at = -1;
  const items = () => [...document.querySelectorAll(".item")];
  const go = (to) => {
    const all = items();
    if (!all.length) return;
    at = Math.max(0, Math.min(all.length - 1, to));
    all.forEach((item, n) => item.classList.toggle("at", n === at));
    all[at].focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  };
  const decide = (decision) => {
    const item = items()[at];
    const form = document.getElementById("bulk");
    const button = form && form.querySelector(`button[value="${decision}"]`);
    if (!item || !button) return false;
    if (!form.querySelector('input[name="ids"]:checked')) {
      const box = item.querySelector('input[name="ids"]');
      if (box) box.checked = true;
    }
    button.click();
    return true;
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA|BUTTON|A|SUMMARY)$/.test(event.target.tagName) && !(event.target.type === "checkbox" && event.key !== " ")) return;
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (acts[event.key] && items().length) { event.preventDefault(); acts[event.key](); }
    else if (button) { event.preventDefault(); button.click(); }
  });
  document.addEventListener("change", (event) => {
    if (event.target.id !== "all") return;
    document.querySelectorAll('#bulk input[name="ids"]').forEach((box) => { box.checked = event.target.checked; });
  });
  document.addEventListener("htmx:afterSettle", () => { at = -1; });
})();
