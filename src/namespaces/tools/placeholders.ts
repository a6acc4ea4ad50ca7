/** `{name}` in URLs, headers, queries and JSON bodies, filled so that a value never changes the structure around it. */

import { type PyValue, valueToJson } from '../../protocol/py-values.ts';

const PLACEHOLDER = /\{([\p{XIDS}_]\p{XIDC}*)\}/gu;
const WHOLE = new RegExp(`^${PLACEHOLDER.source}$`, 'u');

export type Values = ReadonlyMap<string, PyValue>;

/** Every name that is asked for, at any depth. */
export function placeholders(part: unknown): Set<string> {
  if (typeof part === 'string') return new Set([...part.matchAll(PLACEHOLDER)].map((match) => match[1] ?? ''));
  if (part === null || typeof part !== 'object') return new Set();
  return new Set(Object.values(part).flatMap((item) => [...placeholders(item)]));
}

/** Values belong into the path or the query: never into the scheme, the host or the port. */
export function urlTemplateProblem(template: string): string | undefined {
  const origin = /^[^:]*:\/\/[^/?#]*/.exec(template)?.[0] ?? template;
  if (/[{}]/.test(origin)) return 'a value cannot be part of the scheme, the host or the port';
  return undefined;
}

/** The URL, or the reason why a value cannot be a part of it. */
export function fillUrl(template: string, values: Values): { url: URL } | { problem: string } {
  for (const name of placeholders(template)) {
    const text = asText(values.get(name) ?? '');
    if (!text.isWellFormed()) return { problem: `${name} is not valid text` };
    if (text === '') return { problem: `${name} is empty, and is part of the URL` };
  }
  const fill = (part: string) =>
    part.replace(PLACEHOLDER, (_, name) => encodeURIComponent(asText(values.get(name) ?? '')));
  const [path = '', ...query] = template.split('?');
  for (const segment of path.split('/')) {
    // A segment of dots means a folder, also where the dots are percent-encoded.
    const filled = fill(segment);
    if (filled !== segment && /^(\.|%2e){1,2}$/i.test(filled)) {
      return { problem: `${[...placeholders(segment)].join(', ')} would change the path: ${filled}` };
    }
  }
  return { url: new URL([path, ...query].map(fill).join('?')) };
}

/** Text with the values in it, or undefined if it is only a value that was not given. */
export function fillText(template: string, values: Values): string | undefined {
  const whole = WHOLE.exec(template)?.[1];
  if (whole !== undefined && values.get(whole) === undefined) return undefined;
  return template.replace(PLACEHOLDER, (_, name) => asText(values.get(name) ?? ''));
}

/** JSON with the values in it. `{name}` alone becomes the value itself, or is left out if there is none. */
export function fillJson(template: unknown, values: Values): unknown {
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

function asText(value: PyValue): string {
  return typeof value === 'string' ? value : JSON.stringify(valueToJson(value));
}
