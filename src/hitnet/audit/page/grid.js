// The grid: small cards, grouped by given → suggested, and selecting many of them.
"use strict";

const DRAG = 6; // pixels; less is a click

function buildCard(app, row, position) {
  const { audit } = app;
  const id = audit.id[row], record = app.store.get(id), selected = app.selection.has(row);
  const given = audit.names[audit.given[row]], suggested = audit.names[audit.suggested[row]];
  const state = record ? `, ${decidedText(record.decision, record.label)}` : "";
  return el("article", {
    class: `card ${record ? `decided ${record.decision}` : ""} ${selected ? "selected" : ""} ${app.store.pending.has(id) ? "saving" : ""} ${record?.disputed ? "disputed" : ""}`,
    "data-id": id, "data-position": position, "aria-selected": String(selected), role: "option",
    "aria-label": `Image ${id}, given ${given}, suggested ${suggested}, score ${audit.score[row].toFixed(2)}${state}`,
    title: `#${id} ${audit.path[row]}`,
    ondblclick: () => act(app, "Enter"),
  },
  app.thumbs.of(id, ""),
  el("span", { class: "card-score" }, audit.score[row].toFixed(2)),
  record ? el("span", { class: "card-state" }, record.label || DECIDED[record.decision]) : null);
}

// The heading of a group. Where it has little room, it has only the main button, and keys for the rest.
function buildHeading(app, group, width) {
  const { names } = app.audit, { given, suggested, count: images, undecided, wrong } = group;
  const same = given === suggested, none = undecided === 0, pair = `${names[given]} to ${names[suggested]}`;
  const button = (text, decision, extra = {}) => el("button", { type: "button", "aria-label": `${text}: ${pair}`, title: text, disabled: none,
    onclick: () => decideGroup(app, group, decision), ...extra }, text);
  const narrow = width < 200, wide = width > 480;
  const errors = `about ${roughly(wrong)} ${roughly(wrong) === "1" ? "is" : "are"} wrong`;
  const whole = `Relabel ${count(undecided)} as ${names[suggested]}; ${errors}`;
  const relabel = narrow ? "Relabel" : width > 340 ? whole : `Relabel ${count(undecided)}; ≈ ${roughly(wrong)} wrong`;
  return el("div", { class: "heading", role: "group", "aria-label": pair },
    el("h2", {}, nameOf(names[given], "given"), same ? null : el("span", { class: "arrow", "aria-label": "suggested" }, "→"), same ? null : nameOf(names[suggested], "suggested"),
      narrow ? null : el("small", {}, none ? `${count(images)}, all decided` : `${count(undecided)} of ${count(images)} to decide`)),
    el("div", { class: "heading-buttons" },
      same ? button(narrow ? "Keep" : `Keep ${count(undecided)}; ${errors}`, "keep") : button(none ? "All decided" : relabel, "relabel", { class: "accept", title: none ? "" : whole }),
      same || !wide ? null : button("Keep all", "keep"),
      same || !wide ? null : button("Neither fits", "neither"),
      wide ? button("Select all", "select", { disabled: false }) : null));
}

// The selected images: row → id.
function createSelection(app) {
  const rows = new Map();
  let anchor = null, adding = 0;

  function changed() {
    $("#selection").hidden = rows.size === 0;
    $("#selection-count").textContent = `${count(rows.size)} selected`;
    app.view.each((node, row) => {
      node.classList.toggle("selected", rows.has(row));
      node.setAttribute("aria-selected", String(rows.has(row)));
    });
  }

  function put(positions, on) {
    for (const position of positions) {
      const row = app.view.order().row(position);
      if (row === undefined) continue;
      if (on) rows.set(row, app.audit.id[row]);
      else rows.delete(row);
    }
  }

  function toggle(position) {
    anchor = position;
    put([position], !rows.has(app.view.order().row(position)));
    changed();
  }

  function extend(position) {
    const from = anchor ?? app.view.position();
    anchor = from;
    return add(Array.from({ length: Math.abs(position - from) + 1 }, (_, i) => Math.min(from, position) + i));
  }

  // What the page does not hold yet comes from the server first.
  async function add(positions) {
    const order = app.view.order();
    adding += 1;
    for await (const part of order.parts(positions)) {
      if (order !== app.view.order()) break; // other images stand there now
      put(part, true);
      changed();
    }
    adding -= 1;
  }

  function clear() {
    anchor = null;
    if (!rows.size) return false;
    rows.clear();
    changed();
    return true;
  }

  return { toggle, extend, add, clear, forget: () => { rows.clear(); anchor = null; $("#selection").hidden = true; },
    has: (row) => rows.has(row), rows: () => [...rows.keys()], size: () => rows.size, isAdding: () => adding > 0 };
}

// Click selects one, Shift-click all up to it, and dragging draws a rectangle around many.
function setUpDragging(app) {
  const { view, selection } = app;
  let start = null, band = null;
  const positionOf = (target) => { const card = target.closest?.(".card"); return card ? Number(card.dataset.position) : null; };

  view.rows.addEventListener("pointerdown", (event) => {
    if (!app.asGrid || event.button !== 0 || event.target.closest("button")) return;
    start = { ...view.at(event.clientX, event.clientY), x0: event.clientX, y0: event.clientY, position: positionOf(event.target), shift: event.shiftKey };
  });
  window.addEventListener("pointermove", (event) => {
    if (!start) return;
    if (!band && Math.hypot(event.clientX - start.x0, event.clientY - start.y0) < DRAG) return;
    band ??= view.rows.appendChild(el("div", { class: "band", "aria-hidden": "true" }));
    band.place = Infinity;
    const edge = $("#list").getBoundingClientRect();
    if (event.clientY < edge.top + 20) $("#list").scrollTop -= 24;
    if (event.clientY > edge.bottom - 20) $("#list").scrollTop += 24;
    const area = rectangle(start, view.at(event.clientX, event.clientY));
    band.style.transform = `translate(${area.left}px, ${area.top}px)`;
    band.style.width = `${area.right - area.left}px`;
    band.style.height = `${area.bottom - area.top}px`;
    const touched = new Set(view.layout().within(area));
    view.each((node, row, position) => node.classList.toggle("touched", touched.has(position)));
  });
  window.addEventListener("pointerup", (event) => {
    if (!start) return;
    const begun = start, dragged = band;
    start = band = null;
    dragged?.remove();
    view.each((node) => node.classList.remove("touched"));
    if (dragged) selection.add(view.layout().within(rectangle(begun, view.at(event.clientX, event.clientY))));
    else if (begun.position !== null && begun.shift) selection.extend(begun.position);
    else if (begun.position !== null) selection.toggle(begun.position);
  });
}

function rectangle(a, b) {
  return { left: Math.min(a.x, b.x), right: Math.max(a.x, b.x), top: Math.min(a.y, b.y), bottom: Math.max(a.y, b.y) };
}

function setUpGrid(app) {
  setUpDragging(app);
  $("#as-list").addEventListener("click", () => showAs(app, false));
  $("#as-grid").addEventListener("click", () => showAs(app, true));
  for (const button of document.querySelectorAll("#selection [data-key]")) {
    button.addEventListener("click", () => act(app, button.dataset.key));
  }
  $("#selection-clear").addEventListener("click", () => app.selection.clear());
}

// Switch between list and grid; the current image stays the current one.
async function showAs(app, grid) {
  if (app.asGrid === grid) return;
  if (grid && isBlind(app)) return app.announce("For the count, judge one image after the other.");
  const row = app.view.current();
  app.asGrid = grid;
  app.memory.keep({ asGrid: grid });
  app.selection.forget();
  $("#list").classList.toggle("grid", grid);
  $("#rows").setAttribute("role", grid ? "listbox" : "feed");
  if (grid) $("#rows").setAttribute("aria-multiselectable", "true");
  else $("#rows").removeAttribute("aria-multiselectable");
  $("#as-list").setAttribute("aria-pressed", String(!grid));
  $("#as-grid").setAttribute("aria-pressed", String(grid));
  await refresh(app, row === undefined ? null : app.audit.id[row]);
}
