/* table.js - every run that passes the filters, failed ones too. Only the rows in sight exist. */
import {allFields} from './fields.js';
import {formatCost, formatQuality, formatTime} from './format.js';
import {ratioText} from './words.js';
import {toCsv} from './csv.js';
import {download, el, fillWhenNew} from './dom.js';

const ROW = 30; /* pixels; style.css has the same */
const ALWAYS = new Set(['name', 'status', 'methods', 'quality', 'time', 'cost', 'sameTime', 'faster']);
const NOT_SHOWN = new Set(['method_count', 'train_seconds', 'progress', 'estimated']); /* told otherwise */

/* {key, label, number, of(dot), print(dot)}: outcome first, then what the run was. */
function columnsOf(scene)
{
    const base = scene.baseline;
    const same = x => dot => dot.same?.[x]?.x ?? NaN;
    const outcome = [
        ['quality', scene.metric || 'quality', d => d.quality, d => formatQuality(d.quality, scene.metric)],
        ['time', 'time', d => d.time, d => `${d.estimated ? '~' : ''}${formatTime(d.time)}`],
        ['cost', 'cost', d => d.cost, d => `${d.estimatedCost && Number.isFinite(d.cost) ? '~' : ''}${
            formatCost(d.cost)}`],
        ['sameTime', 'time at same quality', same('time'), d => sameText(d, 'time', formatTime)],
        ['faster', 'against the baseline', d => (base ? base.time / same('time')(d) : NaN),
            d => (d.same?.time && base ? ratioText(d.same.time.x, base.time, 'time') : '–')],
        ['sameCost', 'cost at same quality', same('cost'), d => sameText(d, 'cost', formatCost)],
        ['cheaper', 'cost against the baseline', d => (base ? 100 * (1 - same('cost')(d) / base.cost) : NaN),
            d => (d.same?.cost && base ? ratioText(d.same.cost.x, base.cost, 'cost') : '–')],
    ].map(([key, label, of, print]) => ({key, label, number: true, of, print}));
    const fields = allFields().filter(f => !NOT_SHOWN.has(f.key)).map(f => ({key: f.key, label: f.label,
        number: f.kind === 'number', of: d => f.of(d.run), print: d => f.print(f.of(d.run))}));
    const first = ['name', 'methods'];
    return [...fields.filter(f => first.includes(f.key)), ...outcome, ...fields.filter(f => !first.includes(f.key))];
}

function sameText(dot, x, format)
{
    const same = dot.same?.[x];
    return same ? `${same.atMost ? '≤ ' : ''}${format(same.x)}` : dot.done ? 'not reached' : '–';
}

/* Unknown values come last in both directions. */
function sorted(rows, column, down)
{
    const sign = down ? -1 : 1;
    return rows.map(d => ({d, v: column.of(d)})).sort((a, b) => {
        const none = v => v === '' || (typeof v === 'number' && !Number.isFinite(v));
        if (none(a.v) || none(b.v))
            return none(a.v) - none(b.v);
        return sign * (typeof a.v === 'number' ? a.v - b.v :
            a.v.localeCompare(b.v, 'en', {numeric: true}));
    }).map(e => e.d);
}

export function makeTable(app)
{
    const head = el('tr');
    const body = el('tbody');
    const before = el('div');
    const after = el('div');
    const grid = el('table.runs', {}, el('thead', {}, head), body);
    const scroll = el('div.scroll', {tabindex: 0, role: 'region', 'aria-label': 'Table of runs'}, before, grid, after);
    const count = el('span.hint');
    const all = el('input', {type: 'checkbox', id: 'check-allColumns',
        onchange: () => app.set({allColumns: all.checked})});
    const t = {app, head, body, before, after, scroll, rows: [], columns: [], shown: [], at: 0};
    const root = el('div.tablepane', {}, el('div.buttons', {}, count, el('span.space'),
        el('label.line', {}, all, 'all columns, not only those that differ'),
        el('button.small', {id: 'compare-none', onclick: () => app.set({run: []})}, 'Compare none'),
        el('button.small', {id: 'export-csv', onclick: () => exportCsv(t)}, 'CSV of these rows'),
        el('a', {href: 'api/export.csv', download: 'runs.csv'}, 'CSV of all runs'),
        el('a', {href: 'api/export.json', download: 'runs.json'}, 'JSON')), scroll);
    scroll.addEventListener('scroll', () => drawRows(t));
    scroll.addEventListener('keydown', event => onKey(t, event));
    return {root, hover: () => markHover(t), update(scene) {
        t.scene = scene;
        all.checked = app.state.allColumns;
        const grouped = app.state.group ? scene.dots.concat(scene.unplotted.map(u =>
            scene.all.find(d => d.run === u.run))) : null;
        const rows = grouped || rowsOf(scene);
        t.columns = columnsOf(scene);
        t.shown = t.columns.filter(c => ALWAYS.has(c.key) || app.state.allColumns || differs(c, rows));
        const key = app.state.sort.replace(/^-/, '');
        const column = t.columns.find(c => c.key === key);
        t.rows = column ? sorted(rows, column, app.state.sort.startsWith('-')) : rows;
        count.textContent = `${rows.length} rows`;
        drawHead(t);
        drawRows(t, true);
    }};
}

function rowsOf(scene)
{
    const plotted = new Set(scene.dots);
    return [...scene.dots, ...scene.filtered.filter(d => !plotted.has(d))];
}

function differs(column, rows)
{
    const first = rows.length ? column.print(rows[0]) : '';
    return rows.some(d => column.print(d) !== first);
}

function drawHead(t)
{
    const {sort} = t.app.state;
    const sortBy = key => t.app.set({sort: sort === key ? `-${key}` : key});
    fillWhenNew(t.head, [sort, t.shown.map(c => c.label)], () => [el('th', {scope: 'col'}, el('span.offscreen', {}, 'Compare')), t.shown.map(c => {
        const way = sort === c.key ? 'ascending' : sort === `-${c.key}` ? 'descending' : 'none';
        return el('th', {scope: 'col', 'aria-sort': way, 'data-key': c.key},
            el('button.sort', {onclick: () => sortBy(c.key)},
                c.label, way === 'ascending' ? ' ▲' : way === 'descending' ? ' ▼' : ''));
    })]);
}

function drawRows(t, fresh = false)
{
    const room = Math.ceil((t.scroll.clientHeight || 600) / ROW) + 12;
    const from = Math.max(0, Math.min(Math.floor(t.scroll.scrollTop / ROW) - 6, t.rows.length - room));
    if (!fresh && from === t.from)
        return;
    t.from = from;
    const rows = t.rows.slice(from, from + room);
    t.before.style.height = `${from * ROW}px`;
    t.after.style.height = `${Math.max(0, t.rows.length - from - rows.length) * ROW}px`;
    const {app} = t;
    const lines = rows.map(dot => ({dot, id: dot.run.id, key: dot.key, cells: t.shown.map(c => c.print(dot)),
        selected: dot.runs.some(r => r.id === app.state.selected), compared: app.state.run.includes(dot.run.id)}));
    fillWhenNew(t.body, [from, lines.map(({dot, ...rest}) => rest)], () => lines.map((line, i) => {
        const {dot, id, selected, compared} = line;
        return el('tr', {'data-id': id, 'data-key': dot.key, 'aria-rowindex': from + i + 2,
            'aria-selected': String(selected), onclick: () => app.set({selected: id}),
            onmouseenter: () => app.hover(dot, 'table'), onmouseleave: () => app.hover(null, 'table')},
        el('td', {}, el('input', {type: 'checkbox', 'aria-label': `Compare ${dot.run.name}`,
            'data-value': id, checked: compared, onclick: event => event.stopPropagation(),
            onchange: () => app.toggleCompared(id)})),
        line.cells.map((text, n) => el(t.shown[n].number ? 'td.number' : 'td', {}, text)));
    }));
}

function markHover(t)
{
    const key = t.app.hovered?.key;
    for (const row of t.body.children)
        row.classList.toggle('hovered', row.dataset.key === key);
}

/* Up and down move the selection, Space puts it into the comparison. */
function onKey(t, event)
{
    if (event.target !== t.scroll)
        return;
    const {app} = t;
    const at = t.rows.findIndex(d => d.runs.some(r => r.id === app.state.selected));
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && t.rows.length) {
        event.preventDefault();
        const next = Math.max(0, Math.min(t.rows.length - 1, at + step));
        app.select(t.rows[next]);
        const top = next * ROW;
        if (top < t.scroll.scrollTop + ROW || top > t.scroll.scrollTop + t.scroll.clientHeight - 3 * ROW)
            t.scroll.scrollTop = top - t.scroll.clientHeight / 2;
    } else if (event.key === ' ' && app.state.selected) {
        event.preventDefault();
        app.toggleCompared(app.state.selected);
    }
}

function exportCsv(t)
{
    const csv = toCsv(t.columns, t.rows);
    download(`${t.scene.dataset || 'runs'}.csv`, 'text/csv', csv);
    t.app.announce(`${t.rows.length} rows saved`);
}
