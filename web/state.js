/* state.js - what is shown, as the page's address. Whatever is not in the address has its default. */

/* kind: text, list (repeated), number (null = not given), flag. Choices: the first is the default; open: others
 * are possible too. */
const FIELDS = {
    dataset: {kind: 'text'},
    view: {kind: 'text', choices: ['frontier', 'table', 'parallel', 'compare', 'effects', 'history']},
    metric: {kind: 'text'},
    statistic: {kind: 'text', choices: ['final', 'best']},
    compare: {kind: 'text', open: true, choices: ['none', 'recipe', 'model', 'methods', 'hardware', 'cloud',
        'optimizer', 'seed', 'batch_size', 'precision', 'threads', 'source', 'status', 'version',
        'scale_schedule_ratio']},
    sortBy: {kind: 'text', choices: ['timeSameQuality', 'costSameQuality', 'time', 'cost', 'quality']},
    sort: {kind: 'text'},
    model: {kind: 'list'},
    cloud: {kind: 'list'},
    hardware: {kind: 'list'},
    algorithms: {kind: 'list'},
    algorithmsMode: {kind: 'text', choices: ['any', 'all', 'none', 'only']},
    recipe: {kind: 'list'},
    seed: {kind: 'list'},
    status: {kind: 'list'},
    tag: {kind: 'list'},
    search: {kind: 'text'},
    brush: {kind: 'list'},
    axes: {kind: 'list'},
    baseline: {kind: 'text'},
    selected: {kind: 'text'},
    run: {kind: 'list'}, /* those that are compared side by side */
    x: {kind: 'text', choices: ['log', 'linear']},
    reverse: {kind: 'flag'},
    yScale: {kind: 'text', choices: ['linear', 'log']},
    yMin: {kind: 'number'},
    yMax: {kind: 'number'},
    xMin: {kind: 'number'},
    xMax: {kind: 'number'},
    costMin: {kind: 'number'},
    costMax: {kind: 'number'},
    group: {kind: 'flag'},
    curve: {kind: 'text', choices: ['both', 'fit', 'stairs', 'none']},
    hideDominated: {kind: 'flag'},
    hideEstimated: {kind: 'flag'},
    allColumns: {kind: 'flag'},
    time: {kind: 'text', choices: ['train', 'wall']},
    price: {kind: 'text'},
    minQuality: {kind: 'number'},
    maxCost: {kind: 'number'},
    maxTime: {kind: 'number'},
    theme: {kind: 'text', choices: ['', 'dark', 'light']},
};

export function choicesOf(name)
{
    return FIELDS[name].choices;
}

function defaultOf(field)
{
    switch (field.kind) {
    case 'list': return [];
    case 'number': return null;
    case 'flag': return false;
    default: return field.choices ? field.choices[0] : '';
    }
}

/* Of a query string; what it says wrongly is taken as not said. */
export function parseState(query)
{
    const given = new URLSearchParams(query);
    const state = {};
    for (const [name, field] of Object.entries(FIELDS)) {
        const value = given.get(name);
        state[name] = defaultOf(field);
        if (value === null)
            continue;
        if (field.kind === 'list') {
            state[name] = [...new Set(given.getAll(name))].filter(v => v !== 'all');
        } else if (field.kind === 'number') {
            if (value.trim() !== '' && Number.isFinite(Number(value)))
                state[name] = Number(value);
        } else if (field.kind === 'flag') {
            state[name] = value === '1' || value === 'true';
        } else if (!field.choices || field.open || field.choices.includes(value)) {
            state[name] = field.choices || value !== 'all' ? value : '';
        }
    }
    return state;
}

/* The shortest query string that says it: "" for the default view. */
export function queryOf(state)
{
    const said = new URLSearchParams();
    for (const [name, field] of Object.entries(FIELDS)) {
        const value = state[name];
        if (field.kind === 'list')
            value.forEach(v => said.append(name, v));
        else if (field.kind === 'flag')
            value && said.set(name, '1');
        else if (value !== defaultOf(field))
            said.set(name, String(value));
    }
    return said.toString();
}

/* "epochs:2:10" <-> {field, low, high}. */
export function parseBrush(text)
{
    const parts = text.split(':');
    const [low, high] = [Number(parts[1]), Number(parts[2])];
    return parts.length === 3 && Number.isFinite(low) && Number.isFinite(high) ?
        {field: parts[0], low: Math.min(low, high), high: Math.max(low, high)} : null;
}

export function brushText(field, low, high)
{
    const short = v => String(Number(v.toPrecision(6)));
    return `${field}:${short(low)}:${short(high)}`;
}
