/* group.js - runs of one configuration together (mean, 95% interval), families that differ only in
 * length and seed, and what a method does in matched pairs. */
import {frontierOf, isBetter, xAtQuality} from './frontier.js';
import {hardwareOf} from './fields.js';

/* Student's t, 97.5%, for 1 to 30 degrees of freedom (any table of it); from there 1.96 + 2.4/n fits. */
const T975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052,
    2.048, 2.045, 2.042];

export function tQuantile(freedom)
{
    return freedom <= 30 ? T975[freedom - 1] : 1.96 + 2.4 / freedom;
}

/* {n, mean, half}: the interval is mean - half to mean + half; half is 0 where n is 1. */
export function meanOf(values)
{
    const known = values.filter(Number.isFinite);
    const n = known.length;
    if (n === 0)
        return {n, mean: NaN, half: 0};
    const mean = known.reduce((a, b) => a + b, 0) / n;
    if (n === 1)
        return {n, mean, half: 0};
    const spread = known.reduce((sum, v) => sum + (v - mean) * (v - mean), 0) / (n - 1);
    return {n, mean, half: tQuantile(n - 1) * Math.sqrt(spread / n)};
}

/* Mean of ratios: of their logarithms. */
export function ratioOf(values)
{
    const m = meanOf(values.filter(v => v > 0).map(Math.log));
    return {n: m.n, mean: Math.exp(m.mean), low: Math.exp(m.mean - m.half),
        high: Math.exp(m.mean + m.half)};
}

const keys = new WeakMap(); /* of a run; a run that changes is a new object */

function keysOf(run)
{
    let known = keys.get(run);
    if (!known) {
        const methods = [...(run.methods || [])].sort();
        const machine = [hardwareOf(run), run.threads, run.precision];
        const base = [run.dataset, run.model, run.optimizer, run.batch_size, ...machine];
        known = {
            pair: `${base.join('|')}|${run.base || ''}`, /* all its settings but methods and length */
            methods,
            family: `${base.join('|')}|${methods.join('+')}`,
            config: [run.group || `${base.join('|')}|${methods.join('+')}|${run.scale_schedule_ratio}|${
                run.max_duration}`, ...machine].join('|'),
        };
        keys.set(run, known);
    }
    return known;
}

/* One configuration on one kind of machine: runs that differ in seed and name only. */
export function configOf(run)
{
    return keysOf(run).config;
}

/* Same model, data, optimizer, batch size, methods and machine: they differ in length, seed and settings, and
 * their frontier is what the recipe can do. */
export function familyOf(run)
{
    return keysOf(run).family;
}

export function collect(list, keyOf)
{
    const map = new Map();
    for (const item of list) {
        const key = keyOf(item);
        const there = map.get(key);
        if (there)
            there.push(item);
        else
            map.set(key, [item]);
    }
    return map;
}

/* Dots of the same configuration as one dot each, with means and intervals. */
export function groupDots(dots)
{
    const grouped = [];
    for (const [key, members] of collect(dots, d => configOf(d.run))) {
        const [time, cost, quality] = ['time', 'cost', 'quality']
            .map(k => meanOf(members.map(d => d[k])));
        grouped.push({
            ...members[0],
            key,
            runs: members.map(d => d.run),
            front: {time: false, cost: false},
            time: time.mean,
            cost: cost.n === members.length ? cost.mean : NaN,
            quality: quality.mean,
            half: {time: time.half, cost: cost.half, quality: quality.half},
            estimated: members.some(d => d.estimated),
        });
    }
    return grouped;
}

/* ---- what a method does ---- */

/* For each method: recipes with it against recipes without it that agree in every other setting.
 * quality: difference of runs that agree in seed and length too; time, cost: with divided by without at
 * equal quality, the best that both families reach. */
export function methodEffects(dots, higher)
{
    const exactOf = run => `${keysOf(run).pair}|${keysOf(run).methods.join('+')}`;
    const families = collect(dots, d => exactOf(d.run));
    const twins = collect(dots, d => `${exactOf(d.run)}|${lengthOf(d.run)}`);
    const names = [...new Set(dots.flatMap(d => keysOf(d.run).methods))].sort();
    return names.map(method => {
        const effect = {method, runs: 0, families: 0, quality: [], time: [], cost: [], pairs: []};
        for (const [key, withIt] of families) {
            const known = keysOf(withIt[0].run);
            if (!known.methods.includes(method))
                continue;
            effect.runs += withIt.length;
            const others = known.methods.filter(m => m !== method);
            const partner = `${known.pair}|${others.join('+')}`;
            const without = families.get(partner);
            if (!without)
                continue;
            effect.families++;
            const pair = {key, partner, with: withIt.length, without: without.length};
            for (const x of ['time', 'cost'])
                pair[x] = ratioAtEqualQuality(withIt, without, x, higher);
            for (const x of ['time', 'cost'])
                pair[x] && effect[x].push(pair[x].ratio);
            effect.pairs.push(pair);
            for (const a of withIt)
                for (const b of twins.get(`${partner}|${lengthOf(a.run)}`) || [])
                    effect.quality.push(a.quality - b.quality);
        }
        return {...effect, quality: meanOf(effect.quality), time: ratioOf(effect.time),
            cost: ratioOf(effect.cost)};
    });
}

function lengthOf(run)
{
    return `${run.seed}|${run.scale_schedule_ratio}|${run.max_duration}`;
}

/* At the best quality that both reach; null where one of them has no x. */
export function ratioAtEqualQuality(some, others, x, higher)
{
    const [front, other] = [some, others].map(list => frontierOf(list
        .filter(d => d[x] > 0 && Number.isFinite(d.quality))
        .map(d => ({x: d[x], quality: d.quality})), higher));
    if (!front.length || !other.length)
        return null;
    const tops = [front, other].map(f => f[f.length - 1].quality);
    const quality = isBetter(tops[0], tops[1], higher) ? tops[1] : tops[0];
    return {quality, ratio: xAtQuality(front, quality, higher).x / xAtQuality(other, quality, higher).x};
}
