/* scene.js - from runs and the state of the page to what every view shows. No drawing here. */
import {fitLog, frontierFlags, frontierOf, isBetter, xAtQuality} from './frontier.js';
import {cloudOf, fieldOf, hardwareOf, valueText} from './fields.js';
import {collect, configOf, familyOf, groupDots} from './group.js';
import {parseBrush} from './state.js';

export const COLOUR_COUNT = 8; /* groups with a colour of their own; the others share one */

/* ---- what one run is worth ---- */

/* What the seconds cost where the run was, or on `entry` of the price table. */
function usdOf(run, seconds, entry)
{
    if (entry)
        return seconds / 3600 * entry.usd_per_hour;
    if (seconds === run.train_seconds && Number.isFinite(run.usd))
        return run.usd;
    return Number.isFinite(run.usd_per_hour) ? seconds / 3600 * run.usd_per_hour : NaN;
}

/* A cost on other hardware is an estimate: the run's speed was not measured there. */
function isGuess(run, entry)
{
    return Boolean(run.estimated) || (entry !== null && hardwareOf(run) !== entry.name);
}

/* {usd, estimated, perHour, ...}: the cost and where it comes from. */
export function costOf(run, seconds, entry)
{
    const from = entry || run;
    const said = entry ? {kind: entry.kind, date: entry.date, source: entry.source, region: entry.region} :
        {kind: run.price_kind, date: run.price_date, source: run.price_source, region: run.price_region};
    return {...said, usd: usdOf(run, seconds, entry), perHour: from.usd_per_hour,
        estimated: isGuess(run, entry), repriced: Boolean(entry)};
}

function numberOr(value)
{
    return value === null || value === undefined ? NaN : Number(value);
}

function dotOf(run, scene, state)
{
    const metric = run.metrics ? run.metrics[scene.metric] : null;
    const time = numberOr(state.time === 'wall' ? run.wall_seconds : run.train_seconds);
    return {
        key: run.id, run, runs: [run], time,
        cost: usdOf(run, time, scene.entry),
        quality: metric ? numberOr(metric[state.statistic]) : NaN,
        estimated: Boolean(run.estimated),
        estimatedCost: isGuess(run, scene.entry),
        done: run.status === 'done',
        running: run.status === 'running',
        half: null,
        front: {time: false, cost: false},
    };
}

/* "" or why a run has no dot. A run that failed has no quality, whatever it had before. */
function whyNot(dot)
{
    if (dot.run.status === 'failed')
        return 'failed';
    if (!Number.isFinite(dot.quality))
        return 'without quality';
    return dot.time > 0 || dot.cost > 0 ? '' : 'without time';
}

/* ---- filters ---- */

export function matchesMethods(methods, wanted, mode)
{
    if (!wanted.length)
        return true;
    const has = name => methods.includes(name);
    switch (mode) {
    case 'all': return wanted.every(has);
    case 'none': return !wanted.some(has);
    case 'only': return wanted.every(has) && methods.length === wanted.length;
    default: return wanted.some(has);
    }
}

/* A function run -> boolean. */
export function filterOf(state)
{
    const within = (list, of) => (list.length ? (set => run => set.has(of(run)))(new Set(list)) : null);
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = [
        within(state.model, r => r.model),
        within(state.recipe, r => r.name),
        within(state.cloud, cloudOf),
        within(state.hardware, hardwareOf),
        within(state.seed, r => String(r.seed)),
        within(state.status, r => r.status),
        state.tag.length ? r => (r.tags || []).some(t => state.tag.includes(t)) : null,
        state.algorithms.length ?
            r => matchesMethods(r.methods || [], state.algorithms, state.algorithmsMode) : null,
        state.hideEstimated ? r => !r.estimated : null,
        words.length ? (r => {
            const text = [r.id, r.name, r.model, r.note, (r.methods || []).join(' '),
                (r.tags || []).join(' ')].join(' ').toLowerCase();
            return words.every(w => text.includes(w));
        }) : null,
    ].filter(Boolean);
    return run => tests.every(test => test(run));
}

/* The values of a text field in the order of their places on an axis. */
export function categoriesOf(runs, key)
{
    return [...new Set(runs.map(r => valueText(r, key)))].sort();
}

function brushesOf(state, runs)
{
    return state.brush.map(parseBrush).filter(Boolean).map(b => {
        if (['time', 'cost', 'quality'].includes(b.field))
            return dot => dot[b.field] >= b.low && dot[b.field] <= b.high;
        const field = fieldOf(b.field);
        if (!field)
            return () => true;
        if (field.kind === 'number')
            return dot => field.of(dot.run) >= b.low && field.of(dot.run) <= b.high;
        const at = new Map(categoriesOf(runs, b.field).map((v, i) => [v, i]));
        return dot => {
            const place = at.get(valueText(dot.run, b.field));
            return place >= b.low && place <= b.high;
        };
    });
}

/* ---- choices that nobody made ---- */

export function metricsOf(runs)
{
    const counts = new Map();
    for (const run of runs)
        for (const [name, value] of Object.entries(run.metrics || {}))
            counts.set(name, {count: (counts.get(name)?.count || 0) + 1,
                higher: value.higher_is_better !== false});
    return counts;
}

function chooseMetric(wanted, metrics)
{
    if (metrics.has(wanted))
        return wanted;
    if (metrics.has('eval/accuracy'))
        return 'eval/accuracy';
    return [...metrics].sort((a, b) => b[1].count - a[1].count || a[0].localeCompare(b[0]))[0]?.[0] || '';
}

/* The best among the runs with the fewest methods. */
function chooseBaseline(dots, higher)
{
    return dots.filter(d => d.done).reduce((best, d) => {
        const fewer = best ? (d.run.methods || []).length - (best.run.methods || []).length : -1;
        return fewer < 0 || (fewer === 0 && isBetter(d.quality, best.quality, higher)) ? d : best;
    }, null);
}

/* ---- the scene ---- */

/* What does not depend on filters is found once for a list of runs, which must not be changed then. */
const surveys = new WeakMap();

function surveyOf(allRuns)
{
    let survey = surveys.get(allRuns);
    if (!survey) {
        const sets = collect(allRuns, r => r.dataset);
        const datasets = [...sets.keys()].filter(Boolean).sort();
        const most = [...datasets].sort((a, b) => sets.get(b).length - sets.get(a).length)[0] || '';
        survey = {sets, datasets, most, metrics: new Map(), dots: new Map()};
        surveys.set(allRuns, survey);
    }
    return survey;
}

function once(map, key, make)
{
    if (!map.has(key))
        map.set(key, make());
    return map.get(key);
}

/* The dots of a scene are those of the next one too, with its marks: one scene at a time is drawn. */
export function sceneOf(allRuns, state, prices)
{
    const survey = surveyOf(allRuns);
    const dataset = survey.datasets.includes(state.dataset) ? state.dataset : survey.most;
    const runs = dataset ? survey.sets.get(dataset) : allRuns;
    const metrics = once(survey.metrics, dataset, () => metricsOf(runs));
    const scene = {
        datasets: survey.datasets, dataset, runs, metrics,
        metric: chooseMetric(state.metric, metrics),
        entry: (prices || []).find(p => p.name === state.price) || null,
        unplotted: [],
    };
    scene.higher = metrics.get(scene.metric)?.higher ?? true;
    const what = [dataset, scene.metric, state.statistic, state.time, scene.entry?.name,
        scene.entry?.usd_per_hour].join('|');
    if (survey.dots.size > 8)
        survey.dots.clear();
    scene.all = once(survey.dots, what, () => runs.map(run => dotOf(run, scene, state)));
    addDots(scene, state);
    addBaseline(scene, state);
    addFrontiers(scene);
    addSameQuality(scene);
    addColours(scene, state);
    sortDots(scene, state);
    return scene;
}

function addDots(scene, state)
{
    const keep = filterOf(state);
    const brushes = brushesOf(state, scene.runs);
    const good = [];
    scene.plottable = [];
    scene.filtered = [];
    for (const dot of scene.all) {
        dot.front = {time: false, cost: false};
        dot.same = dot.colour = undefined;
        const why = whyNot(dot);
        if (!why)
            scene.plottable.push(dot);
        if (!keep(dot.run) || !brushes.every(test => test(dot)))
            continue;
        scene.filtered.push(dot);
        if (why)
            scene.unplotted.push({run: dot.run, why});
        else
            good.push(dot);
    }
    scene.single = good;
    scene.dots = good;
    if (state.group)
        scene.dots = [...groupDots(good.filter(d => d.done)), ...good.filter(d => !d.done)];
}

export function findDot(scene, id)
{
    return id ? scene.dots.find(d => d.key === id || d.runs.some(r => r.id === id)) || null : null;
}

function addBaseline(scene, state)
{
    const inModel = state.model.length ?
        scene.plottable.filter(d => state.model.includes(d.run.model)) : scene.plottable;
    const chosen = scene.plottable.find(d => d.run.id === state.baseline);
    let baseline = chosen || chooseBaseline(inModel, scene.higher);
    if (baseline && state.group) {
        const alike = scene.plottable.filter(d => d.done && configOf(d.run) === configOf(baseline.run));
        baseline = alike.length ? groupDots(alike)[0] : baseline;
    }
    scene.baseline = baseline;
    scene.baselineChosen = Boolean(chosen);
}

function pointsOf(dots, x)
{
    return dots.filter(d => d.done && d[x] > 0)
        .map(dot => ({x: dot[x], quality: dot.quality, dot}));
}

function addFrontiers(scene)
{
    scene.front = {};
    scene.fit = {};
    for (const x of ['time', 'cost']) {
        const points = pointsOf(scene.dots, x);
        frontierFlags(points, scene.higher).forEach((flag, i) => { points[i].dot.front[x] = flag; });
        scene.front[x] = frontierOf(points, scene.higher);
        scene.fit[x] = fitLog(scene.front[x]);
    }
}

/* {rank, of} among the finished dots by time, cost or quality; ties share the better rank. null: it has none. */
export function rankOf(scene, dot, key)
{
    const known = scene.dots.filter(d => d.done && Number.isFinite(d[key]));
    if (!dot.done || !Number.isFinite(dot[key]))
        return null;
    const better = d => (key === 'quality' ? isBetter(d.quality, dot.quality, scene.higher) :
        d[key] < dot[key]);
    return {rank: 1 + known.filter(better).length, of: known.length};
}

/* What each dot's family needs for the baseline's quality, and the baseline's family for a dot's. */
function addSameQuality(scene)
{
    const families = collect(scene.dots, d => familyOf(d.run));
    const base = scene.baseline;
    for (const dots of families.values()) {
        const same = {};
        for (const x of ['time', 'cost'])
            same[x] = base && base[x] > 0 ?
                xAtQuality(frontierOf(pointsOf(dots, x), scene.higher), base.quality, scene.higher) : null;
        dots.forEach(d => { d.same = same; });
    }
    scene.baselineFront = {};
    for (const x of ['time', 'cost'])
        scene.baselineFront[x] = base ? frontierOf(pointsOf(
            scene.plottable.filter(d => familyOf(d.run) === familyOf(base.run)), x), scene.higher) : [];
}

export function baselineAt(scene, quality, x)
{
    return xAtQuality(scene.baselineFront[x], quality, scene.higher);
}

/* Colours are given in the order in which values first appeared, so they stay when runs come and filters
 * change. */
function addColours(scene, state)
{
    scene.colours = new Map();
    if (state.compare === 'none')
        return;
    const byStart = [...scene.runs].sort((a, b) => numberOr(a.started) - numberOr(b.started));
    for (const run of byStart) {
        const value = valueText(run, state.compare);
        if (!scene.colours.has(value))
            scene.colours.set(value, Math.min(scene.colours.size, COLOUR_COUNT));
    }
    const groups = collect(scene.dots, d => valueText(d.run, state.compare));
    scene.groups = [...groups].map(([value, dots]) => ({
        value,
        colour: scene.colours.get(value),
        count: dots.length,
        front: {time: frontierOf(pointsOf(dots, 'time'), scene.higher),
            cost: frontierOf(pointsOf(dots, 'cost'), scene.higher)},
    })).sort((a, b) => a.colour - b.colour || a.value.localeCompare(b.value));
    for (const [value, dots] of groups)
        dots.forEach(d => { d.colour = scene.colours.get(value); });
}

const LAST = Infinity;

export function sortValue(dot, by)
{
    switch (by) {
    case 'timeSameQuality': return dot.same?.time ? dot.same.time.x : LAST;
    case 'costSameQuality': return dot.same?.cost ? dot.same.cost.x : LAST;
    case 'quality': return dot.quality;
    default: return Number.isFinite(dot[by]) ? dot[by] : LAST;
    }
}

function sortDots(scene, state)
{
    const sign = state.sortBy === 'quality' && scene.higher ? -1 : 1;
    const compare = (a, b) => (a === b ? 0 : a < b ? -1 : 1); /* infinities too */
    scene.dots = scene.dots.map(d => ({d, v: sortValue(d, state.sortBy)}))
        .sort((a, b) => sign * compare(a.v, b.v) || compare(a.d.time, b.d.time) ||
            compare(a.d.key, b.d.key))
        .map(e => e.d);
}

/* Counts of what is not plotted: {failed: 3, ...}. */
export function unplottedCounts(scene)
{
    const counts = {};
    for (const {why} of scene.unplotted)
        counts[why] = (counts[why] || 0) + 1;
    return counts;
}
