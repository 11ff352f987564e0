/* csv.js - a table as RFC 4180 has it. */

function cell(value)
{
    if (value === null || value === undefined || (typeof value === 'number' && !Number.isFinite(value)))
        return '';
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/* columns: {key, of(row)}. */
export function toCsv(columns, rows)
{
    const lines = [columns.map(c => cell(c.key)).join(',')];
    for (const row of rows)
        lines.push(columns.map(c => cell(c.of(row))).join(','));
    return `${lines.join('\r\n')}\r\n`;
}
