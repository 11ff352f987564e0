/* filters.js - which runs are shown: boxes to tick, each with the number of its runs. */
import {cloudOf, hardwareOf} from './fields.js';
import {unplottedCounts} from './scene.js';
import {el, fillWhenNew, refill} from './dom.js';

const MOST = 100; /* values of one filter shown at once; the rest is found by typing */

const FACETS = [
    {name: 'algorithms', label: 'Methods', of: r => r.methods || [], open: true},
    {name: 'recipe', label: 'Recipe', of: r => [r.name]},
    {name: 'hardware', label: 'Hardware', of: r => [hardwareOf(r)]},
    {name: 'cloud', label: 'Cloud', of: r => [cloudOf(r)]},
    {name: 'seed', label: 'Seed', of: r => [String(r.seed)]},
    {name: 'status', label: 'Status', of: r => [r.status], open: true},
    {name: 'tag', label: 'Tag', of: r => r.tags || []},
];

const MODES = {any: 'any of', all: 'all of', none: 'none of', only: 'exactly'};

export function makeFilters(root, app)
{
    const search = el('input', {type: 'search', id: 'search', placeholder: 'name, id, method, note …',
        'aria-label': 'Search', oninput: () => app.set({search: search.value}, {replace: true})});
    const mode = el('select', {id: 'algorithms-mode', 'aria-label': 'How methods are matched',
        onchange: () => app.set({algorithmsMode: mode.value})},
    Object.entries(MODES).map(([value, text]) => el('option', {value}, text)));
    const facets = FACETS.map(f => makeFacet(f, app, f.name === 'algorithms' ? mode : null));
    const checks = [
        check(app, 'group', 'Group by configuration'),
        check(app, 'hideDominated', 'Hide dominated runs'),
        check(app, 'hideEstimated', 'Hide estimates'),
        check(app, 'reverse', 'Reverse x (best top right)'),
    ];
    const choices = [
        choice(app, 'x', 'x axis', {log: 'logarithmic', linear: 'linear'}),
        choice(app, 'yScale', 'Quality axis', {linear: 'linear', log: 'logarithmic'}),
        choice(app, 'curve', 'Frontier', {both: 'curve and stairs', fit: 'fitted curve',
            stairs: 'staircase', none: 'dots only'}),
        choice(app, 'time', 'Time', {train: 'training only', wall: 'with evaluation'}),
    ];
    const count = el('p.count', {id: 'count'});
    const reset = el('button.small', {id: 'reset', onclick: () => app.set({algorithms: [], recipe: [],
        hardware: [], cloud: [], seed: [], status: [], tag: [], search: '', brush: [], model: [],
        algorithmsMode: 'any', hideEstimated: false})}, 'Clear filters');
    root.append(count, search, reset, facets.map(f => f.root).reduce((a, f) => {
        a.append(f);
        return a;
    }, document.createDocumentFragment()),
    el('details', {open: true}, el('summary', {}, 'Axes and dots'), checks.map(c => c.root),
        choices.map(c => c.root), range(app)));
    return {update(scene) {
        if (document.activeElement !== search)
            search.value = app.state.search;
        mode.value = app.state.algorithmsMode;
        facets.forEach(f => f.update(scene));
        [...checks, ...choices].forEach(c => c.update());
        updateRange(app);
        updateCount(count, scene, app);
    }};
}

function check(app, name, label)
{
    const box = el('input', {type: 'checkbox', id: `check-${name}`,
        onchange: () => app.set({[name]: box.checked})});
    return {root: el('label.line', {}, box, label), update: () => { box.checked = app.state[name]; }};
}

function choice(app, name, label, options)
{
    const select = el('select', {id: `choice-${name}`, onchange: () => app.set({[name]: select.value})},
        Object.entries(options).map(([value, text]) => el('option', {value}, text)));
    return {root: el('label.pick', {}, el('span', {}, label), select),
        update: () => { select.value = app.state[name]; }};
}

/* ---- reach of the axes ---- */

const ENDS = {yMin: 'quality from', yMax: 'to', xMin: 'time from (s)', xMax: 'to', costMin: 'cost from ($)',
    costMax: 'to'};

function range(app)
{
    const inputs = Object.entries(ENDS).map(([name, label]) => el('label.end', {}, label,
        el('input', {type: 'number', step: 'any', id: `end-${name}`, placeholder: 'auto',
            onchange: event => app.set({[name]: event.target.value === '' ? null :
                Number(event.target.value)})})));
    return el('div.ends', {}, inputs, el('button.small', {onclick: () => app.resetZoom()}, 'Reset axes'));
}

function updateRange(app)
{
    for (const name of Object.keys(ENDS)) {
        const input = document.getElementById(`end-${name}`);
        if (input && document.activeElement !== input)
            input.value = app.state[name] ?? '';
    }
}

function updateCount(count, scene, app)
{
    const why = Object.entries(unplottedCounts(scene)).map(([w, n]) => `${n} ${w}`);
    const dots = scene.single.length;
    const grouped = app.state.group ? `, as ${scene.dots.length} dots` : '';
    fillWhenNew(count, [dots, scene.runs.length, grouped, why], () => [
        el('b', {id: 'shown'}, String(dots)), ` of ${scene.runs.length} runs shown`, grouped,
        why.length ? [el('br'), el('span', {id: 'unplotted'}, `not plotted: ${why.join(', ')} `),
            el('button.link', {onclick: () => app.set({view: 'table', sort: 'status'})}, 'list')] : '']);
}

/* ---- one filter ---- */

function makeFacet(facet, app, extra)
{
    const list = el('div.facet');
    const find = el('input', {type: 'search', placeholder: 'find …', 'aria-label': `Find in ${facet.label}`,
        oninput: () => show()});
    const summary = el('summary');
    const note = el('p.more');
    const root = el('details', {id: `facet-${facet.name}`, open: facet.open}, summary, extra, find, list, note);
    let runs = null;
    let values = [];

    const boxOf = ([value, n]) => {
        const box = el('input', {type: 'checkbox', 'data-value': value,
            checked: app.state[facet.name].includes(value),
            onchange: () => {
                const rest = app.state[facet.name].filter(v => v !== value);
                app.set({[facet.name]: box.checked ? [...rest, value] : rest});
            }});
        return el('label.line', {}, box, el('span', {}, value || '(none)'), el('small', {}, String(n)));
    };
    const show = () => {
        const words = find.value.toLowerCase();
        const chosen = app.state[facet.name];
        const hits = values.filter(([v]) => v.toLowerCase().includes(words));
        const shown = [...hits.filter(([v]) => chosen.includes(v)),
            ...hits.filter(([v]) => !chosen.includes(v))].slice(0, MOST);
        shown.sort((a, b) => order(a[0], b[0]));
        refill(list, shown.map(boxOf));
        note.textContent = hits.length > MOST ? `${hits.length - MOST} more: type to find them` : '';
    };
    let shownFor = '';
    return {root, update(scene) {
        const chosen = app.state[facet.name];
        summary.textContent = chosen.length ? `${facet.label} (${chosen.length})` : facet.label;
        const changed = runs !== scene.runs && countChanged(scene.runs);
        if (changed || shownFor !== chosen.join('\n')) {
            shownFor = chosen.join('\n');
            show();
        }
        find.hidden = values.length < 12;
        root.hidden = !values.length;
    }};

    function countChanged(all)
    {
        runs = all;
        const counts = new Map();
        for (const run of all)
            for (const value of facet.of(run))
                counts.set(value, (counts.get(value) || 0) + 1);
        const next = [...counts].sort((a, b) => order(a[0], b[0]));
        const same = JSON.stringify(next) === JSON.stringify(values);
        values = next;
        return !same;
    }
}

function order(a, b)
{
    return a.localeCompare(b, 'en', {numeric: true});
}
