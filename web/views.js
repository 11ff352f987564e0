/* views.js - one pane a view; only the one in sight is drawn. */
import {answers} from './frontier.js';
import {formatCost, formatQuality, formatTime, isShare} from './format.js';
import {makeCompare} from './compare.js';
import {makeEffects} from './effects.js';
import {makeHistory} from './history.js';
import {makeParallel} from './parallel.js';
import {makeScatter} from './scatter.js';
import {makeTable} from './table.js';
import {nameOf, ratioText, xText} from './words.js';
import {COLOUR_COUNT} from './scene.js';
import {el, fillWhenNew} from './dom.js';

export function makeViews(root, app)
{
    const views = {
        frontier: makeFrontier(app),
        table: makeTable(app),
        parallel: makeParallel(app),
        compare: makeCompare(app),
        effects: makeEffects(app),
        history: makeHistory(app),
    };
    const panes = Object.entries(views).map(([name, view]) => {
        const pane = el('div.pane', {role: 'tabpanel', id: `pane-${name}`, 'aria-labelledby': `tab-${name}`},
            view.root);
        return {name, view, pane};
    });
    root.append(...panes.map(p => p.pane));
    return {
        update(scene) {
            for (const p of panes) {
                p.pane.hidden = p.name !== app.state.view;
                if (!p.pane.hidden)
                    p.view.update(scene);
            }
        },
        hover: () => views[app.state.view].hover?.(),
    };
}

/* ---- the main view ---- */

function makeFrontier(app)
{
    const plots = [makeScatter('time', app), makeScatter('cost', app)];
    const legend = el('div.legend');
    const ranks = el('div.ranks');
    const ask = makeAsk(app);
    /* Where the dots are, for those who drive the page from outside. */
    window.vivacePlaces = () => ({time: plots[0].places(), cost: plots[1].places()});
    return {
        root: el('div.frontier', {}, el('div.plots', {}, plots.map(p => p.root)), legend, ask.root, ranks),
        update(scene) {
            plots.forEach(p => p.update(scene));
            fillLegend(legend, scene);
            ask.update(scene);
            fillRanks(ranks, scene, app);
        },
        hover: () => plots.forEach(p => p.hover()),
    };
}

function fillLegend(root, scene)
{
    const marks = scene.groups ? scene.groups.filter(g => g.colour < COLOUR_COUNT).map(g =>
        [`group${g.colour}`, `${g.value} (${g.count})`]) : [['front', 'Frontier'], ['dot', 'Dominated']];
    const when = (condition, kind, text) => condition && marks.push([kind, text]);
    when(scene.groups?.some(g => g.colour === COLOUR_COUNT), `group${COLOUR_COUNT}`, 'others');
    when(true, 'chosen', 'Selected');
    when(scene.baseline, 'base', scene.baselineChosen ? 'Baseline' :
        'Baseline (for another: select a run, “Make baseline”)');
    when(scene.dots.some(d => d.running), 'ring', 'Running');
    when(scene.dots.some(d => d.estimated || d.estimatedCost), 'diamond', 'Estimated');
    when(scene.dots.some(d => !d.done && !d.running), 'cross', 'Stopped early');
    when(scene.fit.time || scene.fit.cost, 'curve', 'a + b ln x through the frontier');
    fillWhenNew(root, marks, () => marks.map(([kind, text]) => el('span', {}, el(`i.mark.${kind}`), text)));
}

/* ---- families by what they need for the baseline's quality ---- */

function fillRanks(root, scene, app)
{
    const axis = app.state.sortBy.startsWith('cost') ? 'cost' : 'time';
    const {baseline} = scene;
    if (!baseline) {
        fillWhenNew(root, '', () => el('p.hint', {}, 'No finished run with this quality: nothing to compare with.'));
        return;
    }
    const seen = new Set();
    const rows = [];
    for (const dot of scene.dots) {
        if (!dot.done || seen.has(dot.same))
            continue;
        seen.add(dot.same);
        rows.push(dot);
        if (rows.length === 12)
            break;
    }
    const cell = (dot, x) => {
        const same = dot.same?.[x];
        return same ? [`${same.atMost ? '≤ ' : ''}${xText(same.x, x)}`,
            ratioText(same.x, baseline[x], x)] : ['not reached', ''];
    };
    const title = `Recipes by ${axis} at the baseline’s quality, ${
        formatQuality(baseline.quality, scene.metric)}`;
    const lines = rows.map(dot => [nameOf(dot), (dot.run.methods || []).join(', ') || 'none',
        ...cell(dot, 'time'), ...cell(dot, 'cost')]);
    fillWhenNew(root, [title, lines, rows.map(d => d.key)], () => [el('h2', {}, title),
        el('table.plain', {}, el('thead', {}, el('tr', {}, ['Best run', 'Methods', 'Time', '', 'Cost', '']
            .map(t => el('th', {scope: 'col'}, t)))),
        el('tbody', {}, lines.map(([name, ...rest], i) => el('tr', {},
            el('td', {}, el('button.link', {'data-value': rows[i].key, onclick: () => app.select(rows[i])}, name)),
            rest.map(t => el('td', {}, t))))))]);
}

/* ---- the three questions ---- */

function makeAsk(app)
{
    const input = (name, label) => el('label.end', {}, label, el('input', {type: 'number', step: 'any',
        min: 0, id: `ask-${name}`, onchange: event => {
            const value = event.target.value === '' ? null : Number(event.target.value);
            const share = name === 'minQuality' && isShare(app.scene.metric) && value > 1;
            app.set({[name]: share ? value / 100 : value});
        }}));
    const inputs = [input('minQuality', 'quality reaches'), input('maxCost', 'cost at most ($)'),
        input('maxTime', 'time at most (s)')];
    const said = el('ul', {id: 'answers'});
    const root = el('details.ask', {id: 'ask'}, el('summary', {}, 'Which run should I take?'),
        el('div.ends', {}, inputs), said);
    return {root, update(scene) {
        const {state} = app;
        for (const name of ['minQuality', 'maxCost', 'maxTime']) {
            const box = root.querySelector(`#ask-${name}`);
            if (document.activeElement !== box)
                box.value = state[name] ?? '';
        }
        if (state.minQuality !== null || state.maxCost !== null || state.maxTime !== null)
            root.open = true;
        const found = answers(scene.dots.filter(d => d.done), {quality: state.minQuality,
            cost: state.maxCost, time: state.maxTime}, scene.higher);
        const line = (asked, words, dot) => (asked === null ? '' : el('li', {}, `${words}: `, dot ?
            [el('button.link', {onclick: () => app.select(dot)}, nameOf(dot)),
                ` – ${formatQuality(dot.quality, scene.metric)}, ${formatTime(dot.time)}, ${
                    formatCost(dot.cost)}`] : 'none'));
        const q = formatQuality(state.minQuality ?? NaN, scene.metric);
        fillWhenNew(said, [state.minQuality, state.maxCost, state.maxTime, scene.metric,
            Object.values(found).map(d => d && [d.key, d.quality, d.time, d.cost])], () => [
            line(state.minQuality, `Cheapest that reaches ${q}`, found.cheapest),
            line(state.minQuality, `Fastest that reaches ${q}`, found.fastest),
            line(state.maxCost, `Best for at most ${formatCost(state.maxCost)}`, found.bestForCost),
            line(state.maxTime, `Best within ${formatTime(state.maxTime)}`, found.bestForTime)]);
    }};
}
