/* curve.js - values over training time, as a small line chart. */
import {formatNumber, formatTime, linearTicks, shortQuality} from './format.js';
import {reachOf, scaleOf} from './scales.js';
import {svg} from './dom.js';

/* Name -> [{x: seconds, y}] of a run as /api/runs/ID tells it: evaluations first, then what was logged. */
export function seriesOf(run)
{
    const series = new Map();
    for (const e of run.evals || []) {
        const name = `${e.label}/${e.metric}`;
        if (!series.has(name))
            series.set(name, []);
        series.get(name).push({x: e.train_seconds, y: e.value});
    }
    for (const [name, points] of Object.entries(run.points || {}))
        if (!series.has(name))
            series.set(name, points.map(p => ({x: p[2], y: p[3]})));
    for (const [name, points] of series) {
        const known = points.filter(p => Number.isFinite(p.x) && Number.isFinite(p.y))
            .sort((a, b) => a.x - b.x);
        if (known.length)
            series.set(name, known);
        else
            series.delete(name);
    }
    return series;
}

const SIZE = {w: 360, h: 200, left: 52, right: 10, top: 8, bottom: 24};

/* lines: {label, colour (of the groups), points}. */
export function drawCurve(lines, name)
{
    const {w, h, left, right, top, bottom} = SIZE;
    const all = lines.flatMap(l => l.points);
    const xs = reachOf(all.map(p => p.x).concat(0), false, 0) || [0, 1];
    const ys = reachOf(all.map(p => p.y), false, 0.05) || [0, 1];
    const x = scaleOf(xs[0], xs[1], left, w - right, false);
    const y = scaleOf(ys[0], ys[1], h - bottom, top, false);
    const text = (tx, ty, anchor, words) => svg('text', {x: tx, y: ty, 'text-anchor': anchor}, words);
    const parts = [];
    for (const t of linearTicks(xs[0], xs[1], 4, true))
        parts.push(text(x.at(t), h - 6, 'middle', formatTime(t)));
    for (const t of linearTicks(ys[0], ys[1], 4)) {
        parts.push(svg('line', {class: 'grid', x1: left, x2: w - right, y1: y.at(t), y2: y.at(t)}));
        parts.push(text(left - 5, y.at(t) + 4, 'end', shortQuality(t, name)));
    }
    for (const line of lines) {
        const path = line.points.map((p, i) => `${i ? 'L' : 'M'}${x.at(p.x).toFixed(1)} ${
            y.at(p.y).toFixed(1)}`).join('');
        parts.push(svg('path', {class: `line group${line.colour}`, d: path}));
        if (line.points.length <= 40)
            line.points.forEach(p => parts.push(svg('circle', {class: `point group${line.colour}`,
                cx: x.at(p.x), cy: y.at(p.y), r: 2.5})));
    }
    const ends = lines.map(l => (l.points.length ? `${l.label}: ${
        formatNumber(l.points[l.points.length - 1].y)} after ${
        formatTime(l.points[l.points.length - 1].x)}` : `${l.label}: nothing yet`));
    return svg('svg', {class: 'curve', viewBox: `0 0 ${w} ${h}`, role: 'img',
        'aria-label': `${name} over training time. ${ends.join('. ')}`}, parts);
}
