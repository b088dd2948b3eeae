"use strict";

// Everything below is an addition: without it the page shows all gates, as they were collected.
const controls = document.getElementById("controls");
const search = document.getElementById("search");
const order = document.getElementById("order");
const body = document.getElementById("summary").tBodies[0];
const toggles = [...controls.querySelectorAll("button")];
const rows = [...body.rows].map((row, place) => ({
  row,
  place,
  details: document.getElementById(row.dataset.gate),
  name: row.cells[1].querySelector(".id").textContent,
  rank: toggles.findIndex((toggle) => toggle.dataset.state === row.dataset.state),
  loss: row.dataset.loss === undefined ? -Infinity : Number(row.dataset.loss),
}));
const comparisons = {
  place: () => 0,
  rank: (one, other) => one.rank - other.rank,
  loss: (one, other) => (one.loss === other.loss ? 0 : other.loss - one.loss),
  name: (one, other) => one.name.localeCompare(other.name, "en"),
};

function filter() {
  const wanted = search.value.trim().toLowerCase();
  const states = toggles
    .filter((toggle) => toggle.getAttribute("aria-pressed") === "true")
    .map((toggle) => toggle.dataset.state);
  let shown = 0;
  for (const one of rows) {
    const isShown =
      states.includes(one.row.dataset.state) && one.name.toLowerCase().includes(wanted);
    one.row.hidden = !isShown;
    shown += isShown;
  }
  // A gate of several comparisons is shown while one of them is.
  for (const one of rows) one.details.hidden = true;
  for (const one of rows) if (!one.row.hidden) one.details.hidden = false;
  document.getElementById("shown").textContent =
    shown === rows.length ? "" : `${shown} of ${rows.length} rows shown`;
}

function sort() {
  const compare = comparisons[order.value];
  const sorted = [...rows].sort((one, other) => compare(one, other) || one.place - other.place);
  body.append(...sorted.map((one) => one.row));
}

// Every cell of a grid gets a title that names its place, once its gate is opened. The list beside
// the grid, which those read who have no pointer, holds all there is to know.
function nameCells(grid) {
  const named = [];
  for (const list of grid.parentElement.querySelectorAll("dd")) {
    for (const [, first, last] of list.textContent.matchAll(/(\d+)(?:-(\d+))?/g)) {
      for (let place = Number(first); place <= Number(last ?? first); place += 1) {
        named.push([place, list.dataset.set]);
      }
    }
  }
  named.sort((one, other) => one[0] - other[0]);
  const columns = Number(grid.dataset.columns);
  const size = grid.viewBox.baseVal.width / columns;
  for (const [place, [number, set]] of named.entries()) {
    const cell = document.createElementNS(grid.namespaceURI, "rect");
    const values = { x: (place % columns) * size, y: Math.floor(place / columns) * size };
    for (const [key, value] of Object.entries({ ...values, width: size, height: size })) {
      cell.setAttribute(key, value);
    }
    const title = document.createElementNS(grid.namespaceURI, "title");
    title.textContent = `${grid.dataset.what} ${number}: ${set}`;
    cell.append(title);
    grid.append(cell);
  }
}

function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
    target.firstElementChild.focus({ preventScroll: true });
  }
}

for (const toggle of toggles) {
  toggle.addEventListener("click", () => {
    toggle.setAttribute("aria-pressed", toggle.getAttribute("aria-pressed") !== "true");
    filter();
  });
}
search.addEventListener("input", filter);
order.addEventListener("change", sort);
for (const details of document.querySelectorAll("details.gate")) {
  const name = () => {
    if (details.open) details.querySelectorAll("svg.grid:not(:has(rect))").forEach(nameCells);
  };
  details.addEventListener("toggle", name);
}
// A click on the link that is already the address opens its gate again.
body.addEventListener("click", (event) => {
  if (event.target.closest("a")) setTimeout(openTarget);
});
addEventListener("hashchange", openTarget);
controls.hidden = false;
openTarget();
