/** Formats sizes, times, names and untrusted text for a terminal. */

import type { LostList } from '../protocol/kernel-state.ts';
import type { SessionApi } from '../session/api.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < MINUTE) return `${(milliseconds / SECOND).toFixed(milliseconds < 10 * SECOND ? 1 : 0)} s`;
  if (milliseconds < HOUR) return `${Math.floor(milliseconds / MINUTE)} min`;
  return milliseconds < 2 * DAY ? `${Math.floor(milliseconds / HOUR)} h` : `${Math.floor(milliseconds / DAY)} days`;
}

export function formatAgo(at: number, now = Date.now()): string {
  return `${formatDuration(Math.max(0, now - at))} ago`;
}

/** Day and time in this machine's time zone. */
export function formatTime(at: number): string {
  const date = new Date(at);
  const two = (part: number) => String(part).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}`;
}

/** Untrusted text on one line, without control or invisible characters. Joiners stay, because people write with them. */
export function escapeControls(text: string): string {
  const written: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };
  return text
    .toWellFormed()
    .replace(
      /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]/gv,
      (character) => written[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`,
    );
}

/** Like `escapeControls`, but keeps line breaks and tabs. */
export function escapeControlsKeepLines(text: string): string {
  return text
    .split(/(\n|\t)/)
    .map((part) => (part === '\n' || part === '\t' ? part : escapeControls(part)))
    .join('');
}

/** The same, but keeps colours, except styles that hide text. */
export function keepColours(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with it.
  const parts = text.replaceAll('\r\n', '\n').split(/(\u001b\[[\d;:]*m)/);
  return parts
    .map((part, index) => (index % 2 === 0 || hidesText(part) ? escapeControlsKeepLines(part) : part))
    .join('');
}

/** SGR 8 hides text; an 8 inside a colour (38;5;8) does not. */
function hidesText(style: string): boolean {
  return /[[;]0*8[;:m]/.test(style.replace(/[345]8[;:](5[;:]\d*|2([;:]\d*){3})/g, ''));
}

/** The text as one shell word, quoted if needed. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The command that continues with an agent key. */
export function chatCommand(agentKey: string, targetFlags: string): string {
  return `cella chat --key ${shellQuote(agentKey)}${targetFlags}`;
}

/** Several names; only the first ones if there are many. */
export function formatNames(names: readonly string[], most = 8): string {
  const shown = names.slice(0, most).map(escapeControls).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export function describeExecutor(
  { executor, sandboxed }: Pick<SessionApi, 'executor' | 'sandboxed'>,
  inSandbox = 'in the sandbox',
): string {
  if (executor === 'container') return 'in a container';
  if (executor === 'in-process') return 'in WebAssembly, with no isolation';
  return sandboxed ? inSandbox : 'without a sandbox';
}

export const firstLine = (text: string): string => text.trim().split('\n')[0] ?? '';

/** Untrusted text of several lines, without control characters. */
export function paragraph(text: string): string {
  return text.trim().split('\n').map(escapeControls).join('\n');
}

/** One line per listed name, and one for all others. */
export function formatLost({ lost = [], moreLost = 0 }: Partial<LostList>, how: string): string[] {
  const lines = lost.map(({ name, reason }) => {
    const what = name === '*' ? 'what was saved' : escapeControls(name);
    return `cella: ${what} ${how}: ${escapeControls(reason)}`;
  });
  return moreLost > 0 ? [...lines, `cella: and ${moreLost} more.`] : lines;
}
