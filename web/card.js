/* card.js - everything about the selected run, and what to do with it. */
import {copyText, download, el, fill, fillWhenNew} from './dom.js';
import {drawCurve, seriesOf} from './curve.js';
import {formatCost, formatDate, formatNumber, formatQuality, formatTime} from './format.js';
import {hardwareOf, cloudOf} from './fields.js';
import {loadRun, setNote, setTag} from './data.js';
import {costOf} from './scene.js';
import {savingText} from './words.js';

const HINT = 'Select a dot: click it, or go to a chart and use the arrow keys and Enter.';

export function makeCard(root, app)
{
    const card = {root, app, shown: '', asked: 0, told: 0, series: '', open: new Set(['methods'])};
    return {update: scene => update(card, scene)};
}

function update(card, scene)
{
    const {app, root} = card;
    const id = app.state.selected;
    const run = id ? app.runById(id) : null;
    if (!run) {
        card.shown = '';
        fillWhenNew(root, id, () => el('p.hint', {}, id ? `There is no run ${id}.` : HINT));
        return;
    }
    const dot = app.selected || scene.all.find(d => d.run.id === id) || null;
    /* Typing in the card is not disturbed by a run that moves. */
    if (card.shown === id && root.contains(document.activeElement) &&
        document.activeElement.tagName === 'INPUT')
        return;
    const turn = ++card.asked;
    loadRun(run).then(detail => {
        if (app.state.selected !== id || turn < card.told)
            return; /* a later answer was quicker */
        card.told = turn;
        card.shown = id;
        show(card, scene, dot, {...detail, ...run});
    }).catch(error => {
        if (app.state.selected === id)
            fillWhenNew(root, error.message, () => el('p.problem', {role: 'alert'}, error.message));
    });
}

function facts(rows)
{
    return el('dl', {}, rows.filter(r => r && r[1] !== '' && r[1] !== '–' && r[1] !== null &&
        r[1] !== undefined).map(([name, value, key]) =>
        [el('dt', {}, name), el('dd', {'data-key': key}, value)]));
}

function section(card, key, title, ...content)
{
    return el('details', {open: card.open.has(key), ontoggle: event => (event.target.open ?
        card.open.add(key) : card.open.delete(key))}, el('summary', {}, title), content);
}

function show(card, scene, dot, run)
{
    const {app, root} = card;
    const metric = (run.metrics || {})[scene.metric];
    const price = costOf(run, dot ? dot.time : run.train_seconds, scene.entry);
    const guess = (flag, text) => (flag && text !== '–' ? [el('span.guess', {title: 'computed, not measured'},
        'estimated '), text] : text);
    const compared = app.state.run.includes(run.id);
    const members = dot && dot.runs.length > 1 ? dot.runs : [];
    const said = savings(scene, dot);
    fillWhenNew(root, [run, said, compared, metric, scene.metric, app.state.statistic, price, dot?.time,
        members.map(r => r.id)], () => [
        el('h2', {id: 'card-name'}, run.name || run.id),
        el('p.id', {}, run.id, ' ', el(`span.status.${run.status}`, {}, statusText(run))),
        members.length ? el('p.hint', {}, `One of ${members.length} runs of its configuration: `,
            members.map(r => [el('button.link', {onclick: () => app.set({selected: r.id})}, `seed ${
                r.seed}`), ' '])) : '',
        el('dl.big', {},
            fact('Quality', metric ? formatQuality(metric[app.state.statistic], scene.metric) : '–', 'quality'),
            fact('Time', guess(run.estimated, formatTime(dot ? dot.time : run.train_seconds)), 'time'),
            fact('Cost', guess(price.estimated, formatCost(price.usd)), 'cost')),
        said.length ? el('div.savings', {id: 'savings'}, said.map(line => el('p', {}, line))) : '',
        el('div.buttons', {},
            el('button.small', {id: 'make-baseline', onclick: () => app.set({baseline: run.id})},
                'Make baseline'),
            el('button.small', {id: 'add-compare', 'aria-pressed': String(compared),
                onclick: () => app.toggleCompared(run.id)}, compared ? 'In comparison ✓' : 'Compare'),
            el('button.small', {onclick: () => app.select(null)}, 'Close')),
        section(card, 'methods', `${(run.methods || []).length} methods`, methods(run)),
        section(card, 'setup', 'Set-up', setup(run)),
        section(card, 'settings', 'All settings', facts(Object.entries(run.settings || {}))),
        section(card, 'price', 'Hardware and price', priceFacts(run, price)),
        el('h3', {}, 'Curve'), curve(card, scene, run),
        commands(run),
        tags(card, run)]);
}

function fact(name, value, key)
{
    return el('div', {}, el('dt', {}, name), el('dd', {'data-key': key}, value));
}

function statusText(run)
{
    return run.status === 'running' && Number.isFinite(run.progress) ?
        `running, ${Math.round(100 * run.progress)}%` : run.status;
}

/* Lines of text. */
function savings(scene, dot)
{
    if (!dot || !Number.isFinite(dot.quality))
        return [];
    const lines = ['time', 'cost'].map(x => savingText(scene, dot, x)?.long).filter(Boolean);
    const front = ['time', 'cost'].filter(x => dot.front[x]);
    return [...new Set(lines), ...(front.length ? [`On the frontier of ${front.join(' and ')}.`] : [])];
}

function methods(run)
{
    const known = new Map((run.method_settings || []).map(m => [m.name, m.settings || {}]));
    const list = (run.methods || []).map(name => {
        const settings = Object.entries(known.get(name) || {}).map(([k, v]) =>
            `${k}: ${typeof v === 'object' ? JSON.stringify(v) : v}`);
        return el('li', {}, el('b', {}, name), settings.length ? ` ${settings.join(', ')}` : '');
    });
    return list.length ? el('ul', {id: 'card-methods'}, list) : el('p.hint', {}, 'none');
}

function setup(run)
{
    const ago = ['epochs', 'batches', 'samples'].filter(k => Number.isFinite(run[k]) && run[k] > 0)
        .map(k => `${formatNumber(run[k])} ${k}`).join(', ');
    return facts([['Model', run.model, 'model'], ['Data set', run.dataset, 'dataset'],
        ['Parameters', formatNumber(run.parameters ?? NaN), 'parameters'],
        ['Optimizer', run.optimizer, 'optimizer'],
        ['Batch size', formatNumber(run.batch_size ?? NaN), 'batch_size'],
        ['Duration', run.max_duration, 'max_duration'],
        ['Scale schedule ratio', formatNumber(run.scale_schedule_ratio ?? NaN), 'ssr'],
        ['Trained', ago, 'trained'], ['Seed', run.seed === null ? '' : String(run.seed), 'seed'],
        ['Precision', run.precision, 'precision'], ['Last loss', formatNumber(run.loss ?? NaN), 'loss'],
        ['Started', formatDate(run.started ?? NaN), 'started'], ['Source', run.source, 'source'],
        ['Version', run.version, 'version'], ['Commit', run.git_commit, 'commit']]);
}

function priceFacts(run, price)
{
    return facts([['Cloud', cloudOf(run), 'cloud'], ['Instance', hardwareOf(run), 'hardware'],
        ['Processor', run.processor, 'processor'], ['Cores', formatNumber(run.cores ?? NaN), 'cores'],
        ['Threads', formatNumber(run.threads ?? NaN), 'threads'],
        ['Samples per second', formatNumber(run.samples_per_second ?? NaN), 'rate'],
        ['Training time', formatTime(run.train_seconds ?? NaN), 'train'],
        ['Evaluation time', formatTime(run.eval_seconds ?? NaN), 'eval'],
        ['Wall clock', formatTime(run.wall_seconds ?? NaN), 'wall'],
        [price.repriced ? 'Re-priced at' : 'Price', Number.isFinite(price.perHour) ?
            `${formatCost(price.perHour)} per hour` : 'none: its cost is not known', 'price'],
        ['Kind', price.kind, 'kind'], ['Region', price.region, 'region'],
        ['Price date', price.date || (Number.isFinite(price.perHour) ? 'not noted' : ''), 'price-date'],
        ['Price from', price.source, 'price-source']]);
}

function curve(card, scene, run)
{
    const series = seriesOf(run);
    const names = [...series.keys()];
    if (!names.length)
        return el('p.hint', {}, 'No values over time.');
    const name = names.includes(card.series) ? card.series :
        names.includes(scene.metric) ? scene.metric : names[0];
    const holder = el('div');
    const draw = () => fill(holder, drawCurve([{label: run.name || run.id, colour: 0,
        points: series.get(select.value)}], select.value));
    const select = el('select', {'aria-label': 'Which curve', id: 'card-series', onchange: () => {
        card.series = select.value;
        draw();
    }}, names.map(n => el('option', {value: n, selected: n === name}, n)));
    draw();
    return [select, holder];
}

function commands(run)
{
    const copy = (text, what) => el('button.small', {onclick: event => copyText(text, event.target),
        'aria-label': `Copy the ${what}`}, 'Copy');
    const file = (run.name || run.id).replace(/[^\w.-]+/g, '-');
    return [
        run.command ? [el('h3', {}, 'Command ', copy(run.command, 'command')),
            el('pre', {id: 'card-command', tabindex: 0}, run.command)] : '',
        run.recipe ? [el('h3', {}, 'Recipe ', copy(run.recipe, 'recipe'), ' ',
            el('button.small', {id: 'download-recipe', onclick: () => download(`${file}.yaml`, 'text/yaml',
                run.recipe)}, 'Download')), el('pre', {id: 'card-recipe', tabindex: 0}, run.recipe)] : '',
    ];
}

function tags(card, run)
{
    const said = el('p.hint', {role: 'status'});
    const attempt = async work => {
        try {
            await work();
            said.textContent = 'Saved.';
        } catch (error) {
            said.textContent = error.message;
        }
    };
    const tag = el('input', {type: 'text', 'aria-label': 'New tag', placeholder: 'tag'});
    const note = el('input', {type: 'text', 'aria-label': 'Note', placeholder: 'note', value: run.note || ''});
    return section(card, 'tags', `Tags and note${(run.tags || []).length ? `: ${run.tags.join(', ')}` : ''}`,
        el('p', {}, (run.tags || []).map(t => [el('button.small', {'aria-label': `Take off the tag ${t}`,
            onclick: () => attempt(() => setTag(run.id, t, false))}, `${t} ×`), ' '])),
        el('div.buttons', {}, tag, el('button.small', {onclick: () => tag.value.trim() &&
            attempt(() => setTag(run.id, tag.value.trim(), true))}, 'Tag')),
        el('div.buttons', {}, note, el('button.small', {onclick: () =>
            attempt(() => setNote(run.id, note.value))}, 'Keep note')), said);
}
