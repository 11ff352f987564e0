/* format.js - numbers as people read them, and where the ticks of an axis stand. */

const SIGNS = {minute: 60, hour: 3600, day: 86400};

export function formatNumber(value)
{
    if (!Number.isFinite(value))
        return '–';
    if (value === 0)
        return '0';
    const size = Math.abs(value);
    if (size >= 1e6 && size < 1e12)
        return size >= 1e9 ? `${trim(value / 1e9, 3)}G` : `${trim(value / 1e6, 3)}M`;
    if (Number.isInteger(value) && size < 1e6)
        return String(value);
    return size >= 1e-4 && size < 1e6 ? trim(value, 4) : value.toExponential(2);
}

function trim(value, digits)
{
    return String(Number(value.toPrecision(digits)));
}

/* 1.52 s, 27m02s, 7h30m, 2d03h. */
export function formatTime(seconds)
{
    if (!Number.isFinite(seconds))
        return '–';
    if (seconds < SIGNS.minute)
        return seconds === 0 ? '0 s' : seconds < 0.001 ? `${trim(seconds * 1e6, 3)} µs` :
            seconds < 1 ? `${trim(seconds * 1e3, 3)} ms` : `${trim(seconds, 3)} s`;
    const two = n => String(n).padStart(2, '0');
    const whole = Math.round(seconds);
    if (whole < SIGNS.hour)
        return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
    if (whole < SIGNS.day)
        return `${Math.floor(whole / 3600)}h${two(Math.floor(whole / 60) % 60)}m`;
    return `${Math.floor(whole / 86400)}d${two(Math.floor(whole / 3600) % 24)}h`;
}

export function formatCost(usd)
{
    if (!Number.isFinite(usd))
        return '–';
    if (usd === 0)
        return '$0';
    if (usd >= 0.1)
        return `$${usd >= 1000 ? Math.round(usd) : usd.toFixed(2)}`;
    return `$${Number(usd.toPrecision(3)) >= 1e-6 ? plain(usd) : usd.toExponential(1)}`;
}

function plain(value) /* three digits, never 1e-5 */
{
    const digits = Math.min(12, 2 - Math.floor(Math.log10(value)));
    return value.toFixed(digits).replace(/0+$/, '');
}

export function formatDate(seconds)
{
    return Number.isFinite(seconds) ?
        new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ') : '–';
}

/* Shares such as accuracy are read in percent. */
export function isShare(metric)
{
    return /(accuracy|acc|top_?[15]|iou|dice|f1|auc|precision|recall)$/i.test(metric);
}

export function formatQuality(value, metric)
{
    if (!Number.isFinite(value))
        return '–';
    return isShare(metric) && Math.abs(value) <= 1 ? `${(100 * value).toFixed(2)}%` :
        formatNumber(value);
}

/* For ticks: 90% instead of 90.00%. */
export function shortQuality(value, metric)
{
    return formatQuality(value, metric).replace(/(\.\d*?)0+%$/, '$1%').replace('.%', '%');
}

/* "2.5x faster", "1.3x slower"; the same to half a percent is "as fast". */
export function formatTimes(times, more, less, same)
{
    if (!Number.isFinite(times))
        return '–';
    if (Math.abs(Math.log(times)) < 0.005)
        return same;
    const size = times >= 1 ? times : 1 / times;
    const short = size >= 100 ? Math.round(size) : Number(size.toPrecision(3));
    return `${short}× ${times >= 1 ? more : less}`;
}

export function formatPercent(percent, less, more, same)
{
    if (!Number.isFinite(percent))
        return '–';
    if (Math.abs(percent) < 0.5)
        return same;
    const size = Math.abs(percent);
    return `${size >= 10 ? Math.round(size) : size.toFixed(1)}% ${percent > 0 ? less : more}`;
}

/* ---- ticks ---- */

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400];

function niceStep(rough, time)
{
    if (time && rough > 1 && rough <= 86400)
        return TIME_STEPS.find(s => s >= rough);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find(m => m * power >= rough * 0.999999);
}

export function linearTicks(low, high, count, time = false)
{
    if (!(high > low))
        return [low];
    const step = niceStep((high - low) / Math.max(1, count), time);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
        ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
}

/* 1, 2, 5 of each power of ten, thinned to about `count`; linear ones within one power. */
export function logTicks(low, high, count, time = false)
{
    if (!(low > 0) || !(high > low))
        return [low];
    const decades = Math.log10(high / low);
    if (decades < 0.7)
        return linearTicks(low, high, count, time);
    const of = steps => {
        const ticks = [];
        for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
            for (const m of steps) {
                const tick = Number((m * 10 ** p).toPrecision(6));
                if (tick >= low * 0.9999 && tick <= high * 1.0001)
                    ticks.push(tick);
            }
        return ticks;
    };
    const timed = time && high > 60 ?
        [1, 2, 5, 10, 30, 60, 300, 900, 1800, 3600, 10800, 36000, 86400, 259200, 864000] : null;
    const fine = timed ? [...of([1, 2, 5]).filter(t => t < 1),
        ...timed.filter(t => t >= low && t <= high)] : of([1, 2, 5]);
    if (fine.length <= count * 1.3)
        return fine;
    if (timed) {
        const every = Math.ceil(fine.length / count);
        return fine.filter((_, i) => i % every === 0);
    }
    const coarse = of([1]);
    const every = Math.ceil(coarse.length / count);
    return coarse.filter((_, i) => i % every === 0);
}
