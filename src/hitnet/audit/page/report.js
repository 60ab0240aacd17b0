// The review page: read the audit, and connect view, filters, dialogs and keyboard; with the review server or without.
"use strict";

function readAudit() {
  const audit = JSON.parse($("#audit-data").textContent);
  if (audit.server) return readRemoteAudit(audit);
  Object.assign(audit, audit.rows);
  audit.classIndex = new Map(audit.names.map((name, k) => [name, k]));
  audit.rowOf = new Map(audit.id.map((id, row) => [id, row]));
  audit.neighbourOf = new Map(audit.neighbours.map((id, i) => [id, i]));
  audit.flag_counts = audit.flags.map((_, f) => audit.flag.filter((flag) => flag === f).length);
  audit.tall = needsTallRows(audit);
  audit.searchable = audit.path.map((path) => path.toLowerCase());
  return audit;
}

// Photographs, and rows with more images than prototypes, need higher rows.
function needsTallRows(audit) {
  const { width, height } = audit.tiles.images;
  return Math.max(width, height) > SMALL_IMAGE || audit.like_given !== undefined || audit.summary.prototypes === "typical";
}

// Where rows, decisions and pictures come from.
function connect(app) {
  const { audit } = app;
  app.store = audit.server ? createRemoteStore(audit, (state) => renderState(app, state)) : createStore(audit, showBanner);
  app.thumbs = audit.server ? createRemoteThumbs() : createThumbs(audit);
  app.source = audit.server ? createRemoteSource(audit, app.store, (row) => app.selection.has(row), () => app.view.redraw(), showBanner) : createSource(audit, app.store);
}

function start() {
  const audit = readAudit();
  const app = { audit, announce: createAnnouncer(), unsaved: false, asGrid: false };
  connect(app);
  $("#list").classList.toggle("tall", audit.tall);
  $("#list").classList.toggle("with-neighbours", audit.like_given !== undefined);
  app.view = createView({
    build: (row, position) => (app.asGrid ? buildCard(app, row, position)
      : buildRow(audit, app.thumbs, row, app.store.get(audit.id[row]), (key) => act(app, key), app.store.pending.has(audit.id[row]))),
    heading: (group) => buildHeading(app, group),
    moved: () => renderZoom(app),
    asGrid: () => app.asGrid,
    paged: (base, end, length) => renderPager(app, base, end, length),
  });
  app.selection = createSelection(app);
  app.filters = createFilters(audit, app.source, () => { app.selection.forget(); refresh(app, idOf(app), { focus: false }); });
  app.picker = createPicker(audit, app.thumbs, (rows, k) => decide(app, rows, "relabel", () => k));
  app.exporter = createExport(app.store, app.announce, () => { app.unsaved = false; });
  createImport(audit, app.store, (images) => {
    app.announce(`${plural(images, "decision")} imported.`);
    refresh(app, idOf(app));
  });
  app.actions = createActions(app);
  renderHeader(audit);
  renderDuplicates(audit.summary);
  setUpTheme();
  setUpSide();
  setUpDialogs(audit);
  setUpGrid(app);
  setUpKeyboard(app);
  setUpWindow(app);
  if (audit.server) setUpPolling(app);
  else app.store.save(); // warn at once if the browser cannot store decisions
  refresh(app, null);
}

// Another window may show the same audit: keep the decisions of both windows the same.
function setUpWindow(app) {
  $("#clear-filters").addEventListener("click", app.filters.clear);
  $("#zoom").addEventListener("close", () => app.view.move(0));
  $("#open-history").addEventListener("click", () => openHistory(app));
  $("#new-order").addEventListener("click", () => takeNewOrder(app));
  $("#pager-before").addEventListener("click", () => app.view.moveTo(app.pages.before));
  $("#pager-after").addEventListener("click", () => app.view.moveTo(app.pages.after));
  if (app.audit.server) return;
  window.addEventListener("storage", (event) => {
    if (event.key !== app.store.key) return;
    app.store.load();
    refresh(app, idOf(app), { focus: false });
  });
  window.addEventListener("beforeunload", (event) => {
    if (app.unsaved && !$("#banner").hidden) event.preventDefault();
  });
}

start();
