/* dom.js - making elements. Texts only ever become text nodes, never markup. */

/* el('button.small', {onclick: f, 'aria-label': 'x'}, 'text', child, [children]) */
export function el(kind, props, ...children)
{
    const [tag, ...classes] = kind.split('.');
    const node = document.createElement(tag);
    if (classes.length)
        node.className = classes.join(' ');
    for (const [key, value] of Object.entries(props || {})) {
        if (value === null || value === undefined || value === false)
            continue;
        if (key.startsWith('on'))
            node.addEventListener(key.slice(2), value);
        else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'selected')
            node[key] = value;
        else
            node.setAttribute(key, value === true ? '' : String(value));
    }
    add(node, children);
    return node;
}

export function add(node, children)
{
    for (const child of children.flat(Infinity))
        if (child !== null && child !== undefined && child !== false && child !== '')
            node.append(child);
    return node;
}

export function fill(node, ...children)
{
    node.replaceChildren();
    return add(node, children);
}

/* The same, but what had the focus (by its id or data-value) has it again. */
export function refill(node, ...children)
{
    const active = node.contains(document.activeElement) ? document.activeElement : null;
    const [id, value] = [active?.id, active?.dataset.value];
    fill(node, ...children);
    if (id)
        document.getElementById(id)?.focus();
    else if (value !== undefined)
        [...node.querySelectorAll('[data-value]')].find(e => e.dataset.value === value)?.focus();
    return node;
}

const filledWith = new WeakMap();

/* Fills anew only if `key` (any JSON) is another than last time: what lives does not disturb reading. */
export function fillWhenNew(node, key, make)
{
    const text = JSON.stringify(key);
    if (filledWith.get(node) === text)
        return;
    filledWith.set(node, text);
    refill(node, make());
}

export function svg(tag, attributes, ...children)
{
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(attributes))
        node.setAttribute(key, String(value));
    return add(node, children);
}

/* A select that keeps its choice while its options change. options: [value, label] */
export function fillSelect(select, options, value)
{
    const same = select.options.length === options.length && options.every(([v, label], i) =>
        select.options[i].value === v && select.options[i].textContent === label);
    if (!same)
        fill(select, options.map(([v, label]) => el('option', {value: v}, label)));
    select.value = value;
}

export function download(name, type, text)
{
    const url = URL.createObjectURL(new Blob([text], {type}));
    const link = el('a', {href: url, download: name});
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* The clipboard where the browser grants it, else the selection. */
export async function copyText(text, button)
{
    let done = false;
    try {
        await navigator.clipboard.writeText(text);
        done = true;
    } catch {
        const box = el('textarea', {class: 'offscreen'}, text);
        document.body.append(box);
        box.select();
        done = document.execCommand('copy');
        box.remove();
    }
    const before = button.textContent;
    button.textContent = done ? 'Copied' : 'Not copied';
    setTimeout(() => { button.textContent = before; }, 1200);
}

/* A canvas sharp on this screen; its context draws in CSS pixels. */
export function fitCanvas(canvas, width, height)
{
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
    }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
}

/* The theme's colours, by name. */
export function colours()
{
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue(`--${name}`).trim();
    const names = ['ink', 'faint', 'grid', 'dot', 'front', 'selected', 'baseline', 'fit', 'panel'];
    const all = Object.fromEntries(names.map(n => [n, of(n)]));
    all.groups = Array.from({length: 9}, (_, i) => of(`group${i}`));
    return all;
}
