/** `{name}` in URLs, headers, queries and JSON bodies, filled so that a value never changes the structure around it. */

import { type PyValue, valueToJson } from '../../protocol/py-values.ts';

const PLACEHOLDER = /\{([\p{XIDS}_]\p{XIDC}*)\}/gu;
const WHOLE = new RegExp(`^${PLACEHOLDER.source}$`, 'u');

type PlaceholderValues = ReadonlyMap<string, PyValue>;

/** All names in placeholders, at any depth. */
export function placeholders(part: unknown): Set<string> {
  if (typeof part === 'string') return new Set([...part.matchAll(PLACEHOLDER)].map((match) => match[1] ?? ''));
  if (part === null || typeof part !== 'object') return new Set();
  return new Set(Object.values(part).flatMap((item) => [...placeholders(item)]));
}

/** Allows values in the path and the query, and never in the scheme, the host or the port. */
export function urlTemplateProblem(template: string): string | undefined {
  const origin = /^[^:]*:\/\/[^/?#]*/.exec(template)?.[0] ?? template;
  if (/[{}]/.test(origin)) return 'a value cannot be part of the scheme, the host or the port';
  return undefined;
}

/** The URL, or why a value cannot be part of it. */
export function fillUrl(template: string, values: PlaceholderValues): { url: URL } | { problem: string } {
  for (const name of placeholders(template)) {
    const text = asText(values.get(name) ?? '');
    if (!text.isWellFormed()) return { problem: `${name} is not valid text` };
    if (text === '') return { problem: `${name} is empty, and is part of the URL` };
  }
  const fill = (part: string) =>
    part.replace(PLACEHOLDER, (_, name) => encodeURIComponent(asText(values.get(name) ?? '')));
  const [path = '', ...query] = template.split('?');
  for (const segment of path.split('/')) {
    // `.` and `..` name folders, even if they are percent-encoded.
    const filled = fill(segment);
    if (filled !== segment && /^(\.|%2e){1,2}$/i.test(filled)) {
      return { problem: `${[...placeholders(segment)].join(', ')} would change the path: ${filled}` };
    }
  }
  return { url: new URL([path, ...query].map(fill).join('?')) };
}

/** The text with values, or undefined if it is only the placeholder of a missing value. */
export function fillText(template: string, values: PlaceholderValues): string | undefined {
  const whole = WHOLE.exec(template)?.[1];
  if (whole !== undefined && values.get(whole) === undefined) return undefined;
  return template.replace(PLACEHOLDER, (_, name) => asText(values.get(name) ?? ''));
}

/** The JSON with values. A text that is only `{name}` becomes the value itself, or is left out if it is missing. */
export function fillJson(template: unknown, values: PlaceholderValues): unknown {
  if (typeof template === 'string') {
    const whole = WHOLE.exec(template)?.[1];
    if (whole === undefined) return fillText(template, values);
    const value = values.get(whole);
    return value === undefined ? undefined : valueToJson(value);
  }
  if (Array.isArray(template)) {
    return template.map((item) => fillJson(item, values)).filter((item) => item !== undefined);
  }
  if (template !== null && typeof template === 'object') {
    return Object.fromEntries(Object.entries(template).map(([name, item]) => [name, fillJson(item, values)]));
  }
  return template;
}

/** A value within a text: JSON, unless it is a text itself. */
export function asText(value: PyValue): string {
  return typeof value === 'string' ? value : JSON.stringify(valueToJson(value));
}
