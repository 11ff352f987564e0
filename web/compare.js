/* compare.js - runs beside each other: only what differs, and their curves in one picture. */
import {differences} from './differ.js';
import {drawCurve, seriesOf} from './curve.js';
import {formatCost, formatQuality, formatTime} from './format.js';
import {loadRun} from './data.js';
import {savingText} from './words.js';
import {el, fill, fillWhenNew} from './dom.js';

export function makeCompare(app)
{
    const root = el('div.comparepane');
    return {root, update: scene => update(root, app, scene)};
}

/* Those put into the comparison; one alone is held against the baseline. */
function chosen(app, scene)
{
    const ids = app.state.run.filter(id => app.runById(id));
    const first = ids.length ? ids : [app.state.selected].filter(id => id && app.runById(id));
    const base = scene.baseline?.run.id;
    return first.length === 1 && base && base !== first[0] ? [base, ...first] : first;
}

const turns = new WeakMap(); /* pane -> how often it was drawn */

async function update(root, app, scene)
{
    const turn = turns.set(root, (turns.get(root) || 0) + 1).get(root);
    const ids = chosen(app, scene);
    if (ids.length < 2) {
        fillWhenNew(root, '', () => el('p.hint', {}, 'Put runs into the comparison: “Compare” in a run’s card, the boxes of the table, ' +
            'or C on a dot. One run is compared with the baseline.'));
        return;
    }
    let runs;
    try {
        runs = await Promise.all(ids.map(id => loadRun(app.runById(id)).then(d => ({...d, ...app.runById(id)}))));
    } catch (error) {
        fillWhenNew(root, error.message, () => el('p.problem', {role: 'alert'}, error.message));
        return;
    }
    if (turn !== turns.get(root))
        return; /* asked again meanwhile */
    const dots = ids.map(id => scene.all.find(d => d.run.id === id));
    const row = (label, cells, key) => el('tr', {'data-key': key}, el('th', {scope: 'row'}, label),
        cells.map(c => el('td', {}, c)));
    const saving = axis => dots.map(d => (d ? savingText(scene, withFamily(scene, d), axis)?.short ?? '–' : '–'));
    const rows = differences(runs);
    fillWhenNew(root, [runs, scene.metric, app.state.statistic, saving('time'), saving('cost'),
        dots.map(d => d && [d.time, d.cost])], () => [
        el('h2', {}, `${runs.length} runs: what differs`),
        el('div.scroll', {tabindex: 0, role: 'region', 'aria-label': 'Comparison'}, el('table.plain.compare', {},
            el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, ''), runs.map((r, i) =>
                el('th', {scope: 'col'}, el(`i.mark.group${i % 8}`), r.name || r.id, ' ', el('button.small', {
                    'aria-label': `Take ${r.name} out`,
                    onclick: () => app.set({run: app.state.run.filter(id => id !== r.id)})}, '×'))))),
            el('tbody', {},
                row(scene.metric, dots.map(d => formatQuality(d ? d.quality : NaN, scene.metric)), 'quality'),
                row('Time', dots.map(d => formatTime(d ? d.time : NaN)), 'time'),
                row('at equal quality', saving('time'), 'time-saving'),
                row('Cost', dots.map(d => formatCost(d ? d.cost : NaN)), 'cost'),
                row('at equal quality', saving('cost'), 'cost-saving'),
                rows.map(r => row(r.label, r.values, r.key))))),
        rows.length ? '' : el('p.hint', {}, 'Nothing but the outcome differs.'),
        curves(runs, scene)]);
}

function withFamily(scene, dot)
{
    return scene.single.find(d => d.run.id === dot.run.id) || dot;
}

function curves(runs, scene)
{
    const series = runs.map(seriesOf);
    const names = [...new Set(series.flatMap(s => [...s.keys()]))];
    if (!names.length)
        return '';
    const holder = el('div.wide');
    const select = el('select', {'aria-label': 'Which curve', onchange: () => draw()}, names.map(n =>
        el('option', {value: n, selected: n === scene.metric}, n)));
    const draw = () => fill(holder, drawCurve(runs.map((r, i) => ({label: r.name || r.id, colour: i % 8,
        points: series[i].get(select.value) || []})), select.value));
    draw();
    return [el('h2', {}, 'Curves ', select), holder];
}
