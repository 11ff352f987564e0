/* scales.js - from values to pixels and back, and how far an axis reaches. */

/* Maps low..high to from..to, in logarithms if asked. */
export function scaleOf(low, high, from, to, log)
{
    const f = log ? Math.log : v => v;
    const g = log ? Math.exp : v => v;
    const [a, b] = [f(low), f(high)];
    const k = (to - from) / (b - a || 1);
    return {
        low, high, log,
        at: v => from + (f(v) - a) * k,
        back: p => g(a + (p - from) / k),
    };
}

/* The reach of values with a margin; null if there are none. */
export function reachOf(values, log, margin)
{
    let low = Infinity;
    let high = -Infinity;
    for (const v of values) {
        if (!Number.isFinite(v) || (log && v <= 0))
            continue;
        if (v < low)
            low = v;
        if (v > high)
            high = v;
    }
    if (low > high)
        return null;
    if (log) {
        const room = Math.max(Math.log(high / low) * margin, 0.05);
        return [low * Math.exp(-room), high * Math.exp(room)];
    }
    const room = (high - low) * margin || Math.abs(high) * 0.05 || 1;
    return [low - room, high + room];
}
