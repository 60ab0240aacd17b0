// Actions: decide, undo, move; by key, or by buttons that send the same keys.
"use strict";

const idOf = (app) => { const row = app.view.current(); return row === undefined ? null : app.audit.id[row]; };

// Ask for the order again and show it, with the cursor on the image `id`.
async function refresh(app, id, { focus = true } = {}) {
  const before = idOf(app);
  let order;
  try {
    order = await app.source.order(app.filters.chosen(), app.asGrid, id);
  } catch (error) {
    return showBanner(error.message);
  }
  if (order === null) return;
  if (idOf(app) !== before) return refresh(app, idOf(app), { focus }); // who has moved on meanwhile stays there
  renderCount(app.audit, order.length);
  renderProgress(app.audit, app.store);
  app.view.show(order, order.position, { focus });
}

// After a decision: move on at once, wait until it is saved, and then show it.
async function commit(app, work, next, message) {
  app.view.moveTo(next);
  try {
    const saving = work();
    app.view.redraw();
    await saving;
  } catch (error) {
    app.view.redraw();
    return showBanner(`Not saved: ${error.message}`, "unsaved");
  }
  hideBanner("unsaved");
  app.unsaved = true;
  app.announce(message());
  if (app.source.follows(app.filters.chosen(), app.asGrid)) return refresh(app, idOf(app));
  renderProgress(app.audit, app.store);
  app.view.redraw();
}

// Decide on several images in one step; `classOf` gives the new class of a row, which means keep if it is the given one.
function decide(app, rows, decision, classOf = () => null) {
  const { audit, store, view } = app;
  const changes = rows.map((row) => {
    const k = classOf(row);
    return [audit.id[row], k === audit.given[row] ? "keep" : decision, k === null || k === audit.given[row] ? "" : audit.names[k]];
  });
  const [id, ...outcome] = changes[0];
  const message = () => (changes.length === 1 ? `#${id}: ${decidedText(...outcome)}` : `${plural(changes.length, "decision")} saved. u undoes them all.`);
  const next = app.selection.size() ? view.position() : view.next();
  app.selection.forget();
  return commit(app, () => store.change(changes), next, message);
}

function takeSuggestion(app, rows) {
  const { audit } = app;
  if (isBlind(app)) return app.announce("The count shows no suggestions: 3 chooses another class.");
  const differ = rows.filter((row) => audit.suggested[row] !== audit.given[row]);
  if (!differ.length) return app.announce("The suggestion is the given label: 1 keeps it, 3 chooses another class.");
  const wrong = expectedErrors(audit, differ), right = differ.length - wrong;
  const relabel = () => decide(app, differ, "relabel", (row) => audit.suggested[row]);
  if (differ.length === 1 || wrong >= right) return relabel();
  return ask(`Relabel ${count(differ.length)} images as suggested? About ${roughly(wrong)} of their labels are wrong, but ${roughly(right)} are right and would become wrong.`, "Relabel all the same", relabel);
}

// Decide on all images of a group that nobody has decided on yet.
function decideGroup(app, group, decision) {
  if (decision === "select") return app.selection.add(Array.from({ length: group.count }, (_, i) => group.start + i));
  const query = queryOf(app.filters.chosen(), false);
  return commit(app, () => app.store.changeGroup(query, group, decision), app.view.position(), () => `${plural(group.undecided, "decision")} saved. u undoes them all.`);
}

function undecide(app, rows) {
  const ids = rows.map((row) => app.audit.id[row]).filter((id) => app.store.get(id));
  if (!ids.length) return app.announce("This image has no decision.");
  app.selection.forget();
  return commit(app, () => app.store.change(ids.map((id) => [id, "none", ""])), app.view.position(), () => (ids.length === 1 ? `#${ids[0]}: decision removed` : `${count(ids.length)} decisions removed`));
}

async function undo(app, name) {
  let changed;
  try {
    changed = await app.store.undo(name);
  } catch (error) {
    return app.announce(error.message);
  }
  const { images, first } = changed, back = name !== undefined;
  app.announce(back ? `Changed: ${plural(images, "decision")}` : images === 1 ? `Undone: #${first}` : `Undone: ${count(images)} decisions`);
  await refresh(app, first ?? idOf(app));
}

function renderZoom(app) {
  const row = app.view.current();
  if (!$("#zoom").open || row === undefined) return;
  $("#zoom-body").replaceChildren(buildZoom(app, row));
  if (app.audit.server) renderEvidence(app, row);
}

// Show another image in the large view; filters that hide it go.
async function openImage(app, id) {
  app.back = idOf(app);
  await refresh(app, id);
  if (idOf(app) === id) return;
  app.filters.clear();
  await refresh(app, id);
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

// The images that a key decides on: those selected, or the current one. Nobody should decide on what is out of sight.
function onSeen(app, action) {
  return () => {
    const row = app.view.current();
    if (app.selection.isAdding()) return app.announce("The images that you select are still loading. Press the key again.");
    if (app.selection.size() && !$("#zoom").open) return action(app, app.selection.rows());
    if (row === undefined) return;
    if (app.view.inSight() || $("#zoom").open) return action(app, [row]);
    app.view.move(0);
    app.announce("Scrolled back to the current image. Press the key again to decide.");
  };
}

function createActions(app) {
  const { view, selection } = app;
  const seen = (action) => onSeen(app, action);
  const go = (right, down) => ({ shift }) => {
    const position = Math.max(0, Math.min(view.end(), view.step(right, down)));
    if (shift && app.asGrid) selection.extend(position);
    view.moveTo(position);
  };
  const inGrid = (action) => () => { if (app.asGrid) action(); };
  const groupHere = () => view.order().groups.find((group) => group.start <= view.position() && view.position() < group.start + group.count);
  return {
    1: seen((_, rows) => decide(app, rows, "keep")),
    2: seen(takeSuggestion),
    3: seen((_, rows) => app.picker.open(rows)),
    4: seen((_, rows) => decide(app, rows, "drop")),
    5: seen((_, rows) => decide(app, rows, "unsure")),
    6: seen((_, rows) => decide(app, rows, "neither")),
    0: seen(undecide),
    u: () => undo(app),
    h: () => openHistory(app),
    g: () => showAs(app, !app.asGrid),
    a: inGrid(() => { const group = groupHere(); if (group) decideGroup(app, group, "select"); }),
    " ": inGrid(() => selection.toggle(view.position())),
    Enter: seen(toggleZoom),
    e: app.exporter.open,
    "/": search,
    "?": () => $("#help").showModal(),
    j: go(0, 1),
    k: go(0, -1),
    ArrowDown: go(0, 1),
    ArrowUp: go(0, -1),
    ArrowRight: (event) => { if (app.asGrid) go(1, 0)(event); },
    ArrowLeft: (event) => { if (app.asGrid) go(-1, 0)(event); },
    PageDown: () => (app.asGrid ? view.moveTo(view.step(0, view.page())) : view.move(view.page())),
    PageUp: () => (app.asGrid ? view.moveTo(view.step(0, -view.page())) : view.move(-view.page())),
    Home: () => view.moveTo(0),
    End: () => view.moveTo(view.end()),
  };
}

function act(app, key, { shift = false } = {}) {
  if (Object.hasOwn(app.actions, key)) return app.actions[key]({ shift });
}

function setUpKeyboard(app) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const dialog = [...document.querySelectorAll("dialog[open]")].pop();
    if (dialog && dialog.id !== "zoom") return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape" && event.target.id === "search") {
        event.preventDefault();
        event.target.value = "";
        app.filters.set({ text: "" });
      }
      if (event.key === "Escape" || (event.key === "Enter" && event.target.id === "search")) app.view.move(0);
      return;
    }
    if (event.key === "Escape" && !dialog) app.selection.clear();
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("button")) return;
    if (!Object.hasOwn(app.actions, event.key)) return;
    event.preventDefault();
    act(app, event.key, { shift: event.shiftKey });
  });
}
