/* history.js - how the frontier moved: the area it covers as run after run ended, and who moved it. */
import {formatDate, formatQuality} from './format.js';
import {frontierHistory} from './frontier.js';
import {reachOf, scaleOf} from './scales.js';
import {el, fillWhenNew, svg} from './dom.js';
import {xText} from './words.js';

export function makeHistory(app)
{
    const root = el('div.historypane');
    return {root, update: scene => update(root, app, scene)};
}

function update(root, app, scene)
{
    const axis = app.state.sortBy.toLowerCase().startsWith('cost') ? 'cost' : 'time';
    const points = scene.single.filter(d => d.done && d[axis] > 0)
        .map(dot => ({x: dot[axis], quality: dot.quality, at: dot.run.ended ?? dot.run.started, dot}))
        .filter(p => Number.isFinite(p.at)).sort((a, b) => a.at - b.at);
    if (points.length < 2) {
        fillWhenNew(root, '', () => el('p.hint', {}, 'Needs two finished runs with a date.'));
        return;
    }
    const {areas, moves} = frontierHistory(points, scene.higher);
    fillWhenNew(root, [axis, scene.metric, areas, points.map(p => p.dot.key)], () => [
        el('h2', {}, `Frontier of quality and ${axis} as runs ended`),
        el('p.hint', {}, `Hypervolume (quality × ln ${axis}, from the worst run of all) after each of ${
            points.length} runs; ${moves.length} of them moved the frontier. A flat end says that more of the same ` +
            `brings little. “Rank by” chooses time or cost.`),
        chart(areas, moves),
        el('table.plain', {}, el('thead', {}, el('tr', {}, ['Ended', 'Run', scene.metric, axis]
            .map(t => el('th', {scope: 'col'}, t)))),
        el('tbody', {}, [...moves].reverse().slice(0, 100).map(i => el('tr', {},
            el('td', {}, formatDate(points[i].at)),
            el('td', {}, el('button.link', {onclick: () => app.select(points[i].dot)}, points[i].dot.run.name)),
            el('td.number', {}, formatQuality(points[i].quality, scene.metric)),
            el('td.number', {}, xText(points[i].x, axis)))))),
        moves.length > 100 ? el('p.hint', {}, `${moves.length - 100} older ones are not listed.`) : '']);
}

function chart(areas, moves)
{
    const [w, h] = [720, 220];
    const reach = reachOf(areas, false, 0.05);
    const x = scaleOf(0, areas.length - 1, 10, w - 10, false);
    const y = scaleOf(reach[0], reach[1], h - 10, 10, false);
    const path = areas.map((a, i) => `${i ? 'L' : 'M'}${x.at(i).toFixed(1)} ${y.at(a).toFixed(1)}`).join('');
    return svg('svg', {class: 'curve wide', viewBox: `0 0 ${w} ${h}`, role: 'img',
        'aria-label': `Hypervolume over ${areas.length} runs`},
    svg('path', {class: 'line group0', d: path}),
    moves.map(i => svg('circle', {class: 'point group0', cx: x.at(i), cy: y.at(areas[i]), r: 2.5})));
}
