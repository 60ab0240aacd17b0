// The review page: read the audit, fill the header, and connect list, filters, dialogs and keyboard.
"use strict";

const count = (n) => new Intl.NumberFormat("en").format(n);

function readAudit() {
  const audit = JSON.parse($("#audit-data").textContent);
  Object.assign(audit, audit.rows);
  audit.classIndex = new Map(audit.names.map((name, k) => [name, k]));
  audit.rowOf = new Map(audit.id.map((id, row) => [id, row]));
  audit.neighbourOf = new Map(audit.neighbours.map((id, i) => [id, i]));
  audit.tall = needsTallRows(audit);
  audit.searchable = audit.path.map((path) => path.toLowerCase());
  return audit;
}

// Photographs, and rows with more images than prototypes, need higher rows.
function needsTallRows(audit) {
  const { width, height } = audit.tiles.images;
  return Math.max(width, height) > SMALL_IMAGE || audit.like_given !== undefined || audit.summary.prototypes === "typical";
}

function decisionSummary(records) {
  const words = { keep: "kept", relabel: "relabelled", drop: "dropped", unsure: "unsure" };
  const numbers = DECISIONS.map((d) => [words[d], records.filter((r) => r.decision === d).length]);
  return numbers.filter(([, n]) => n).map(([word, n]) => `${count(n)} ${word}`).join(" · ");
}

function renderHeader(audit) {
  const { data, images, models, model, seconds, expected_errors: expected, flags } = audit.summary;
  $("#title").textContent = audit.title;
  const facts = [data, `${count(images)} images`, `${models} ${models === 1 ? "model" : "models"} (${model})`, `${count(Math.round(seconds))} s`];
  $("#subtitle").textContent = facts.filter((fact) => fact && fact !== audit.title).join(" · ");
  const tile = (term, value, kind) => el("div", { class: `tile ${kind}` }, el("dt", {}, term), el("dd", {}, value));
  const short = { "ambiguous: two labels": "ambiguous", "none of the classes": "none of them" };
  $("#tiles").append(tile("expected errors", `≈ ${count(Math.round(expected))}`, "expected"),
    ...Object.entries(flags).map(([flag, n]) => tile(short[flag] ?? flag, count(n), FLAG_KIND[flag] ?? "none")));
}

function renderDuplicates({ duplicates }) {
  if (!duplicates?.pairs) return;
  const { pairs, labels_differ: differ } = duplicates;
  const both = pairs === 1 ? (differ ? ", with different labels" : ", with the same label") : `; ${count(differ)} of them with different labels`;
  $("#duplicates").textContent = `${count(pairs)} ${pairs === 1 ? "pair" : "pairs"} of near-duplicate images${both}: see duplicates.csv.`;
  $("#duplicates").hidden = false;
}

function renderProgress(audit, store) {
  const here = audit.id.map((id) => store.get(id)).filter(Boolean);
  const carried = store.records.size - here.length;
  $("#progress-count").textContent = `${count(here.length)} of ${count(audit.id.length)} decided`;
  $("#progress-detail").textContent = [decisionSummary(here), carried ? `${count(carried)} imported, not on this page` : ""].filter(Boolean).join(" · ");
  const track = $("#progress-track");
  track.setAttribute("aria-valuemax", audit.id.length);
  track.setAttribute("aria-valuenow", here.length);
  track.replaceChildren(...DECISIONS.map((decision) => {
    const part = el("i", { class: decision });
    part.style.width = `${(100 * here.filter((r) => r.decision === decision).length) / Math.max(1, audit.id.length)}%`;
    return part;
  }));
}

function renderCount(audit, shown) {
  const all = audit.id.length;
  const within = audit.summary.images > all ? `, the most doubtful of ${count(audit.summary.images)}` : "";
  $("#count").replaceChildren(el("b", {}, count(shown)), shown === all ? ` images${within}` : ` of ${count(all)} images${within}`);
  $("#empty").hidden = shown > 0;
}

function showBanner(text) {
  $("#banner").textContent = text;
  $("#banner").hidden = false;
}

function createAnnouncer() {
  let timer = 0;
  return (text) => {
    clearTimeout(timer);
    $("#toast").textContent = text;
    $("#toast").classList.add("visible");
    timer = setTimeout(() => $("#toast").classList.remove("visible"), 2600);
  };
}

function setUpTheme() {
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("hitnet-theme"); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  $("#theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("hitnet-theme", root.dataset.theme); } catch { /* without storage, the choice lasts until the page is closed */ }
  });
}

function openSide(open) {
  $("#side").classList.toggle("open", open);
  $("#open-filters").setAttribute("aria-expanded", String(open));
}

// In a narrow window, the sidebar is a drawer.
function setUpSide() {
  $("#open-filters").addEventListener("click", () => openSide(!$("#side").classList.contains("open")));
  $("main").addEventListener("mousedown", () => openSide(false));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") openSide(false); });
}

function start() {
  const audit = readAudit();
  const app = { audit, announce: createAnnouncer(), store: createStore(audit, showBanner), unsaved: false };
  app.thumbs = Object.fromEntries(Object.entries(audit.tiles).map(([group, spec]) => [group, createThumbs(group, spec)]));
  $("#list").classList.toggle("tall", audit.tall);
  $("#list").classList.toggle("with-neighbours", audit.like_given !== undefined);
  app.list = createList({ build: (row) => buildRow(audit, app.thumbs, row, app.store.get(audit.id[row]), (key) => act(app, key)), moved: () => renderZoom(app) });
  app.filters = createFilters(audit, app.store, () => refresh(app, app.list.current(), false));
  app.picker = createPicker(audit, app.thumbs, (row, k) => decide(app, row, k === audit.given[row] ? "keep" : "relabel", k));
  app.exporter = createExport(app.store, app.announce, () => { app.unsaved = false; });
  createImport(audit, app.store, (ids) => {
    app.announce(`${count(ids.length)} decisions imported.`);
    refresh(app, app.list.current());
  });
  app.actions = createActions(app);
  renderHeader(audit);
  renderDuplicates(audit.summary);
  setUpTheme();
  setUpSide();
  setUpDialogs(audit);
  setUpKeyboard(app);
  setUpWindow(app);
  app.store.save(); // warn at once if the browser cannot store decisions
  refresh(app, 0);
}

// Another window may show the same audit: keep the decisions of both windows the same.
function setUpWindow(app) {
  $("#clear-filters").addEventListener("click", app.filters.clear);
  $("#zoom").addEventListener("close", () => app.list.move(0));
  window.addEventListener("storage", (event) => {
    if (event.key !== app.store.key) return;
    app.store.load();
    refresh(app, app.list.current(), false);
  });
  window.addEventListener("beforeunload", (event) => {
    if (app.unsaved && !$("#banner").hidden) event.preventDefault();
  });
}

start();
