/** Shows what an execution tells, as text: its output, displays, last value, and how it ended. */

import type { Death, ExecutionEvent, MimeBundle, Recovered, ResultEvent } from '../protocol/events.ts';
import { PyObject, type PyValue } from '../protocol/values.ts';
import type { Terminal } from './terminal.ts';
import { adviceOn } from './wording.ts';

export async function showEvent(terminal: Terminal, event: ExecutionEvent): Promise<void> {
  switch (event.type) {
    case 'stdout':
      return await terminal.out(event.text);
    case 'stderr':
      return await terminal.err(event.text);
    case 'display':
      return await terminal.outLines(bundleToText(event.data));
    case 'input_request':
      // Whoever answers shows the prompt.
      return;
    case 'result':
      return await showResult(terminal, event);
  }
}

async function showResult(terminal: Terminal, result: ResultEvent): Promise<void> {
  if (result.repr !== undefined) await terminal.outLines(result.repr);
  if (result.truncated?.reprCharacters) {
    await terminal.errLines(`[${result.truncated.reprCharacters} more characters of this value are not shown]`, 'dim');
  }
  if (result.error) await showError(terminal, result.error);
  if (result.status === 'timeout') {
    const seconds = (result.durationMs / 1000).toFixed(1);
    await terminal.errLines(`cella: the code was stopped after ${seconds} s, at its time limit.`, 'red');
  }
  if (result.death) await terminal.errLines(deathToText(result.death), 'red');
}

async function showError(terminal: Terminal, error: NonNullable<ResultEvent['error']>): Promise<void> {
  if (error.exitCode === undefined) {
    if (error.traceback !== '') await terminal.errLines(error.traceback, 'red');
    return;
  }
  // As Python does: a message is shown, a number is only the exit code.
  if (error.exitCode === 1 && error.message !== '1') await terminal.errLines(error.message);
}

/** What came back after a kernel died, and what did not. */
export async function showRecovery(terminal: Terminal, recovered: Recovered): Promise<void> {
  const { cause, savedAgoMs, restored, lost } = recovered;
  const back =
    savedAgoMs === undefined
      ? 'its names are gone'
      : `${restored.length} names came back, as they were ${(savedAgoMs / 1000).toFixed(1)} s ago`;
  const lines = [`cella: the kernel before this one has ended (${cause.message}); ${back}.`];
  for (const { name, reason } of lost) lines.push(`cella: ${name} did not come back: ${reason}`);
  await terminal.errLines(lines.join('\n'), 'yellow');
}

function deathToText(death: Death): string {
  return `cella: ${death.message}\n${adviceOn(death.code)}`;
}

/** The text form where there is one; of anything else, what it is and how large. */
export function bundleToText(data: MimeBundle): string {
  const plain = data['text/plain'];
  const others = Object.entries(data).filter(([type]) => type !== 'text/plain');
  const pictures = others.filter(([type]) => type.startsWith('image/'));
  const named = typeof plain === 'string' ? pictures : others;
  const lines = named.map(([type, value]) => `[${type}, ${sizeToText(sizeOf(type, value))}]`);
  return (typeof plain === 'string' ? [plain, ...lines] : lines).join('\n');
}

function sizeOf(type: string, value: PyValue): number {
  if (typeof value === 'string') {
    // Binary data is base64; SVG is the one picture that is text.
    const binary = !type.startsWith('text/') && !/[+/](json|xml)$/.test(type) && type !== 'application/javascript';
    return binary ? Buffer.byteLength(value, 'base64') : Buffer.byteLength(value);
  }
  if (value instanceof Uint8Array) return value.byteLength;
  return Buffer.byteLength(value instanceof PyObject ? value.repr : String(value));
}

export function sizeToText(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
