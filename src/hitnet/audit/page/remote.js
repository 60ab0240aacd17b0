// The review server: rows come from it when they are needed, and decisions go to it.
"use strict";

const BLOCK = 100; // rows per request
const HELD = 4_000; // rows that the page holds
const POLL = 3_000; // milliseconds
const REMOTE_COLUMNS = ["id", "path", "given", "suggested", "score", "votes", "flag", "rule", "ghost", "near", "near_distance",
  "margin_mean", "margin_std", "ghost_distance", "hits", "models", "like_given", "like_suggested"];

async function fetched(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Error("The review server does not answer. Is `hitnet review` still running?");
  }
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

const ask = async (path, options) => (await fetched(path, options)).json();
const tell = (path, body) => ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

function readRemoteAudit(audit) {
  for (const column of REMOTE_COLUMNS) audit[column] = {};
  if (!audit.with_neighbours) audit.like_given = audit.like_suggested = undefined;
  audit.classIndex = new Map(audit.names.map((name, k) => [name, k]));
  audit.rowOf = new Map();
  audit.tall = true;
  audit.version = 0;
  return audit;
}

// What the server knows of the decisions; `records` holds those of the rows that the page holds.
function createRemoteStore(audit, onState) {
  const records = new Map(), pending = new Set();
  let counts = {}, changed = null;

  function take(entries) {
    for (const [id, record] of entries) {
      if (record) records.set(id, record);
      else records.delete(id);
    }
  }

  function stateOf(state) {
    counts = state.counts;
    changed = state.changed;
    onState(state);
  }

  // The page shows a decision as saved only after the server has it on disk.
  async function send(path, body, ids = []) {
    for (const id of ids) pending.add(id);
    try {
      const answer = await tell(path, body);
      take(answer.records);
      stateOf(answer);
      return { images: answer.images, first: answer.records[0]?.[0] }; // records are those of the first few hundred
    } finally {
      for (const id of ids) pending.delete(id);
    }
  }

  return {
    records, pending, take, stateOf, save() {}, load() {},
    get: (id) => records.get(id),
    counts: () => counts,
    changed: () => changed,
    change: (entries) => send("/api/decide", { changes: entries.map(([id, record]) => [id, record?.decision ?? "none", record?.label ?? ""]) }, entries.map(([id]) => id)),
    changeGroup: (query, decision, expected) => send("/api/decide-group", { query, decision, expected, version: audit.version }),
    undo: (name) => send("/api/undo", name === undefined ? {} : { step: name }),
    take_in: (text) => send("/api/import", { text }),
    history: async () => (await ask("/api/steps")).steps,
    toCsv: async () => (await fetched("/api/corrections.csv")).text(),
  };
}

function queryOf(chosen, grouped) {
  const named = { given: chosen.given, suggested: chosen.suggested, either: chosen.either, state: chosen.state, lowest: chosen.min, highest: chosen.max,
    text: chosen.text || null, flags: chosen.flags.join(",") || null, sort: chosen.sort, grouped: grouped ? "1" : null };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [name, String(value)]));
}

function createRemoteSource(audit, store, isSelected, onRows, onTrouble) {
  let latest = 0;

  function take(answer) {
    answer.rows.forEach((row, i) => {
      for (const [column, values] of Object.entries(answer.columns)) audit[column][row] = values[i];
      audit.rowOf.set(answer.columns.id[i], row);
      store.take([[answer.columns.id[i], answer.records[i]]]);
    });
  }

  function forget(row) {
    audit.rowOf.delete(audit.id[row]);
    for (const column of REMOTE_COLUMNS) if (audit[column]) delete audit[column][row];
  }

  const rowsOf = (query, more) => ask(`/api/rows?${new URLSearchParams({ ...query, ...more })}`);

  async function order(chosen, grouped, id, { newest = false } = {}) {
    const number = ++latest;
    const query = queryOf(chosen, grouped);
    const place = id === null || id === undefined ? {} : { near: id };
    const answer = await rowsOf(query, { limit: BLOCK, ...place, ...(newest ? {} : { version: audit.version }) });
    if (number !== latest) return null; // a later question has overtaken this one
    audit.version = answer.version;
    take(answer);
    return createRemoteOrder(answer, query);
  }

  function createRemoteOrder(first, query) {
    const known = new Map(), asked = new Set(), number = latest;
    const put = (answer) => answer.rows.forEach((row, i) => known.set(answer.offset + i, row));
    put(first);

    async function load(block) {
      asked.add(block);
      try {
        const answer = await rowsOf(query, { offset: block * BLOCK, limit: BLOCK, version: first.version });
        if (number !== latest) return;
        take(answer);
        put(answer);
        drop(block * BLOCK);
        onRows();
      } catch (error) {
        onTrouble(error.message);
      } finally {
        asked.delete(block);
      }
    }

    // Hold only rows near those that were asked for last, and those that are selected.
    function drop(place) {
      if (known.size <= HELD) return;
      for (const [position, row] of known) {
        if (Math.abs(position - place) <= HELD / 2 || isSelected(row)) continue;
        known.delete(position);
        forget(row);
      }
    }

    function row(position) {
      if (known.has(position)) return known.get(position);
      const block = Math.floor(position / BLOCK);
      if (position < first.total && !asked.has(block)) load(block);
      return undefined;
    }

    // The same positions in parts, each when its rows are here.
    async function* parts(positions) {
      for (const [block, part] of Map.groupBy(positions, (position) => Math.floor(position / BLOCK))) {
        if (part.some((position) => !known.has(position))) await load(block);
        yield part;
      }
    }

    const groups = first.groups.map(([given, suggested, start, images, undecided]) => ({ given, suggested, start, count: images, undecided }));
    const find = (wanted) => { for (const [position, other] of known) if (other === wanted) return position; return -1; };
    return { length: first.total, groups, row, parts, find, position: first.position };
  }

  // Without a filter by decision, the order stays the same while one decides.
  const follows = (chosen, grouped) => grouped || chosen.state !== null;
  return { order, follows, sorts: audit.with_neighbours ? ["doubt", "audit", "file", "strange"] : ["doubt", "audit", "file"] };
}

// Ask every few seconds what others have decided, and whether the images have been ranked anew.
function setUpPolling(app) {
  async function poll() {
    if (!document.hidden) {
      try {
        const state = await ask("/api/state");
        const known = app.store.changed();
        app.store.stateOf(state);
        hideBanner("trouble");
        const others = known !== null && known !== state.changed && !app.store.pending.size;
        if (others && !document.querySelector("dialog[open]")) await refresh(app, idOf(app), { focus: false });
      } catch (error) {
        showBanner(error.message);
      }
    }
    setTimeout(poll, POLL);
  }
  setTimeout(poll, 50);
}
