/** From the result of an execution to the content that a model reads. */

import type { CallToolResult } from '@modelcontextprotocol/server';
import { errorCodes } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import { cutMiddle } from './long-text.ts';
import { noticesOf } from './notices.ts';
import type { Output } from './output.ts';

/** What a model can use of one answer, in characters. */
export const MOST_SHOWN = 30_000;
/** Of a value or a traceback. */
const MOST_OF_A_PART = 8000;
const MOST_OF_NOTICES = 4000;

export interface Report {
  readonly result: CallToolResult;
  /** What there was to show, where the result does not have it all; whole, or as much as is kept. */
  readonly uncut: { readonly text: string; readonly whole: boolean } | undefined;
}

export function reportOf(result: ResultEvent, output: Output): Report {
  const told = noticesOf(result).map((line) => `[notice] ${line}`);
  const notices = cutMiddle(told.join('\n'), MOST_OF_NOTICES);
  const rest = [valueText(result, output) ?? '', result.error?.traceback || result.error?.message || ''];
  const cutRest = rest.map((part) => cutMiddle(part, MOST_OF_A_PART));
  const ends = endsOf(result);
  const room = MOST_SHOWN - [notices, ...cutRest, ...ends].reduce((total, part) => total + part.length, 0);
  const printed = output.text.toString();
  const isCut = printed.length > room || rest.some((part) => part.length > MOST_OF_A_PART);
  const text =
    joined([notices, cutMiddle(printed, room, output.text.lost), ...cutRest, ...ends]) || '[done, with no output]';
  return {
    result: {
      content: [{ type: 'text', text }, ...output.pictures.content],
      ...(result.status === 'ok' ? {} : { isError: true }),
      _meta: { 'cella/status': result.status, 'cella/execution': result.execution },
    },
    uncut: isCut ? { text: joined([printed, ...rest]), whole: output.text.lost === 0 } : undefined,
  };
}

/** A line of its own at the end of the text, before the pictures. */
export function withLine(result: CallToolResult, line: string): CallToolResult {
  const [first, ...others] = result.content;
  const text = first?.type === 'text' ? `${first.text}\n` : '';
  return { ...result, content: [{ type: 'text', text: `${text}${line}` }, ...others] };
}

function valueText({ repr, data, truncated }: ResultEvent, output: Output): string | undefined {
  const picture = data === undefined ? undefined : output.pictures.take(data);
  if (picture !== undefined) return picture;
  const more = truncated?.reprCharacters;
  return more && repr !== undefined ? `${repr}\n[${more} more characters of this value]` : repr;
}

/** How it ended, where it did not simply end. */
function endsOf({ status, durationMs, death, transaction, exitCode }: ResultEvent): string[] {
  const ends: string[] = [];
  const after = `${(durationMs / 1000).toFixed(1)} s`;
  if (status === 'timeout')
    ends.push(`[stopped after ${after}, at the time limit; names that were set before are kept]`);
  if (status === 'interrupted') ends.push(`[interrupted after ${after}; names that were set before are kept]`);
  if (death) ends.push(`[${death.code}: ${death.message} ${errorCodes[death.code].advice}]`);
  if (exitCode === 0) ends.push('[the code called sys.exit(); the kernel goes on]');
  if (transaction === 'rolled_back') ends.push('[rolled back: names are again what they were before this code]');
  return ends;
}

function joined(parts: readonly string[]): string {
  return parts
    .filter((part) => part !== '')
    .map((part, index, all) => (index === all.length - 1 || part.endsWith('\n') ? part : `${part}\n`))
    .join('');
}
