// The head of the page: figures, progress, what is left, and notices.
"use strict";

function decisionSummary(counts) {
  return DECISIONS.filter((decision) => counts[decision]).map((decision) => `${count(counts[decision])} ${DECIDED[decision]}`).join(" · ");
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
  renderDuplicates(audit.summary.duplicates);
}

function renderDuplicates(duplicates) {
  if (!duplicates?.pairs) return;
  const { pairs, labels_differ: differ } = duplicates;
  const both = pairs === 1 ? (differ ? ", with different labels" : ", with the same label") : `; ${count(differ)} of them with different labels`;
  $("#duplicates").textContent = `${count(pairs)} ${pairs === 1 ? "pair" : "pairs"} of near-duplicate images${both}: see duplicates.csv.`;
  $("#duplicates").hidden = false;
}

function renderProgress(audit, store) {
  const counts = store.counts(), { images } = audit;
  const decided = DECISIONS.reduce((sum, decision) => sum + (counts[decision] ?? 0), 0);
  $("#progress-count").textContent = `${count(decided)} of ${count(images)} decided`;
  $("#progress-detail").textContent = [decisionSummary(counts), counts.carried ? `${count(counts.carried)} imported, not on this page` : "", counts.disputed ? `${count(counts.disputed)} disputed` : ""].filter(Boolean).join(" · ");
  const track = $("#progress-track");
  track.setAttribute("aria-valuemax", images);
  track.setAttribute("aria-valuenow", decided);
  track.replaceChildren(...DECISIONS.map((decision) => {
    const part = el("i", { class: decision });
    part.style.width = `${(100 * (counts[decision] ?? 0)) / Math.max(1, images)}%`;
    return part;
  }));
}

function renderCount(audit, shown) {
  const all = audit.images;
  const within = audit.summary.images > all ? `, the most doubtful of ${count(audit.summary.images)}` : "";
  $("#count").replaceChildren(el("b", {}, count(shown)), shown === all ? ` images${within}` : ` of ${count(all)} images${within}`);
  $("#empty").hidden = shown > 0;
}

// Very long lists have pages: browsers cannot lay out all of them at once.
function renderPager(app, base, end, length) {
  $("#pager").hidden = length <= LARGEST_PAGE;
  $("#pager-text").textContent = `${count(base + 1)} to ${count(end)}`;
  $("#pager-before").disabled = base === 0;
  $("#pager-after").disabled = end >= length;
  app.pages = { before: base - LARGEST_PAGE, after: end };
}

// What the server says of the review: how many errors were found and are left, and how far people agree.
function renderState(app, state) {
  renderProgress(app.audit, app.store);
  renderCounted(app, state.counted);
  const errors = ["relabel", "drop", "neither"].reduce((sum, decision) => sum + (state.counts[decision] ?? 0), 0);
  $(".tile.expected dd").textContent = `≈ ${count(errors + Math.round(state.left[0]))}`;
  const left = leftText(app.audit, errors, state.left);
  const pairs = state.agreement.map(({ reviewers, images, agree, kappa }) =>
    `${reviewers.join(" and ")} agree on ${count(agree)} of ${plural(images, "image")}${kappa === null ? "" : ` (kappa ${kappa.toFixed(2)})`}`);
  $("#review-state").textContent = [left, ...pairs].filter(Boolean).join(" · ");
  $("#review-state").hidden = !left && !pairs.length;
}

// From the first decision on; the tile shows the sum of both numbers.
function leftText(audit, found, [expected, unseen]) {
  if (unseen === audit.summary.images) return "";
  const errors = Math.round(expected);
  return `${plural(found, "wrong label")} found, about ${count(errors)} ${errors === 1 ? "is" : "are"} left among ${plural(unseen, "image")} not yet decided`;
}

// That something is not saved stays there until a later step is saved; other trouble, until the server answers.
function showBanner(text, kind = "trouble") {
  const banner = $("#banner");
  if (!banner.hidden && banner.dataset.kind === "unsaved" && kind !== "unsaved") return;
  banner.textContent = text;
  banner.dataset.kind = kind;
  banner.hidden = false;
}

function hideBanner(kind) {
  if ($("#banner").dataset.kind === kind) $("#banner").hidden = true;
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
