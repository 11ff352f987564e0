/* data.js - what the server tells: runs, one run, prices, changes. Only this page's own host is asked. */

/* The runs are on their way while the other modules still load. */
let early = typeof document === 'undefined' ? null : fetch('api/runs');
early?.catch(() => {}); /* whoever waits for it is told */

async function ask(path, options, begun)
{
    const answer = await (begun || fetch(path, options));
    let body = null;
    try {
        body = await answer.json();
    } catch {
        throw new Error(`${path} answered ${answer.status} without JSON`);
    }
    if (!answer.ok)
        throw new Error(body.error || `${path} answered ${answer.status}`);
    return body;
}

let revision = null; /* of the runs that were read last */

export async function loadRuns()
{
    const begun = early;
    early = null;
    const body = await ask('api/runs', undefined, begun);
    revision = body.revision ?? null;
    return Array.isArray(body) ? body : body.runs;
}

/* The page works without prices. */
export async function loadPrices()
{
    try {
        return (await ask('api/prices')).prices || [];
    } catch {
        return [];
    }
}

/* Nor does it need the settings in which runs differ; they come when the runs are there. */
export async function loadSettings()
{
    try {
        return await ask('api/settings');
    } catch {
        return null;
    }
}

const details = new Map(); /* id -> {stamp, promise} */

/* Everything of one run. Asked for again when the run has changed. */
export function loadRun(run)
{
    const stamp = `${run.seen}|${run.status}|${run.note}|${(run.tags || []).join()}`;
    const known = details.get(run.id);
    if (known && known.stamp === stamp)
        return known.promise;
    const promise = ask(`api/runs/${encodeURIComponent(run.id)}`);
    details.set(run.id, {stamp, promise});
    promise.catch(() => details.delete(run.id));
    if (details.size > 60)
        details.delete(details.keys().next().value);
    return promise;
}

export function setTag(id, tag, on)
{
    return post(`api/runs/${encodeURIComponent(id)}/tags`, {tag, on});
}

export function setNote(id, note)
{
    return post(`api/runs/${encodeURIComponent(id)}/note`, {note});
}

function post(path, body)
{
    return ask(path, {method: 'POST', headers: {'Content-Type': 'application/json'},
        body: JSON.stringify(body)});
}

/* Changed runs as they change, and the ids of those that are gone. After a broken connection everything
 * is read again: another server may have come. */
export function watchRuns({onRuns, onAll, onState})
{
    const events = new EventSource(revision === null ? 'api/events' : `api/events?since=${revision}`);
    let broken = false;
    events.addEventListener('runs', event => {
        const {runs, gone} = JSON.parse(event.data);
        onRuns(runs || [], gone || []);
    });
    events.addEventListener('open', async () => {
        onState(true);
        if (!broken)
            return;
        broken = false;
        try {
            onAll(await loadRuns());
        } catch {
            broken = true;
        }
    });
    events.addEventListener('error', () => {
        broken = true;
        onState(false);
    });
    addEventListener('pagehide', () => events.close());
}
