/* effects.js - what each method does, read from pairs of runs that differ in nothing else; what the quality
 * hangs on. */
import {formatNumber, isShare} from './format.js';
import {methodEffects} from './group.js';
import {importance} from './importance.js';
import {el, fillWhenNew, svg} from './dom.js';

export function makeEffects(app)
{
    const root = el('div.effectspane');
    return {root, update: scene => update(root, app, scene)};
}

function update(root, app, scene)
{
    const done = scene.single.filter(d => d.done);
    const effects = methodEffects(done, scene.higher);
    const matters = importance(done);
    const paired = effects.filter(e => e.families).sort((a, b) => (a.time.mean || 9) - (b.time.mean || 9));
    const alone = effects.filter(e => !e.families);
    const share = isShare(scene.metric);
    const quality = v => (share ? `${v > 0 ? '+' : ''}${(100 * v).toFixed(2)}` :
        `${v > 0 ? '+' : ''}${formatNumber(v)}`);
    const reach = Math.max(0.1, ...paired.flatMap(e => [e.time.low, e.time.high]
        .filter(Number.isFinite).map(v => Math.abs(Math.log2(v))))) * 1.05;
    fillWhenNew(root, [effects.map(({pairs, ...e}) => e), matters, scene.metric], () => [
        el('h2', {}, 'What each method does'),
        el('p.hint', {}, 'Pairs of recipes that agree in every setting, the machine and all other ' +
            'methods; they differ in length and seed. Time and cost at equal quality: what the recipe with the method needs, divided by what the one ' +
            'without needs, at the best quality both reach; below 1 the method pays. Quality: difference of runs that ' +
            'agree in seed and length too. Brackets: 95% interval over the pairs.'),
        paired.length ? el('table.plain', {id: 'effects'}, el('thead', {}, el('tr', {},
            ['Method', 'Pairs of recipes', `${scene.metric}${share ? ', points' : ''}`, 'Pairs of runs',
                'Time at equal quality', '', 'Cost at equal quality'].map(t => el('th', {scope: 'col'}, t)))),
        el('tbody', {}, paired.map(e => el('tr', {'data-method': e.method},
            el('td', {}, el('button.link', {title: 'show the runs that use it', onclick: () =>
                app.set({algorithms: [e.method], algorithmsMode: 'any', view: 'frontier'})}, e.method)),
            el('td.number', {}, String(e.families)),
            el('td.number', {}, e.quality.n ? `${quality(e.quality.mean)}${e.quality.n > 1 ?
                ` ± ${quality(e.quality.half).replace('+', '')}` : ''}` : '–'),
            el('td.number', {}, String(e.quality.n)),
            el('td.number', {}, ratio(e.time)), el('td', {}, bar(e.time, reach)),
            el('td.number', {}, e.cost.n ? `${Number(e.cost.mean.toPrecision(3))}×` : '–'))))) :
            el('p.hint', {}, 'No two recipes in sight differ in one method alone.'),
        alone.length ? el('p.hint', {}, `Without a pair: ${alone.map(e => `${e.method} (${e.runs})`)
            .join(', ')}.`) : '', ...hangs(matters, scene)]);
}

const MOST_ROWS = 15;

function hangs(matters, scene)
{
    const share = v => (Number.isFinite(v) ? `${Math.round(100 * v)}%` : '–');
    const part = v => svg('svg', {class: 'bar', viewBox: '0 0 160 20', 'aria-hidden': 'true'},
        svg('line', {class: 'grid', x1: 0, x2: 160, y1: 10, y2: 10}),
        svg('line', {class: 'line group0 thick', x1: 0, x2: 160 * v, y1: 10, y2: 10}));
    if (!matters.length)
        return [];
    const rows = matters.slice(0, MOST_ROWS);
    return [
        el('h2', {}, `What ${scene.metric} hangs on`),
        el('p.hint', {}, 'The part of the variance among the runs in sight that goes when they are grouped by one setting, less ' +
            'what chance would give. Settings that change together share it; filter to one model to look within it.'),
        el('table.plain', {id: 'importance'}, el('thead', {}, el('tr', {}, ['Setting', 'Values', 'Runs', scene.metric, '',
            'Time'].map(t => el('th', {scope: 'col'}, t)))),
        el('tbody', {}, rows.map(e => el('tr', {'data-key': e.key}, el('td', {}, e.label),
            el('td.number', {}, String(e.values)), el('td.number', {}, String(e.runs)),
            el('td.number', {}, share(e.quality)), el('td', {}, part(e.quality)), el('td.number', {}, share(e.time)))))),
        matters.length > rows.length ? el('p.hint', {}, `${matters.length - rows.length} more below ${
            share(rows[rows.length - 1].quality)}.`) : ''];
}

function ratio(r)
{
    if (!r.n)
        return '–';
    const short = v => (Number.isFinite(v) ? String(Number(v.toPrecision(3))) : '–');
    return r.n > 1 ? `${short(r.mean)}× [${short(r.low)}, ${short(r.high)}]` : `${short(r.mean)}×`;
}

/* Left of the middle the method saves. */
function bar(r, reach)
{
    if (!r.n)
        return '';
    const x = v => 80 + 75 * Math.max(-1, Math.min(1, Math.log2(v) / reach));
    return svg('svg', {class: 'bar', viewBox: '0 0 160 20', 'aria-hidden': 'true'},
        svg('line', {class: 'grid', x1: 80, x2: 80, y1: 0, y2: 20}),
        svg('line', {class: 'line group0', x1: x(r.low), x2: x(r.high), y1: 10, y2: 10}),
        svg('circle', {class: 'point group0', cx: x(r.mean), cy: 10, r: 4}));
}
