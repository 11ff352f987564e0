/* scatter.js - quality over time or cost, on canvas: one layer for the dots, one for what moves. */
import {staircase} from './frontier.js';
import {formatCost, formatTime, linearTicks, logTicks, shortQuality} from './format.js';
import {reachOf, scaleOf} from './scales.js';
import {colours, el, fitCanvas} from './dom.js';
import {COLOUR_COUNT} from './scene.js';
import {savingText, tipOf, wordsOf} from './words.js';

const MARGIN = {left: 62, right: 14, top: 14, bottom: 38};
const RADIUS = {front: 6, plain: 3, hit: 14};

export function makeScatter(axis, app)
{
    const base = el('canvas', {'aria-hidden': 'true'});
    const over = el('canvas', {'aria-hidden': 'true'});
    const tip = el('div.tip', {hidden: true, 'aria-hidden': 'true'});
    const name = axis === 'time' ? 'Quality over training time' : 'Quality over cost';
    const box = el('div.plot', {tabindex: 0, role: 'application', id: `plot-${axis}`,
        'aria-roledescription': 'scatter plot', 'aria-label': `${name}. Arrow keys move between dots, ` +
        'Enter selects, B makes it the baseline, C adds it to the comparison, Escape lets go.'},
    base, over, tip);
    const title = el('h2', {}, axis === 'time' ? 'Time' : 'Cost');
    const root = el('section.scatter', {}, title, box);
    const plot = {axis, root, box, base, over, tip, title, app, places: [], reach: null, drag: null, cursor: ''};
    listen(plot);
    new ResizeObserver(() => plot.scene && draw(plot, plot.scene)).observe(box);
    return {
        root,
        update: scene => draw(plot, scene),
        hover: () => drawOver(plot),
        places: () => plot.places.map(p => ({id: p.dot.run.id, x: p.x, y: p.y, front: p.dot.front[axis]})),
    };
}

/* ---- scales ---- */

const RANGE = {time: ['xMin', 'xMax'], cost: ['costMin', 'costMax']};

function setScales(plot, scene)
{
    const {state} = plot.app;
    const [w, h] = [plot.box.clientWidth, plot.box.clientHeight];
    const log = state.x === 'log';
    const yLog = state.yScale === 'log';
    const shown = scene.baseline ? [...scene.dots, scene.baseline] : scene.dots;
    const within = (reach, low, high, isLog) => {
        const [a, b] = [low ?? reach[0], high ?? reach[1]];
        return a < b && !(isLog && a <= 0) ? [a, b] : reach;
    };
    /* Nothing matches: the axes stay as they were. */
    const xReach = reachOf(shown.map(d => d[plot.axis]), log, 0.06) || plot.reach?.x || [1, 10];
    const yReach = reachOf(shown.map(d => d.quality), yLog, 0.06) || plot.reach?.y || [0, 1];
    plot.reach = {x: xReach, y: yReach};
    if (!log && xReach[0] < 0)
        xReach[0] = 0;
    const [xLow, xHigh] = within(xReach, state[RANGE[plot.axis][0]], state[RANGE[plot.axis][1]], log);
    const [yLow, yHigh] = within(yReach, state.yMin, state.yMax, yLog);
    const ends = [MARGIN.left, w - MARGIN.right];
    if (state.reverse)
        ends.reverse();
    plot.w = w;
    plot.h = h;
    plot.x = scaleOf(xLow, xHigh, ends[0], ends[1], log);
    plot.y = scaleOf(yLow, yHigh, h - MARGIN.bottom, MARGIN.top, yLog);
}

/* ---- the lower layer ---- */

function draw(plot, scene)
{
    plot.scene = scene;
    if (!plot.box.clientWidth)
        return;
    setScales(plot, scene);
    plot.colours = colours();
    const context = fitCanvas(plot.base, plot.w, plot.h);
    context.font = '12px system-ui, sans-serif';
    drawAxes(plot, context);
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, plot.w - MARGIN.left - MARGIN.right, plot.h - MARGIN.bottom);
    context.clip();
    placeDots(plot);
    if (plot.app.state.group)
        drawBars(plot, context);
    drawDots(plot, context);
    drawCurves(plot, context);
    drawBaseline(plot, context);
    context.restore();
    drawOver(plot);
}

function drawAxes(plot, context)
{
    const c = plot.colours;
    const {axis, x, y, w, h} = plot;
    const count = Math.max(3, Math.floor((w - MARGIN.left) / 90));
    const xTicks = x.log ? logTicks(x.low, x.high, count, axis === 'time') :
        linearTicks(x.low, x.high, count, axis === 'time');
    const yTicks = y.log ? logTicks(y.low, y.high, 6) : linearTicks(y.low, y.high, 6);
    context.strokeStyle = c.grid;
    context.lineWidth = 1;
    context.beginPath();
    for (const t of xTicks) {
        context.moveTo(Math.round(x.at(t)) + 0.5, MARGIN.top);
        context.lineTo(Math.round(x.at(t)) + 0.5, h - MARGIN.bottom);
    }
    for (const t of yTicks) {
        context.moveTo(MARGIN.left, Math.round(y.at(t)) + 0.5);
        context.lineTo(w - MARGIN.right, Math.round(y.at(t)) + 0.5);
    }
    context.stroke();
    context.fillStyle = c.faint;
    context.textAlign = 'center';
    for (const t of xTicks)
        context.fillText(axis === 'time' ? formatTime(t) : formatCost(t), x.at(t), h - MARGIN.bottom + 17);
    context.textAlign = 'right';
    for (const t of yTicks)
        context.fillText(shortQuality(t, plot.scene.metric), MARGIN.left - 7, y.at(t) + 4);
    const label = axis === 'time' ? timeLabel(plot.app.state) : costLabel(plot.scene);
    context.textAlign = 'center';
    context.fillText(label, (MARGIN.left + w - MARGIN.right) / 2, h - 5);
}

function timeLabel(state)
{
    return state.time === 'wall' ? 'wall clock, with evaluation' : 'training time, without evaluation';
}

function costLabel(scene)
{
    return scene.entry ? `re-priced: ${scene.entry.name}, ${formatCost(scene.entry.usd_per_hour)}/h` :
        'US dollars, at each run’s own price';
}

function placeDots(plot)
{
    const {x, y, axis, scene, w, h} = plot;
    const {state} = plot.app;
    plot.places = [];
    for (const dot of scene.dots) {
        const value = dot[axis];
        if (!(value > 0))
            continue;
        if (state.hideDominated && dot.done && !dot.front[axis])
            continue;
        const at = {dot, x: x.at(value), y: y.at(dot.quality)};
        if (at.x >= MARGIN.left - 1 && at.x <= w - MARGIN.right + 1 && at.y >= 0 &&
            at.y <= h - MARGIN.bottom + 1)
            plot.places.push(at);
    }
    plot.byKey = new Map(plot.places.map(p => [p.dot.key, p]));
}

function colourOf(plot, dot)
{
    if (dot.colour !== undefined)
        return plot.colours.groups[dot.colour];
    return dot.front[plot.axis] ? plot.colours.front : plot.colours.dot;
}

/* Dots that look alike are one path: ten thousand take a few milliseconds. */
function drawDots(plot, context)
{
    const looks = new Map();
    for (const place of plot.places) {
        const {dot} = place;
        const front = dot.front[plot.axis];
        const guessed = plot.axis === 'cost' ? dot.estimatedCost : dot.estimated;
        const shape = dot.running ? 'ring' : !dot.done ? 'cross' : guessed ? 'diamond' : 'disc';
        const colour = colourOf(plot, dot);
        const look = `${front ? 1 : 0}|${shape}|${colour}`;
        if (!looks.has(look))
            looks.set(look, {front, shape, colour, list: []});
        looks.get(look).list.push(place);
    }
    for (const look of [...looks.values()].sort((a, b) => a.front - b.front)) {
        const r = look.front ? RADIUS.front : RADIUS.plain;
        const hollow = look.shape === 'ring' || look.shape === 'cross' || look.shape === 'diamond';
        context.globalAlpha = look.front || look.shape === 'ring' ? 1 : 0.5;
        context.fillStyle = context.strokeStyle = look.colour;
        context.lineWidth = 1.6;
        context.beginPath();
        for (const p of look.list)
            SHAPES[look.shape](context, p.x, p.y, look.shape === 'ring' ? 5 : r);
        if (hollow)
            context.stroke();
        else
            context.fill();
    }
    context.globalAlpha = 1;
}

const SHAPES = {
    disc: circle,
    ring: circle,
    diamond(c, x, y, r) {
        c.moveTo(x, y - r - 1);
        c.lineTo(x + r + 1, y);
        c.lineTo(x, y + r + 1);
        c.lineTo(x - r - 1, y);
        c.closePath();
    },
    cross(c, x, y, r) {
        c.moveTo(x - r, y - r);
        c.lineTo(x + r, y + r);
        c.moveTo(x - r, y + r);
        c.lineTo(x + r, y - r);
    },
};

function circle(c, x, y, r)
{
    c.moveTo(x + r, y);
    c.arc(x, y, r, 0, 2 * Math.PI);
}

function drawBars(plot, context)
{
    context.lineWidth = 1;
    for (const {dot, x, y} of plot.places) {
        if (!dot.half || dot.runs.length < 2)
            continue;
        context.strokeStyle = colourOf(plot, dot);
        context.globalAlpha = dot.front[plot.axis] ? 0.9 : 0.35;
        context.beginPath();
        context.moveTo(x, plot.y.at(Math.max(dot.quality - dot.half.quality, plot.y.low)));
        context.lineTo(x, plot.y.at(dot.quality + dot.half.quality));
        const low = Math.max(dot[plot.axis] - dot.half[plot.axis], plot.x.low);
        context.moveTo(plot.x.at(low), y);
        context.lineTo(plot.x.at(dot[plot.axis] + dot.half[plot.axis]), y);
        context.stroke();
    }
    context.globalAlpha = 1;
}

function drawCurves(plot, context)
{
    const {state} = plot.app;
    const {scene, axis, x, y} = plot;
    const stairs = state.curve === 'both' || state.curve === 'stairs';
    const steps = (front, colour, width) => {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        staircase(front, x.high).forEach((p, i) =>
            context[i ? 'lineTo' : 'moveTo'](x.at(p.x), y.at(p.quality)));
        context.stroke();
    };
    if (stairs && scene.groups && scene.groups.length > 1)
        scene.groups.filter(g => g.colour < COLOUR_COUNT).forEach(g =>
            steps(g.front[axis], plot.colours.groups[g.colour], 1));
    context.globalAlpha = 0.55;
    if (stairs)
        steps(scene.front[axis], plot.colours.front, 1);
    context.globalAlpha = 1;
    const fit = scene.fit[axis];
    if (!fit || (state.curve !== 'both' && state.curve !== 'fit'))
        return;
    context.strokeStyle = plot.colours.fit;
    context.lineWidth = 2;
    context.setLineDash([1, 5]);
    context.lineCap = 'round';
    context.beginPath();
    const from = scene.front[axis][0].x;
    for (let i = 0; i <= 60; i++) {
        const value = from * (x.high / from) ** (i / 60);
        context[i ? 'lineTo' : 'moveTo'](x.at(value), y.at(fit.a + fit.b * Math.log(value)));
    }
    context.stroke();
    context.setLineDash([]);
}

function drawBaseline(plot, context)
{
    const {baseline} = plot.scene;
    if (!baseline || !(baseline[plot.axis] > 0))
        return;
    const [px, py] = [plot.x.at(baseline[plot.axis]), plot.y.at(baseline.quality)];
    context.strokeStyle = plot.colours.baseline;
    context.fillStyle = plot.colours.baseline;
    context.lineWidth = 2.5;
    context.beginPath();
    circle(context, px, py, 9);
    context.stroke();
    const left = px > plot.w - 90;
    context.textAlign = left ? 'right' : 'left';
    context.fillText('Baseline', px + (left ? -14 : 14), py + (py < 30 ? 16 : -8));
}

/* ---- the upper layer ---- */

function drawOver(plot)
{
    const {scene, app, axis} = plot;
    if (!scene || !plot.box.clientWidth)
        return;
    const context = fitCanvas(plot.over, plot.w, plot.h);
    const c = plot.colours;
    context.font = '12px system-ui, sans-serif';
    for (const id of app.state.run) {
        const place = plot.places.find(p => p.dot.runs.some(r => r.id === id));
        if (place) {
            context.strokeStyle = c.selected;
            context.lineWidth = 1.5;
            context.beginPath();
            circle(context, place.x, place.y, 8);
            context.stroke();
        }
    }
    const selected = app.selected && plot.byKey.get(app.selected.key);
    for (const place of plot.places)
        if (place.dot.running || place === selected)
            drawTrail(plot, context, place);
    if (selected) {
        drawSaving(plot, context, selected);
        context.fillStyle = c.selected;
        context.beginPath();
        circle(context, selected.x, selected.y, RADIUS.front + 1);
        context.fill();
    }
    const hovered = app.hovered && plot.byKey.get(app.hovered.key);
    if (hovered) {
        context.strokeStyle = c.ink;
        context.lineWidth = 1.5;
        context.beginPath();
        circle(context, hovered.x, hovered.y, RADIUS.front + 4);
        context.stroke();
    }
    if (plot.drag?.moved) {
        const {x0, y0, x1, y1} = plot.drag;
        context.strokeStyle = c.ink;
        context.setLineDash([4, 3]);
        context.strokeRect(x0, y0, x1 - x0, y1 - y0);
        context.setLineDash([]);
    }
    showTip(plot, hovered && app.hoverFrom === axis ? hovered : null);
}

/* A run's own curve up to its dot. */
function drawTrail(plot, context, place)
{
    const {scene, app, axis, x, y} = plot;
    const {run} = place.dot;
    const scale = axis === 'time' ? place.dot.time / run.train_seconds : place.dot.cost / run.train_seconds;
    const points = place.dot.runs.length > 1 ? [] : app.trailOf(run, scene.metric);
    if (points.length < 2 || !Number.isFinite(scale))
        return;
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, plot.w - MARGIN.left - MARGIN.right,
        plot.h - MARGIN.bottom - MARGIN.top);
    context.clip();
    context.strokeStyle = place.dot.running ? plot.colours.front : plot.colours.selected;
    context.globalAlpha = 0.5;
    context.beginPath();
    points.forEach((p, i) => context[i ? 'lineTo' : 'moveTo'](x.at(p.x * scale), y.at(p.y)));
    context.stroke();
    context.restore();
}

/* A dotted line at equal quality from the selected dot to where the baseline's family gets there, or from
 * the baseline to where the selected family does. */
function drawSaving(plot, context, place)
{
    const saving = savingText(plot.scene, place.dot, plot.axis);
    if (!saving || !saving.line)
        return;
    const {from, to, quality} = saving.line;
    const y = plot.y.at(quality);
    context.strokeStyle = plot.colours.selected;
    context.lineWidth = 1.5;
    context.setLineDash([2, 4]);
    context.beginPath();
    context.moveTo(plot.x.at(from), y);
    context.lineTo(plot.x.at(to), y);
    context.stroke();
    context.setLineDash([]);
    const value = plot.axis === 'time' ? formatTime(place.dot.time) : formatCost(place.dot.cost);
    const text = `${value} – ${saving.short}`;
    const width = context.measureText(text).width + 14;
    const left = Math.min(Math.max(place.x + 12, MARGIN.left), plot.w - MARGIN.right - width);
    const above = y > place.y + 2 || place.y + 12 > plot.h - MARGIN.bottom - 22; /* off the line */
    const top = above && place.y > 48 ? place.y - 34 : place.y + 12;
    context.fillStyle = plot.colours.panel;
    context.fillRect(left, top, width, 22);
    context.fillStyle = plot.colours.ink;
    context.textAlign = 'left';
    context.fillText(text, left + 7, top + 15);
}

function showTip(plot, place)
{
    plot.tip.hidden = !place;
    if (!place)
        return;
    plot.tip.replaceChildren(...tipOf(plot.scene, place.dot).map(line => el('div', {}, line)));
    const right = place.x > plot.w / 2;
    plot.tip.style.left = right ? '' : `${place.x + 16}px`;
    plot.tip.style.right = right ? `${plot.w - place.x + 16}px` : '';
    plot.tip.style.top = `${Math.max(4, Math.min(place.y - 20, plot.h - 150))}px`;
}

/* ---- hands and keys ---- */

function nearest(plot, x, y)
{
    let best = null;
    let least = RADIUS.hit * RADIUS.hit;
    for (const place of plot.places) {
        const d = (place.x - x) ** 2 + (place.y - y) ** 2 - (place.dot.front[plot.axis] ? 30 : 0);
        if (d < least) {
            least = d;
            best = place;
        }
    }
    return best;
}

function listen(plot)
{
    const {over, app, box} = plot;
    const at = event => {
        const r = over.getBoundingClientRect();
        return [event.clientX - r.left, event.clientY - r.top];
    };
    over.addEventListener('pointerdown', event => {
        const [x, y] = at(event);
        plot.drag = {x0: x, y0: y, x1: x, y1: y, moved: false};
        over.setPointerCapture(event.pointerId);
    });
    over.addEventListener('pointermove', event => {
        const [x, y] = at(event);
        if (plot.drag) {
            Object.assign(plot.drag, {x1: x, y1: y});
            plot.drag.moved ||= Math.hypot(x - plot.drag.x0, y - plot.drag.y0) > 8;
            if (plot.drag.moved)
                drawOver(plot);
            return;
        }
        /* A mouse that rests while the page moves below it does not take over from the keys. */
        if (event.movementX || event.movementY)
            app.hover(nearest(plot, x, y)?.dot || null, plot.axis);
    });
    over.addEventListener('pointerup', event => {
        const drag = plot.drag;
        plot.drag = null;
        if (drag?.moved)
            zoom(plot, drag);
        else
            app.select(nearest(plot, ...at(event))?.dot || null);
        plot.cursor = app.selected?.key || '';
    });
    over.addEventListener('pointercancel', () => { plot.drag = null; });
    over.addEventListener('pointerleave', () => plot.drag || app.hover(null, plot.axis));
    over.addEventListener('dblclick', () => app.resetZoom());
    box.addEventListener('keydown', event => onKey(plot, event));
    box.addEventListener('blur', () => {
        plot.cursor = '';
        app.hover(null, plot.axis);
    });
}

function zoom(plot, drag)
{
    const sorted = (a, b) => (a < b ? [a, b] : [b, a]);
    const short = v => Number(v.toPrecision(5));
    const [xLow, xHigh] = sorted(plot.x.back(drag.x0), plot.x.back(drag.x1)).map(short);
    const [yLow, yHigh] = sorted(plot.y.back(drag.y0), plot.y.back(drag.y1)).map(short);
    const [low, high] = RANGE[plot.axis];
    plot.app.set({[low]: xLow, [high]: xHigh, yMin: yLow, yMax: yHigh});
}

/* Left and right go along the axis (as it is seen), up and down along the quality, Home and End to the
 * ends, F to the next dot of the frontier. */
function onKey(plot, event)
{
    const {app, axis} = plot;
    if (event.ctrlKey || event.metaKey || event.altKey)
        return;
    const current = plot.byKey?.get(plot.cursor)?.dot || app.selected;
    const move = (order, step) => {
        if (!order.length)
            return;
        const at = current ? order.findIndex(p => p.dot.key === current.key) : -1;
        const next = at < 0 ? (step === -1 || step === Infinity ? order.length - 1 : 0) :
            Math.min(order.length - 1, Math.max(0, at + step));
        plot.cursor = order[next].dot.key;
        app.hover(order[next].dot, axis);
        app.announce(wordsOf(plot.scene, order[next].dot));
    };
    const byX = () => [...plot.places].sort((a, b) => a.x - b.x || b.y - a.y);
    const byY = () => [...plot.places].sort((a, b) => b.y - a.y || a.x - b.x);
    const actions = {
        ArrowRight: () => move(byX(), 1),
        ArrowLeft: () => move(byX(), -1),
        ArrowUp: () => move(byY(), 1),
        ArrowDown: () => move(byY(), -1),
        Home: () => move(byX(), -Infinity),
        End: () => move(byX(), Infinity),
        f: () => {
            const front = byX().filter(p => p.dot.front[axis]);
            const at = current ? front.findIndex(p => p.dot.key === current.key) : -1;
            if (front.length)
                move(front, at === front.length - 1 ? -Infinity : 1);
        },
        Enter: () => current && app.select(current),
        ' ': () => current && app.select(current),
        b: () => current && app.set({baseline: current.run.id}),
        c: () => current && app.toggleCompared(current.run.id),
        Escape: () => {
            plot.cursor = '';
            app.select(null);
        },
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) {
        event.preventDefault();
        action();
    }
}
