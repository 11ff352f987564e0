/* main.js - starts the page: reads the address and the runs, and keeps all views at one state. */
import {parseState, queryOf} from './state.js';
import {findDot, sceneOf} from './scene.js';
import {loadPrices, loadRun, loadRuns, loadSettings, watchRuns} from './data.js';
import {learnSettings} from './fields.js';
import {seriesOf} from './curve.js';
import {wordsOf} from './words.js';
import {makeCard} from './card.js';
import {makeFilters} from './filters.js';
import {makeHead} from './head.js';
import {makeViews} from './views.js';
import {el, fill} from './dom.js';

const app = {
    state: parseState(location.search),
    runs: new Map(),
    list: [], /* the same as an array, a new one whenever a run changes */
    prices: [],
    scene: null,
    selected: null,
    hovered: null,
    hoverFrom: '',
    connected: null,
};
const MOST_TRAILS = 24; /* each is a question to the server */
const parts = [];
let waiting = false;

/* ---- what views may ask for ---- */

app.set = (patch, {replace = false} = {}) => {
    Object.assign(app.state, patch);
    const query = queryOf(app.state);
    const url = query ? `?${query}` : location.pathname;
    if (`?${query}` !== location.search && !(query === '' && location.search === ''))
        history[replace ? 'replaceState' : 'pushState'](null, '', url);
    app.render();
};

app.select = dot => {
    app.set({selected: dot ? dot.run.id : ''});
    app.announce(dot && app.selected ? `Selected: ${wordsOf(app.scene, app.selected)}` :
        'Nothing selected');
};

app.hover = (dot, from) => {
    if (app.hovered === dot && app.hoverFrom === from)
        return;
    app.hovered = dot;
    app.hoverFrom = from;
    parts.forEach(p => p.hover && p.hover());
};

app.toggleCompared = id => {
    const there = app.state.run.includes(id);
    app.set({run: there ? app.state.run.filter(r => r !== id) : [...app.state.run, id]});
    app.announce(there ? 'Taken out of the comparison' :
        `In the comparison: ${app.state.run.length} runs`);
};

app.resetZoom = () => app.set({xMin: null, xMax: null, costMin: null, costMax: null, yMin: null,
    yMax: null});

app.announce = text => {
    document.getElementById('live').textContent = text;
};

app.runById = id => app.runs.get(id);

const trails = new Map(); /* id -> what /api/runs/ID told last, as series */

/* A run's values over time, as far as they are known; asks for them, and draws again when they come. */
app.trailOf = (run, metric) => {
    const known = trails.get(run.id);
    if (known?.run !== run && trails.size < MOST_TRAILS) {
        trails.set(run.id, {run, series: known?.series || new Map()});
        loadRun(run).then(detail => {
            trails.set(run.id, {run, series: seriesOf(detail)});
            parts.forEach(p => p.hover && p.hover());
        }).catch(() => trails.delete(run.id));
    }
    return known?.series.get(metric) || [];
};

/* ---- drawing ---- */

let sceneKey = '';

/* Selecting, comparing and changing the view leave the scene as it is. */
function sceneNow()
{
    const key = queryOf({...app.state, selected: '', run: [], view: 'frontier', theme: '', sort: '',
        allColumns: false, axes: []});
    if (!app.scene || app.sceneList !== app.list || sceneKey !== key) {
        sceneKey = key;
        app.sceneList = app.list;
        return sceneOf(app.list, app.state, app.prices);
    }
    return app.scene;
}

app.render = () => {
    const began = performance.now();
    document.documentElement.dataset.theme = app.state.theme ||
        (matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark');
    const scene = sceneNow();
    app.scene = scene;
    app.selected = findDot(scene, app.state.selected);
    for (const id of trails.keys())
        if (id !== app.state.selected && app.runs.get(id)?.status !== 'running')
            trails.delete(id);
    if (app.hovered)
        app.hovered = scene.dots.find(d => d.key === app.hovered.key) || null;
    parts.forEach(p => p.update(scene));
    document.documentElement.dataset.updateMs = (performance.now() - began).toFixed(1);
    document.documentElement.dataset.shown = scene.dots.length;
};

/* Many changes, one drawing. */
function renderSoon()
{
    if (waiting)
        return;
    waiting = true;
    setTimeout(() => {
        waiting = false;
        app.render();
    }, 100);
}

/* ---- settings: asked for when a run is there whose settings are not known, not too often ---- */

const settled = new Set(); /* ids */
let settling = false;

async function settle()
{
    if (settling || app.list.every(run => settled.has(run.id)))
        return;
    settling = true;
    const told = await loadSettings();
    if (told) {
        learnSettings(told);
        app.list.forEach(run => settled.add(run.id));
        app.sceneList = null;
        app.render();
    }
    setTimeout(() => {
        settling = false;
        if (told)
            settle();
    }, 5000);
}

function takeRuns(runs, whole)
{
    if (whole)
        app.runs.clear();
    runs.forEach(run => app.runs.set(run.id, run));
    app.list = [...app.runs.values()];
}

async function start()
{
    parts.push(makeHead(document.getElementById('head'), app),
        makeFilters(document.getElementById('filters'), app),
        makeViews(document.getElementById('views'), app),
        makeCard(document.getElementById('card'), app));
    try {
        const [runs, prices] = await Promise.all([loadRuns(), loadPrices()]);
        takeRuns(runs, true);
        app.prices = prices;
    } catch (error) {
        fill(document.getElementById('views'),
            el('p.problem', {role: 'alert'}, `The runs could not be read: ${error.message}`));
        return;
    }
    app.render();
    requestAnimationFrame(() => {
        document.documentElement.dataset.firstViewMs = performance.now().toFixed(0);
        setTimeout(settle); /* the first view does not wait for it */
    });
    watchRuns({
        onRuns(runs, gone) {
            gone.forEach(id => app.runs.delete(id));
            takeRuns(runs, false);
            renderSoon();
            settle();
        },
        onAll(runs) {
            takeRuns(runs, true);
            renderSoon();
            settle();
        },
        onState(connected) {
            app.connected = connected;
            parts[0].update(app.scene);
        },
    });
}

addEventListener('popstate', () => {
    app.state = parseState(location.search);
    app.render();
});
matchMedia('(prefers-color-scheme: light)').addEventListener('change', () => app.render());
document.documentElement.dataset.theme = app.state.theme ||
    (matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark');
start();
