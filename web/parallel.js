/* parallel.js - a line a run through chosen axes, coloured by quality; dragging along an axis keeps what
 * lies within. */
import {allFields, valueText} from './fields.js';
import {formatCost, formatTime, linearTicks, logTicks, shortQuality} from './format.js';
import {brushText, parseBrush} from './state.js';
import {reachOf, scaleOf} from './scales.js';
import {categoriesOf} from './scene.js';
import {colours, el, fill, fitCanvas} from './dom.js';
import {wordsOf} from './words.js';

const TOP = 46;
const BOTTOM = 18;
const STANDARD = ['model', 'methods', 'optimizer', 'optimizer.lr', 'batch_size', 'scale_schedule_ratio', 'seed', 'hardware', 'threads',
    'time', 'cost', 'quality'];
const OUTCOME = ['time', 'cost', 'quality'];
const MOST_VALUES = 40; /* an axis of more texts says nothing */

export function makeParallel(app)
{
    const base = el('canvas');
    const over = el('canvas');
    const box = el('div.parallel', {tabindex: 0, role: 'application', 'aria-label': 'Parallel coordinates. Up and down ' +
        'go through the runs, Enter selects. Drag along an axis to keep what lies within.'}, base, over);
    const picks = el('div.axes');
    const brushes = el('div.buttons');
    const p = {app, base, over, box, picks, brushes, axes: [], drag: null};
    listen(p);
    new ResizeObserver(() => p.scene && draw(p, p.scene)).observe(box);
    return {root: el('div.parallelpane', {}, brushes, box, el('details', {}, el('summary', {}, 'Axes'), picks)),
        update: scene => draw(p, scene), hover: () => drawOver(p)};
}

function candidates(scene)
{
    const dots = scene.single;
    return [...allFields().filter(f => !['id', 'note', 'progress', 'train_seconds', 'started'].includes(f.key)).filter(f => {
        if (f.kind === 'number')
            return dots.some(d => Number.isFinite(f.of(d.run)));
        const values = new Set(scene.runs.map(r => f.print(f.of(r))));
        return values.size > 1 && values.size <= MOST_VALUES;
    }).map(f => ({key: f.key, label: f.label, number: f.kind === 'number', of: d => f.of(d.run), print: f.print})),
    {key: 'time', label: 'Time', number: true, of: d => d.time, print: formatTime, log: true},
    {key: 'cost', label: 'Cost', number: true, of: d => d.cost, print: formatCost, log: true},
    {key: 'quality', label: scene.metric, number: true, of: d => d.quality,
        print: v => shortQuality(v, scene.metric)}];
}

/* Learning rates and their like, which are spread over powers of ten. */
function isWide(values)
{
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    return values.length > 2 && low > 0 && high / low > 30;
}

function setAxes(p, scene)
{
    const {state} = p.app;
    const all = candidates(scene);
    const varying = all.filter(a => new Set(scene.plottable.slice(0, 4000).map(a.of)).size > 1);
    const wanted = state.axes.length ? state.axes : STANDARD.filter(k => OUTCOME.includes(k) ||
        varying.some(a => a.key === k));
    const chosen = wanted.map(k => all.find(a => a.key === k)).filter(Boolean);
    const [w, h] = [p.box.clientWidth, p.box.clientHeight];
    const step = (w - 140) / Math.max(1, chosen.length - 1);
    p.axes = chosen.map((axis, i) => {
        const made = {...axis, x: 70 + i * step, row: step < 110 ? i % 2 : 0}; /* of its name */
        /* Axes reach over all runs of the data set, so that filters do not move them. */
        if (axis.number) {
            const values = [...new Set(scene.plottable.map(axis.of))].filter(Number.isFinite);
            const log = axis.log || isWide(values);
            const reach = reachOf(scene.plottable.map(axis.of), log, 0.02) || [0, 1];
            made.scale = scaleOf(reach[0], reach[1], h - BOTTOM, TOP, log);
            made.value = axis.of;
            made.few = values.length <= 8 ? values : null;
        } else {
            made.names = categoriesOf(scene.runs, axis.key);
            const place = new Map(made.names.map((v, n) => [v, n]));
            made.scale = scaleOf(-0.3, made.names.length - 0.7, h - BOTTOM, TOP, false);
            made.value = d => place.get(valueText(d.run, axis.key));
        }
        return made;
    });
    fill(p.picks, all.map(a => el('label.line', {}, el('input', {type: 'checkbox', checked: wanted.includes(a.key),
        onchange: event => p.app.set({axes: event.target.checked ? [...wanted, a.key] :
            wanted.filter(k => k !== a.key)})}), a.label)));
}

/* From poor (dark blue) to good (yellow), readable without red and green. */
function ramp(share)
{
    const stops = [[70, 60, 150], [45, 115, 180], [40, 165, 160], [120, 205, 95], [250, 225, 60]];
    const at = Math.max(0, Math.min(0.9999, share)) * (stops.length - 1);
    const i = Math.floor(at);
    const mix = stops[i].map((v, c) => Math.round(v + (at - i) * (stops[i + 1][c] - v)));
    return `rgb(${mix.join(',')})`;
}

function draw(p, scene)
{
    p.scene = scene;
    if (!p.box.clientWidth)
        return;
    setAxes(p, scene);
    const [w, h] = [p.box.clientWidth, p.box.clientHeight];
    p.colours = colours();
    const context = fitCanvas(p.base, w, h);
    const reach = reachOf(scene.single.map(d => d.quality), false, 0) || [0, 1];
    const shades = Array.from({length: 16}, (_, i) => ramp((i + 0.5) / 16));
    const shadeOf = dot => {
        const share = (dot.quality - reach[0]) / (reach[1] - reach[0] || 1);
        return shades[Math.min(15, Math.floor((scene.higher ? share : 1 - share) * 16))];
    };
    const alpha = Math.max(0.08, Math.min(0.7, 60 / Math.sqrt(scene.single.length + 1) / 4));
    /* Some hundred lines at a time, so that the page stays awake; a newer drawing ends an older one. */
    const turn = p.turn = (p.turn || 0) + 1;
    const some = from => {
        if (turn !== p.turn)
            return;
        context.globalAlpha = alpha;
        context.lineWidth = 1.2;
        for (const dot of scene.single.slice(from, from + 700)) {
            context.strokeStyle = shadeOf(dot);
            context.beginPath();
            trace(p, context, dot);
            context.stroke();
        }
        context.globalAlpha = 1;
        if (from + 700 < scene.single.length)
            requestAnimationFrame(() => some(from + 700));
    };
    some(0);
    drawOver(p);
    const {state} = p.app;
    fill(p.brushes, el('span.hint', {}, `${scene.single.length} runs`), state.brush.map(text => {
        const b = parseBrush(text);
        return b && el('button.small', {onclick: () => p.app.set({brush: state.brush.filter(t => t !== text)})},
            `${p.axes.find(a => a.key === b.field)?.label || b.field} ×`);
    }));
}

/* A line breaks where a run has no value. */
function trace(p, context, dot)
{
    let on = false;
    for (const axis of p.axes) {
        const y = axis.scale.at(axis.value(dot));
        if (Number.isFinite(y))
            context[on ? 'lineTo' : 'moveTo'](axis.x, y);
        on = Number.isFinite(y);
    }
}

function drawAxis(axis, context, c, h)
{
    context.strokeStyle = c.faint;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(axis.x, TOP);
    context.lineTo(axis.x, h - BOTTOM);
    context.stroke();
    context.textAlign = 'center';
    context.fillStyle = c.ink;
    context.fillText(axis.label.length > 18 ? `${axis.label.slice(0, 17)}…` : axis.label, axis.x,
        14 + 14 * axis.row);
    const label = (text, y) => {
        const short = text.length > 22 ? `${text.slice(0, 21)}…` : text;
        const width = context.measureText(short).width;
        context.globalAlpha = 0.75;
        context.fillStyle = c.panel;
        context.fillRect(axis.x - width / 2 - 3, y - 8, width + 6, 16);
        context.globalAlpha = 1;
        context.fillStyle = c.ink;
        context.fillText(short, axis.x, y + 4);
    };
    if (axis.names) {
        const every = Math.ceil(axis.names.length / Math.max(1, (h - TOP - BOTTOM) / 18));
        axis.names.forEach((name, i) => i % every === 0 && label(name, axis.scale.at(i)));
    } else {
        const ticks = axis.scale.log ? logTicks : linearTicks;
        (axis.few || ticks(axis.scale.low, axis.scale.high, 5, axis.key === 'time'))
            .forEach(t => label(axis.print(t), axis.scale.at(t)));
    }
}

function drawOver(p)
{
    if (!p.scene || !p.box.clientWidth)
        return;
    const [w, h] = [p.box.clientWidth, p.box.clientHeight];
    const context = fitCanvas(p.over, w, h);
    context.font = '12px system-ui, sans-serif';
    const line = (dot, colour, width) => {
        const runs = new Set(dot.runs);
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        p.scene.single.filter(d => runs.has(d.run)).forEach(d => trace(p, context, d));
        context.stroke();
    };
    if (p.app.selected)
        line(p.app.selected, p.colours.selected, 3);
    if (p.app.hovered)
        line(p.app.hovered, p.colours.ink, 2);
    p.axes.forEach(axis => drawAxis(axis, context, p.colours, h));
    context.fillStyle = p.colours.front;
    context.globalAlpha = 0.25;
    for (const b of p.app.state.brush.map(parseBrush).filter(Boolean)) {
        const axis = p.axes.find(a => a.key === b.field);
        if (axis)
            context.fillRect(axis.x - 9, axis.scale.at(b.high), 18, axis.scale.at(b.low) - axis.scale.at(b.high));
    }
    if (p.drag?.moved)
        context.fillRect(p.drag.axis.x - 9, Math.min(p.drag.y0, p.drag.y1), 18, Math.abs(p.drag.y1 - p.drag.y0));
    context.globalAlpha = 1;
}

function nearestLine(p, x, y)
{
    let best = null;
    let least = 8;
    for (const dot of p.scene.single)
        for (let i = 1; i < p.axes.length; i++) {
            const [a, b] = [p.axes[i - 1], p.axes[i]];
            if (x < a.x || x > b.x)
                continue;
            const [ya, yb] = [a.scale.at(a.value(dot)), b.scale.at(b.value(dot))];
            const distance = Math.abs(ya + (yb - ya) * (x - a.x) / (b.x - a.x) - y);
            if (distance < least) {
                least = distance;
                best = dot;
            }
        }
    return best && (p.scene.dots.find(d => d.runs.includes(best.run)) || best);
}

function listen(p)
{
    const {over, app, box} = p;
    const at = event => {
        const r = over.getBoundingClientRect();
        return [event.clientX - r.left, event.clientY - r.top];
    };
    over.addEventListener('pointerdown', event => {
        const [x, y] = at(event);
        const axis = p.axes.find(a => Math.abs(a.x - x) < 14);
        p.drag = {axis, y0: y, y1: y, moved: false};
        over.setPointerCapture(event.pointerId);
    });
    over.addEventListener('pointermove', event => {
        const [x, y] = at(event);
        if (!p.drag) {
            app.hover(nearestLine(p, x, y), 'parallel');
        } else if (p.drag.axis) {
            p.drag.y1 = y;
            p.drag.moved ||= Math.abs(y - p.drag.y0) > 4;
            drawOver(p);
        }
    });
    over.addEventListener('pointerup', event => {
        const {drag} = p;
        p.drag = null;
        if (drag?.moved) {
            const [low, high] = [drag.y0, drag.y1].map(y => drag.axis.scale.back(y)).sort((a, b) => a - b);
            app.set({brush: [...app.state.brush.filter(t => parseBrush(t)?.field !== drag.axis.key),
                brushText(drag.axis.key, low, high)]});
        } else {
            const hit = nearestLine(p, ...at(event));
            if (hit)
                app.select(hit);
        }
    });
    over.addEventListener('pointerleave', () => app.hover(null, 'parallel'));
    box.addEventListener('keydown', event => {
        const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
        const list = p.scene.dots;
        if (step && list.length) {
            event.preventDefault();
            const current = list.indexOf(app.hovered || app.selected);
            const next = list[Math.max(0, Math.min(list.length - 1, current + step))];
            app.hover(next, 'parallel');
            app.announce(wordsOf(p.scene, next));
        } else if (event.key === 'Enter' && app.hovered) {
            app.select(app.hovered);
        }
    });
}
