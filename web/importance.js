/* importance.js - what the quality hangs on: how much of its variance among runs goes when they are grouped by
 * a setting. */
import {fieldOf, settingFields} from './fields.js';
import {collect} from './group.js';

const COLUMNS = ['model', 'optimizer', 'batch_size', 'scale_schedule_ratio', 'max_duration', 'precision', 'threads',
    'hardware', 'seed'];
const MOST_VALUES = 8; /* a number with more of them is cut into so many parts of equal count */

function known(value)
{
    return typeof value === 'number' ? Number.isFinite(value) : value !== '';
}

/* The group of each value. */
function partsOf(values)
{
    const distinct = new Set(values);
    if (typeof values[0] !== 'number' || distinct.size <= MOST_VALUES)
        return values;
    const sorted = [...values].sort((a, b) => a - b);
    const cuts = Array.from({length: MOST_VALUES - 1}, (_, i) =>
        sorted[Math.floor((i + 1) * sorted.length / MOST_VALUES)]);
    return values.map(v => cuts.filter(c => c <= v).length);
}

function spread(values)
{
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    return values.reduce((sum, v) => sum + (v - mean) * (v - mean), 0);
}

/* Share of the variance of `values` between the groups, less what chance would give (epsilon squared: Kelley, PNAS 21,
 * 1935): 1 - (within / (n - k)) / (all / (n - 1)), not below 0. NaN where it says nothing. */
export function shareExplained(values, groups)
{
    const lists = collect(values.map((v, i) => ({v, g: groups[i]})), e => e.g);
    const [n, k] = [values.length, lists.size];
    const all = spread(values);
    const rounding = 1e-20 * values.reduce((sum, v) => sum + v * v, 0);
    if (k < 2 || n - k < 2 || !(all > rounding))
        return NaN;
    const within = [...lists.values()].reduce((sum, list) => sum + spread(list.map(e => e.v)), 0);
    return Math.max(0, 1 - within / (n - k) / (all / (n - 1)));
}

/* [{key, label, values, runs, quality, time}], what matters most first. */
export function importance(dots)
{
    const methods = [...new Set(dots.flatMap(d => d.run.methods || []))].sort();
    const fields = [...COLUMNS.map(fieldOf), ...settingFields().filter(f => !methods.includes(f.key.slice(8))),
        ...methods.map(m => ({key: `methods.${m}`, label: m, of: run => ((run.methods || []).includes(m) ? 'on' : 'off')}))];
    return fields.map(field => {
        const some = dots.map(dot => ({dot, value: field.of(dot.run)})).filter(e => known(e.value));
        const groups = some.length ? partsOf(some.map(e => e.value)) : [];
        return {key: field.key, label: field.label, runs: some.length, values: new Set(some.map(e => e.value)).size,
            quality: shareExplained(some.map(e => e.dot.quality), groups),
            time: shareExplained(some.map(e => Math.log(e.dot.time)), groups)};
    }).filter(e => Number.isFinite(e.quality)).sort((a, b) => b.quality - a.quality || a.key.localeCompare(b.key));
}
