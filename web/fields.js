/* fields.js - what is known of a run, one row a field: how to read it, name it, print it. Tables,
 * colours, parallel coordinates, comparison and CSV all read this list. */
import {formatCost, formatDate, formatNumber, formatTime} from './format.js';

export function cloudOf(run)
{
    if (!run.hardware || run.hardware === 'local')
        return 'local';
    const word = /^[\w.+-]+/.exec(run.price_source || '');
    if (/\baws\b/i.test(run.price_source || '') || /^[a-z]+\d+[a-z-]*\.[\w-]+$/.test(run.hardware))
        return 'aws';
    return /^lambda/i.test(run.hardware) ? 'lambda' : (word ? word[0].toLowerCase() : 'other');
}

export function hardwareOf(run)
{
    return run.hardware || 'local';
}

export function methodsOf(run)
{
    return run.methods && run.methods.length ? [...run.methods].sort().join(' + ') : 'none';
}

const text = (key, label) => ({key, label, kind: 'text', of: run => run[key] ?? '',
    print: v => (v === null || v === undefined || v === '' ? '–' : String(v))});
const number = (key, label, print) => ({key, label, kind: 'number',
    of: run => (Number.isFinite(run[key]) ? run[key] : NaN), print: print || formatNumber});

export const RUN_FIELDS = [
    text('name', 'Name'),
    text('id', 'Id'),
    text('status', 'Status'),
    text('model', 'Model'),
    {...text('methods', 'Methods'), of: methodsOf},
    {...number('method_count', 'Methods, number'), of: run => (run.methods || []).length},
    number('scale_schedule_ratio', 'Scale schedule ratio'),
    number('seed', 'Seed', v => (Number.isFinite(v) ? String(v) : '–')),
    text('optimizer', 'Optimizer'),
    number('batch_size', 'Batch size'),
    text('max_duration', 'Duration'),
    number('epochs', 'Epochs'),
    number('batches', 'Batches'),
    number('samples', 'Samples'),
    number('parameters', 'Parameters'),
    number('samples_per_second', 'Samples per second'),
    number('loss', 'Last loss'),
    number('progress', 'Progress', v => (Number.isFinite(v) ? `${Math.round(100 * v)}%` : '–')),
    number('train_seconds', 'Training time', formatTime),
    number('eval_seconds', 'Evaluation time', formatTime),
    number('wall_seconds', 'Wall clock', formatTime),
    text('precision', 'Precision'),
    number('threads', 'Threads'),
    number('cores', 'Cores'),
    text('processor', 'Processor'),
    {...text('hardware', 'Hardware'), of: hardwareOf},
    {...text('cloud', 'Cloud'), of: cloudOf},
    number('usd_per_hour', 'Price per hour', formatCost),
    text('price_kind', 'Price kind'),
    text('price_region', 'Price region'),
    text('price_date', 'Price date'),
    text('price_source', 'Price source'),
    {...text('estimated', 'Measured'), of: run => (run.estimated ? 'estimated' : 'measured')},
    number('started', 'Started', formatDate),
    text('source', 'Source'),
    text('version', 'Version'),
    text('git_commit', 'Commit'),
    {...text('tags', 'Tags'), of: run => (run.tags || []).join(' ')},
    text('note', 'Note'),
];

const BY_KEY = new Map(RUN_FIELDS.map(f => [f.key, f]));
BY_KEY.set('recipe', {...BY_KEY.get('name'), key: 'recipe', label: 'Recipe'});

/* ---- settings: what /api/settings tells, as fields of their own ---- */

let settings = [];

/* Of {runs, settings: [{key, values, of}]}. A setting whose values are all numbers is one. */
export function learnSettings(told)
{
    const at = new Map(told.runs.map((id, i) => [id, i]));
    settings.forEach(f => BY_KEY.delete(f.key));
    settings = told.settings.filter(s => !BY_KEY.has(s.key)).map(({key, values, of}) => {
        const textOf = run => values[of[at.get(run.id)]] ?? '';
        if (!values.every(v => v.trim() !== '' && Number.isFinite(Number(v))))
            return {...text(key, key), of: textOf};
        const numbers = values.map(Number);
        return {...number(key, key), of: run => numbers[of[at.get(run.id)]] ?? NaN};
    });
    settings.forEach(f => BY_KEY.set(f.key, f));
}

export function settingFields()
{
    return settings;
}

/* Columns of a run, then settings in which runs differ. */
export function allFields()
{
    return [...RUN_FIELDS, ...settings];
}

export function fieldOf(key)
{
    return BY_KEY.get(key);
}

/* What a run is coloured by; text. */
export function valueText(run, key)
{
    const field = BY_KEY.get(key);
    return field ? field.print(field.of(run)) : '';
}
