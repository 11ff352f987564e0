/* differ.js - only what differs among runs. */
import {RUN_FIELDS} from './fields.js';

const OUTCOMES = new Set(['id', 'status', 'train_seconds', 'eval_seconds', 'wall_seconds', 'loss',
    'samples_per_second', 'started', 'progress', 'note', 'tags', 'method_count', 'estimated']);

/* Everything that is known of a run (as /api/runs/ID tells it) as key -> text; its settings last. */
export function factsOf(run)
{
    const facts = new Map();
    for (const field of RUN_FIELDS)
        if (!OUTCOMES.has(field.key))
            facts.set(field.key, {label: field.label, text: field.print(field.of(run))});
    for (const [key, value] of Object.entries(run.settings || {}))
        facts.set(`settings.${key}`, {label: key, text: String(value)});
    for (const method of run.method_settings || [])
        for (const [key, value] of Object.entries(method.settings || {}))
            facts.set(`methods.${method.name}.${key}`, {label: `methods.${method.name}.${key}`,
                text: typeof value === 'object' ? JSON.stringify(value) : String(value)});
    return facts;
}

/* [{key, label, values}], values beside each other in the order of the runs, "–" where one has none. */
export function differences(runs)
{
    const all = runs.map(factsOf);
    const labels = new Map();
    for (const facts of all)
        for (const [key, fact] of facts)
            labels.set(key, fact.label);
    const rows = [];
    const seen = new Set(); /* a method's setting may stand among the settings too */
    for (const [key, label] of labels) {
        const values = all.map(facts => (facts.has(key) ? facts.get(key).text : '–'));
        if (values.every(v => v === values[0]) || seen.has(`${label}|${values.join('|')}`))
            continue;
        seen.add(`${label}|${values.join('|')}`);
        rows.push({key, label, values});
    }
    return rows;
}
