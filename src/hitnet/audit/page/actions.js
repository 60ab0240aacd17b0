// Actions: decide, undo, move; by key, or by buttons that send the same keys.
"use strict";

function refresh(app, row, focus = true) {
  const order = app.filters.rows();
  renderCount(app.audit, order.length);
  renderProgress(app.audit, app.store);
  app.list.show(order, row, { focus });
}

function decide(app, row, decision, k) {
  const { audit, store, list } = app;
  const label = decision === "relabel" ? audit.names[k] : "";
  const next = list.next();
  store.change([[audit.id[row], { path: audit.path[row], given: audit.names[audit.given[row]], decision, label }]]);
  app.unsaved = true;
  const done = { keep: "kept", relabel: `relabelled to ${label}`, drop: "dropped", unsure: "marked as unsure" };
  app.announce(`#${audit.id[row]}: ${done[decision]}`);
  refresh(app, next);
}

function takeSuggestion(app, row) {
  const { audit } = app;
  if (audit.suggested[row] !== audit.given[row]) decide(app, row, "relabel", audit.suggested[row]);
  else app.announce("The suggestion is the given label: 1 keeps it, 3 chooses another class.");
}

function undecide(app, row) {
  const id = app.audit.id[row];
  if (!app.store.get(id)) return app.announce("This image has no decision.");
  app.store.change([[id, undefined]]);
  app.announce(`#${id}: decision removed`);
  refresh(app, row);
}

function undo(app) {
  const ids = app.store.undo();
  if (!ids) return app.announce("Nothing to undo.");
  app.announce(ids.length === 1 ? `Undone: #${ids[0]}` : `Undone: ${count(ids.length)} decisions`);
  refresh(app, app.audit.rowOf.get(ids[0]) ?? app.list.current());
}

function renderZoom(app) {
  const row = app.list.current();
  if (!$("#zoom").open || row === undefined) return;
  const record = app.store.get(app.audit.id[row]);
  $("#zoom-body").replaceChildren(buildZoom(app.audit, app.thumbs, row, record, (key) => act(app, key)));
}

function toggleZoom(app) {
  if ($("#zoom").open) return $("#zoom").close();
  $("#zoom").showModal();
  renderZoom(app);
}

function search() {
  openSide(true);
  $("#search").focus();
  $("#search").select();
}

// Run an action only if the current image is visible: nobody should decide on an image that is scrolled out of sight.
function onSeen(app, action) {
  return () => {
    const row = app.list.current();
    if (row === undefined) return;
    if (app.list.inSight() || $("#zoom").open) return action(app, row);
    app.list.move(0);
    app.announce("Scrolled back to the current image. Press the key again to decide.");
  };
}

function createActions(app) {
  const { list } = app;
  const seen = (action) => onSeen(app, action);
  return {
    1: seen((_, row) => decide(app, row, "keep")),
    2: seen(takeSuggestion),
    3: seen((_, row) => app.picker.open(row)),
    4: seen((_, row) => decide(app, row, "drop")),
    5: seen((_, row) => decide(app, row, "unsure")),
    0: seen(undecide),
    u: () => undo(app),
    Enter: seen(toggleZoom),
    e: app.exporter.open,
    "/": search,
    "?": () => $("#help").showModal(),
    j: () => list.move(1),
    k: () => list.move(-1),
    ArrowDown: () => list.move(1),
    ArrowUp: () => list.move(-1),
    PageDown: () => list.move(list.page()),
    PageUp: () => list.move(-list.page()),
    Home: () => list.moveTo(0),
    End: () => list.moveTo(list.end()),
  };
}

function act(app, key) {
  if (Object.hasOwn(app.actions, key)) app.actions[key]();
}

function setUpKeyboard(app) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const dialog = [...document.querySelectorAll("dialog[open]")].pop();
    if (dialog && dialog.id !== "zoom") return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape" || (event.key === "Enter" && event.target.id === "search")) app.list.move(0);
      return;
    }
    if (event.key === "Enter" && event.target.matches("button")) return;
    if (!Object.hasOwn(app.actions, event.key)) return;
    event.preventDefault();
    act(app, event.key);
  });
}
