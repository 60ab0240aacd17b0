// What the page shows comes from a server when it is needed, and decisions go to it: the review server, or local.js.
"use strict";

const BLOCK = 100; // rows per request
const HELD = 4_000; // rows that the page holds
const POLL = 3_000; // milliseconds

// The review server.
function createRemoteServer() {
  async function ask(name, values = {}) {
    const changes = ["decide", "decide-group", "undo", "import", "count"].includes(name);
    const options = changes ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(values) } : {};
    const query = changes || !Object.keys(values).length ? "" : `?${new URLSearchParams(values)}`;
    let answer;
    try {
      answer = await fetch(`/api/${name}${query}`, { credentials: "same-origin", ...options });
    } catch {
      throw new Error("The review server does not answer. Is `hitnet review` still running?");
    }
    if (!answer.ok) throw new Error(await answer.text());
    return name === "export" ? answer.text() : answer.json();
  }
  return { file: "corrections.csv", ask };
}

// What the server knows of the decisions; `records` holds those of the rows that the page holds.
function createStore(server, onState) {
  const records = new Map(), pending = new Set();
  let counts = {}, changed = null;

  function take(id, record) {
    if (record) records.set(id, record);
    else records.delete(id);
  }

  function stateOf(state) {
    counts = state.counts;
    changed = state.changed;
    onState(state);
  }

  // The page shows a decision as saved only after the server has it on disk.
  async function send(name, body, ids = []) {
    for (const id of ids) pending.add(id);
    try {
      const answer = await server.ask(name, body);
      for (const [id, record] of answer.records) take(id, record);
      stateOf(answer);
      return { images: answer.images, first: answer.records[0]?.[0] }; // records are those of the first few hundred
    } finally {
      for (const id of ids) pending.delete(id);
    }
  }

  return {
    pending, take, stateOf,
    get: (id) => records.get(id),
    counts: () => counts,
    changed: () => changed,
    change: (changes) => send("decide", { changes }, changes.map(([id]) => id)),
    changeGroup: (query, { given, suggested, undecided }, decision) => send("decide-group", { query, given, suggested, decision, expected: undecided }),
    undo: (step) => send("undo", { step }),
    draw: (images) => send("count", { images }),
    importText: (text) => send("import", { text }),
  };
}

// The query of filters: only those that are set.
function queryOf(chosen, grouped) {
  const named = { given: chosen.given, suggested: chosen.suggested, either: chosen.either, state: chosen.state, lowest: chosen.min, highest: chosen.max,
    text: chosen.text || null, flags: chosen.flags.length ? chosen.flags : null, sort: chosen.sort, grouped: grouped ? 1 : null };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null));
}

function createSource(audit, server, store, isSelected, onRows, onTrouble) {
  const columns = new Set();
  let latest = 0;

  function take(answer) {
    answer.rows.forEach((row, i) => {
      for (const [column, values] of Object.entries(answer.columns)) {
        columns.add(column);
        (audit[column] ??= {})[row] = values[i];
      }
      audit.rowOf.set(audit.id[row], row);
      store.take(audit.id[row], answer.records[i]);
    });
  }

  function forget(row) {
    audit.rowOf.delete(audit.id[row]);
    for (const column of columns) delete audit[column][row];
  }

  async function order(chosen, grouped, id) {
    const number = ++latest;
    const query = queryOf(chosen, grouped);
    const place = id === null || id === undefined ? {} : { near: id };
    const answer = await server.ask("rows", { ...query, limit: BLOCK, ...place });
    if (number !== latest) return null; // a later question has overtaken this one
    take(answer);
    return createOrder(answer, query);
  }

  function createOrder(first, query) {
    const known = new Map(), asked = new Set(), number = latest;
    const put = (answer) => answer.rows.forEach((row, i) => known.set(answer.offset + i, row));
    put(first);

    async function load(block) {
      asked.add(block);
      try {
        const answer = await server.ask("rows", { ...query, offset: block * BLOCK, limit: BLOCK });
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

    return { length: first.total, groups: first.groups, row, parts, position: first.position };
  }

  // Without a filter by decision, the order stays the same while one decides.
  const follows = (chosen, grouped) => grouped || chosen.state !== null;
  return { order, follows };
}

// Ask every few seconds what others have decided.
function setUpPolling(app) {
  async function poll() {
    if (!document.hidden) {
      try {
        const state = await app.server.ask("state");
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
