/* words.js - a dot and its savings, in words. */
import {savingOf} from './frontier.js';
import {formatCost, formatPercent, formatQuality, formatTime, formatTimes} from './format.js';
import {methodsOf, settingFields} from './fields.js';
import {baselineAt, rankOf} from './scene.js';

export function xText(value, axis)
{
    return axis === 'time' ? formatTime(value) : formatCost(value);
}

export function ratioText(x, baseline, axis)
{
    const saving = savingOf(x, baseline);
    return axis === 'time' ? formatTimes(saving.times, 'faster', 'slower', 'as fast') :
        formatPercent(saving.percent, 'cheaper', 'dearer', 'as cheap');
}

/* What a dot saves on an axis at equal quality: {short, long, line}; null without baseline or x.
 * First the dot itself against the baseline's family at the dot's quality; where that family never gets
 * there, the dot's family against the baseline at the baseline's quality. */
export function savingText(scene, dot, axis)
{
    const {baseline, metric} = scene;
    if (!baseline || !(dot[axis] > 0) || !(baseline[axis] > 0))
        return null;
    if (dot.key === baseline.key || dot.run.id === baseline.run.id)
        return {short: 'baseline', long: 'This is the baseline.', line: null};
    const there = baselineAt(scene, dot.quality, axis);
    if (there && !there.atMost) {
        const short = ratioText(dot[axis], there.x, axis);
        return {short, line: {from: dot[axis], to: there.x, quality: dot.quality},
            long: `At ${formatQuality(dot.quality, metric)} the baseline’s recipe needs ${
                xText(there.x, axis)}: ${short}.`};
    }
    const same = dot.same?.[axis];
    if (!same) {
        return {short: 'not reached', line: null,
            long: `Baseline’s quality (${formatQuality(baseline.quality, metric)}) not reached.`};
    }
    const short = ratioText(same.x, baseline[axis], axis);
    return {short, line: {from: same.x, to: baseline[axis], quality: baseline.quality},
        long: `The baseline’s ${formatQuality(baseline.quality, metric)} in ${
            same.atMost ? 'at most ' : ''}${xText(same.x, axis)}: ${short}.`};
}

export function nameOf(dot)
{
    return dot.runs.length > 1 ? `${dot.run.name} (${dot.runs.length} runs)` : dot.run.name || dot.run.id;
}

function statusOf(dot)
{
    const {run} = dot;
    if (!dot.running)
        return dot.done ? '' : run.status;
    return Number.isFinite(run.progress) ? `running, ${Math.round(100 * run.progress)}%` : 'running';
}

/* Lines of a tooltip. */
export function tipOf(scene, dot)
{
    const guess = dot.estimated ? '~' : '';
    const half = key => (dot.half && dot.runs.length > 1 ? dot.half[key] : 0);
    const spread = (text, value) => (value ? ` ± ${text}` : '');
    const {run} = dot;
    return [
        nameOf(dot),
        `${formatQuality(dot.quality, scene.metric)}${
            spread(formatQuality(half('quality'), scene.metric), half('quality'))} ${scene.metric}`,
        `${guess}${formatTime(dot.time)}${spread(formatTime(half('time')), half('time'))} · ${
            dot.estimatedCost ? '~' : ''}${formatCost(dot.cost)}`,
        `${run.model} · ${methodsOf(run)}`,
        [run.optimizer, run.batch_size && `batch ${run.batch_size}`,
            run.scale_schedule_ratio && run.scale_schedule_ratio !== 1 &&
            `schedule × ${run.scale_schedule_ratio}`, run.seed !== null && `seed ${run.seed}`]
            .filter(Boolean).join(' · '),
        settingsText(run),
        statusOf(dot),
    ].filter(Boolean);
}

const MOST_SETTINGS = 4; /* in a tooltip; the card has all of them */

/* Settings of the run in which runs differ: those that were given most values first. */
function settingsText(run)
{
    const known = settingFields().filter(f => f.print(f.of(run)) !== '–')
        .map(f => `${f.key} ${f.print(f.of(run))}`);
    const more = known.length - MOST_SETTINGS;
    return known.slice(0, MOST_SETTINGS).join(' · ') + (more > 0 ? ` · ${more} more` : '');
}

function ordinal(n)
{
    const end = n % 100 >= 11 && n % 100 <= 13 ? 'th' : {1: 'st', 2: 'nd', 3: 'rd'}[n % 10] || 'th';
    return `${n}${end}`;
}

function frontWords(dot)
{
    if (!dot.done)
        return `${statusOf(dot)}, not ranked`;
    const on = ['time', 'cost'].filter(x => dot.front[x]);
    return on.length ? `on the frontier of ${on.join(' and ')}` : 'dominated';
}

/* For those who listen: values, rank, frontier. */
export function wordsOf(scene, dot)
{
    const place = (key, name) => {
        const found = rankOf(scene, dot, key);
        return found ? `${ordinal(found.rank)} of ${found.of} by ${name}` : '';
    };
    return [
        nameOf(dot), formatQuality(dot.quality, scene.metric), formatTime(dot.time), formatCost(dot.cost),
        place('quality', 'quality'), place('time', 'time'), place('cost', 'cost'), frontWords(dot),
    ].filter(Boolean).join(', ');
}
