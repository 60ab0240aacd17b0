// The review page: read the audit, and connect view, filters, dialogs and keyboard.
"use strict";

function readAudit() {
  const audit = JSON.parse($("#audit-data").textContent);
  Object.assign(audit, audit.rows, { rowOf: new Map() });
  audit.classIndex = new Map(audit.names.map((name, k) => [name, k]));
  audit.id?.forEach((id, row) => audit.rowOf.set(id, row));
  // Photographs, and rows with more images than prototypes, need higher rows.
  audit.tall = audit.server || Math.max(...audit.size) > SMALL_IMAGE || audit.with_neighbours || audit.summary.prototypes === "typical";
  return audit;
}

function start() {
  const audit = readAudit();
  const memory = createMemory(`hitnet-view:${audit.fingerprint ?? ""}`);
  const app = { audit, memory, announce: createAnnouncer(), unsaved: false, asGrid: false, thumbs: createThumbs(audit), back: null };
  const refreshed = () => refresh(app, idOf(app), { focus: false });
  app.server = audit.server ? createRemoteServer() : createLocalServer(audit, { onTrouble: showBanner, onChange: refreshed });
  app.store = createStore(app.server, (state) => renderState(app, state));
  app.source = createSource(audit, app.server, app.store, (row) => app.selection.has(row), () => app.view.redraw(), showBanner);
  $("#list").classList.toggle("tall", audit.tall);
  $("#list").classList.toggle("with-neighbours", audit.with_neighbours);
  app.view = createView({
    build: (row, position) => (app.asGrid ? buildCard(app, row, position) : buildRow(app, row)),
    heading: (group, width) => buildHeading(app, group, width),
    moved: () => renderZoom(app),
    asGrid: () => app.asGrid,
    paged: (base, end, length) => renderPager(app, base, end, length),
  });
  app.selection = createSelection(app);
  app.filters = createFilters(audit, memory, () => { app.selection.forget(); if (!hideOpinions(app)) refreshed(); });
  app.picker = createPicker(audit, app.thumbs, (rows, k) => decide(app, rows, "relabel", () => k));
  app.exporter = createExport(app);
  createImport(app);
  app.actions = createActions(app);
  renderHeader(audit);
  setUpTheme();
  setUpSide();
  setUpDialogs(audit);
  setUpGrid(app);
  setUpKeyboard(app);
  setUpWindow(app);
  if (audit.server) setUpPolling(app);
  else app.server.ask("state").then(app.store.stateOf);
  if (audit.server) $("#count-start").addEventListener("click", () => startCount(app));
  if (audit.counting) app.filters.set({ state: "drawn" });
  else if (memory.read().asGrid) showAs(app, true);
  else refresh(app, null);
}

function setUpWindow(app) {
  $("#clear-filters").addEventListener("click", app.filters.clear);
  $("#zoom").addEventListener("close", () => { app.back = null; app.view.move(0); });
  $("#open-history").addEventListener("click", () => openHistory(app));
  $("#pager-before").addEventListener("click", () => app.view.moveTo(app.pages.before));
  $("#pager-after").addEventListener("click", () => app.view.moveTo(app.pages.after));
  window.addEventListener("beforeunload", (event) => {
    if (!app.audit.server && app.unsaved && !$("#banner").hidden) event.preventDefault();
  });
}

start();
