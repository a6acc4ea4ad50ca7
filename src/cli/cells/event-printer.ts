import type {
  Death,
  ExecutionEvent,
  MimeBundle,
  NetworkDeniedEvent,
  Recovered,
  ResultEvent,
} from '../../protocol/execution-events.ts';
import { PyObject, type PyValue } from '../../protocol/py-values.ts';
import { adviceFor } from '../command-errors.ts';
import { escapeControls, formatCount, formatDuration, formatLost, formatSize } from '../format.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

export async function printEvent(terminal: CliTerminal, event: ExecutionEvent): Promise<void> {
  if (event.type !== 'progress') terminal.clearStatus();
  switch (event.type) {
    case 'stdout':
      return await terminal.out(event.text);
    case 'stderr':
      return await terminal.err(event.text);
    case 'display':
      return await terminal.outLines(formatBundle(event.data));
    case 'progress':
      return await terminal.status(event.text);
    case 'input_request':
      // The prompter shows the prompt.
      return;
    case 'result':
      return await printResult(terminal, event);
  }
}

/** Describes a host that the code tried to reach without permission. */
export function describeDenied({ host, port, reason, more = 0 }: NetworkDeniedEvent): string {
  const others = more === 0 ? '' : `, and ${more} more since the last notice`;
  return `cella: the network policy blocked the code from ${escapeControls(host)}:${port} (${escapeControls(reason)})${others}.`;
}

async function printResult(terminal: CliTerminal, result: ResultEvent): Promise<void> {
  if (result.repr !== undefined) await terminal.outLines(result.repr);
  if (result.truncated?.reprCharacters) {
    await terminal.errLines(`[${result.truncated.reprCharacters} more characters of this value are not shown]`, 'dim');
  }
  if (result.error) await printError(terminal, result.error);
  if (result.status === 'timeout') {
    const seconds = (result.durationMs / 1000).toFixed(1);
    await terminal.errLines(`cella: the code was stopped after ${seconds} s, at its time limit.`, 'red');
  }
  if (result.death) await terminal.errLines(describeDeath(result.death), 'red');
  if (result.transaction === 'rolled_back') {
    await terminal.errLines('cella: the changes of this code to variables were undone.', 'yellow');
  }
}

async function printError(terminal: CliTerminal, error: NonNullable<ResultEvent['error']>): Promise<void> {
  if (error.exitCode === undefined) {
    if (error.traceback !== '') await terminal.errLines(error.traceback, 'red');
    return;
  }
  // Like Python: prints a message; a number is only the exit code.
  if (error.exitCode === 1 && error.message !== '1') await terminal.errLines(error.message);
}

/** Reports variables that a person may still expect: lost with a dead kernel, or not saveable. */
export async function printNotices(
  terminal: CliTerminal,
  result: ResultEvent,
  { deathReported = false } = {},
): Promise<void> {
  const { recovered, resumed } = result;
  const lines = recovered ? [describeRecovered(recovered, deathReported)] : [];
  lines.push(...formatLost(recovered ?? resumed ?? {}, 'could not be restored'));
  if (lines.length > 0) await terminal.errLines(lines.join('\n'), 'yellow');
}

function describeRecovered(
  { cause, savedAgoMs, restored, moreRestored = 0 }: Recovered,
  deathReported: boolean,
): string {
  const variables = formatCount(restored.length + moreRestored, 'variable');
  const back =
    savedAgoMs === undefined
      ? 'its variables are gone'
      : `${variables} restored, as of ${formatDuration(savedAgoMs)} ago`;
  return deathReported
    ? `cella: this is a new kernel: ${back}.`
    : `cella: the previous kernel has ended (${cause.message}); ${back}.`;
}

function describeDeath(death: Death): string {
  return `cella: ${death.message}\n${adviceFor(death.code)}`;
}

/** The text form if there is one; otherwise the type and size of each form. */
export function formatBundle(data: MimeBundle): string {
  const plain = data['text/plain'];
  const others = Object.entries(data).filter(([type]) => type !== 'text/plain');
  const pictures = others.filter(([type]) => type.startsWith('image/'));
  const named = typeof plain === 'string' ? pictures : others;
  const lines = named.map(([type, value]) => `[${type}, ${formatSize(sizeOf(type, value))}]`);
  return (typeof plain === 'string' ? [plain, ...lines] : lines).join('\n');
}

function sizeOf(type: string, value: PyValue): number {
  if (typeof value === 'string') {
    // Binary data is base64; SVG is the only image type that is text.
    const binary = !type.startsWith('text/') && !/[+/](json|xml)$/.test(type) && type !== 'application/javascript';
    return binary ? Buffer.byteLength(value, 'base64') : Buffer.byteLength(value);
  }
  if (value instanceof Uint8Array) return value.byteLength;
  return Buffer.byteLength(value instanceof PyObject ? value.repr : String(value));
}
