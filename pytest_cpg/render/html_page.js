"use strict";

// Everything below is an addition: without it the page shows all gates, and nothing is copied.
const live = document.getElementById("live");
const rows = document.querySelectorAll("table.gates tbody tr");
const find = document.getElementById("find");

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Of a page that was opened as a file, or is shown in a frame.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    from.focus();
  }
  const said = from.closest("figure")?.querySelector("[role=status]") ?? live;
  said.textContent = `Copied: ${text}`;
  if (from.matches(".copy")) {
    from.textContent = "Copied";
    setTimeout(() => (from.textContent = "Copy"), 1500);
  }
}

function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target?.matches("details, tr")) return;
  for (let one = target; one; one = one.parentElement.closest("details")) one.open = true;
  target.scrollIntoView();
  target.firstElementChild.focus({ preventScroll: true });
}

for (const line of document.querySelectorAll(".cmd")) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-label", `Copy: ${line.previousElementSibling.textContent}`);
  line.append(button);
}

document.addEventListener("click", (event) => {
  const from = event.target.closest("button[data-copy], button.copy");
  if (from) copy(from.dataset.copy ?? from.previousElementSibling.textContent, from);
  // A click on the link that is already the address opens its gate again.
  if (event.target.closest('a[href^="#"]')) setTimeout(openTarget);
});

// One tab stop for each row of starts; arrow keys move along it.
for (const row of document.querySelectorAll(".starts")) {
  const cells = [...row.querySelectorAll("button")];
  cells.forEach((cell, at) => (cell.tabIndex = at ? -1 : 0));
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    const at = Math.min(Math.max(cells.indexOf(document.activeElement) + step, 0), cells.length - 1);
    cells.forEach((cell) => (cell.tabIndex = -1));
    cells[at].tabIndex = 0;
    cells[at].focus();
    event.preventDefault();
  });
}

find.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/);
  for (const row of rows) {
    row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    if (!row.hidden && find.value) row.closest("details")?.setAttribute("open", "");
  }
  const count = [...rows].filter((row) => !row.hidden).length;
  document.getElementById("found").textContent = find.value ? `${count} of ${rows.length} rows` : "";
});
addEventListener("hashchange", openTarget);
for (const control of document.querySelectorAll("[data-script]")) control.hidden = false;
openTarget();
