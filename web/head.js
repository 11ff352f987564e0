/* head.js - the top of the page: what is looked at, how the axes run, whether it is live. */
import {choicesOf} from './state.js';
import {formatCost} from './format.js';
import {fieldOf, settingFields} from './fields.js';
import {el, fillSelect} from './dom.js';

export const VIEW_NAMES = {frontier: 'Frontier', table: 'Table', parallel: 'Parallel coordinates',
    compare: 'Compare', effects: 'Method effects', history: 'History'};
const SORT_NAMES = {timeSameQuality: 'time at same quality', costSameQuality: 'cost at same quality',
    time: 'time', cost: 'cost', quality: 'quality'};

function pick(app, label, name, onChange)
{
    const select = el('select', {id: `pick-${name}`,
        onchange: () => (onChange || (v => app.set({[name]: v})))(select.value)});
    return {select, root: el('label.pick', {}, el('span', {}, label), select)};
}

export function makeHead(root, app)
{
    const dataset = pick(app, 'Data set', 'dataset', v => app.set({dataset: v, model: [], recipe: [],
        baseline: '', selected: '', run: [], brush: [], metric: '', xMin: null, xMax: null,
        costMin: null, costMax: null, yMin: null, yMax: null}));
    const model = pick(app, 'Model', 'model', v => app.set({model: v ? [v] : []}));
    const metric = pick(app, 'Quality', 'metric', v => app.set({metric: v, yMin: null, yMax: null}));
    const statistic = pick(app, 'Value', 'statistic');
    const compare = pick(app, 'Colour', 'compare');
    const sortBy = pick(app, 'Rank by', 'sortBy');
    const price = pick(app, 'Price', 'price', v => app.set({price: v, costMin: null, costMax: null}));
    const theme = el('button.small', {id: 'theme', onclick: () => app.set({theme:
        document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'})}, '');
    const live = el('span.live', {id: 'live-state'});
    const tabs = Object.keys(VIEW_NAMES).map(view => el('button.tab', {role: 'tab', id: `tab-${view}`,
        'aria-controls': 'views', onclick: () => app.set({view}),
        onkeydown: event => moveTab(event, view, app)}, VIEW_NAMES[view]));
    root.append(
        el('div.bar', {}, el('h1', {}, 'Vivace ', el('span', {}, 'Explorer')),
            dataset.root, model.root, metric.root, statistic.root, compare.root, sortBy.root, price.root,
            el('span.space'), live, theme),
        el('div.tabs', {role: 'tablist', 'aria-label': 'Views'}, tabs));
    return {update: scene => scene && update({dataset, model, metric, statistic, compare, sortBy, price, theme,
        live, tabs}, app, scene)};
}

function moveTab(event, view, app)
{
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step)
        return;
    event.preventDefault();
    const all = Object.keys(VIEW_NAMES);
    const next = all[(all.indexOf(view) + step + all.length) % all.length];
    app.set({view: next});
    document.getElementById(`tab-${next}`).focus();
}

function update(p, app, scene)
{
    const {state} = app;
    fillSelect(p.dataset.select, scene.datasets.map(d => [d, d]), scene.dataset);
    const models = [...new Set(scene.runs.map(r => r.model))].sort();
    const several = state.model.length > 1 ? [[state.model.join(), `${state.model.length} models`]] : [];
    fillSelect(p.model.select, [['', 'all'], ...several, ...models.map(m => [m, m || '(none)'])],
        state.model.join());
    fillSelect(p.metric.select, [...scene.metrics.keys()].sort().map(m => [m,
        `${m} ${scene.metrics.get(m).higher ? '↑' : '↓'}`]), scene.metric);
    fillSelect(p.statistic.select, [['final', 'at the end'], ['best', 'best']], state.statistic);
    fillSelect(p.compare.select, [...choicesOf('compare'), ...settingFields().map(f => f.key)].map(c => [c,
        c === 'none' ? 'frontier' : fieldOf(c)?.label || c]), state.compare);
    fillSelect(p.sortBy.select, choicesOf('sortBy').map(s => [s, SORT_NAMES[s]]), state.sortBy);
    fillSelect(p.price.select, [['', 'each run’s own'], ...app.prices.map(e => [e.name,
        `${e.name} ${formatCost(e.usd_per_hour)}/h${e.kind ? ` ${e.kind}` : ''}${
            e.date ? `, ${e.date}` : ''}`])], scene.entry ? scene.entry.name : '');
    const dark = document.documentElement.dataset.theme === 'dark';
    p.theme.textContent = dark ? 'Light' : 'Dark';
    p.theme.setAttribute('aria-label', dark ? 'Light colours' : 'Dark colours');
    const running = scene.runs.filter(r => r.status === 'running').length;
    p.live.textContent = app.connected === false ? 'not connected' :
        running ? `live: ${running} running` : 'live';
    p.live.classList.toggle('off', app.connected === false);
    p.tabs.forEach(tab => {
        const on = tab.id === `tab-${state.view}`;
        tab.setAttribute('aria-selected', String(on));
        tab.tabIndex = on ? 0 : -1;
    });
}
