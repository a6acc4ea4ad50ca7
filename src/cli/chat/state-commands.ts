/** /vars, /history, /undo, /checkpoint, /restore and /fork. */

import { CellaError } from '../../protocol/errors.ts';
import type { Checkpoint, Variable } from '../../protocol/kernel-state.ts';
import { UsageError } from '../command-errors.ts';
import { cutToWidth } from '../command-output.ts';
import { forkedToText, forkKernelInto, lostToText } from '../commands/fork.ts';
import { hasKernel } from '../commands/ps.ts';
import { chatCommand, escapeControls, formatAgo, formatCount, formatLost, formatSize } from '../format.ts';
import { type ChatOutcome, type ChatState, MAX_UNDO, type UndoEntry } from './chat-state.ts';
import { cellToLine } from './code-commands.ts';

const MOST_HISTORY = 20;
const LONGEST_LINE = 60;

export async function vars({ session, output }: ChatState): Promise<ChatOutcome> {
  const variables = await session.variables();
  const reply = { command: 'vars', variables };
  if (variables.length === 0) {
    await output.note(reply, 'There are no variables. Create one with /py x = 1.');
    return 'done';
  }
  const columns = [
    { title: 'NAME' },
    { title: 'TYPE' },
    { title: 'LENGTH', align: 'right' as const },
    { title: 'SIZE', align: 'right' as const },
    { title: 'VALUE' },
  ];
  const rows = variables.map(({ name, type, length = '', size, preview }) => [
    name,
    type,
    length,
    formatSize(size),
    preview,
  ]);
  await output.table(reply, columns, rows);
  return 'done';
}

export async function history({ session, output }: ChatState, argument: string): Promise<ChatOutcome> {
  if (!/^\d*$/.test(argument))
    throw new UsageError(`/history ${argument} is not a number.`, 'Type /history or /history 50.');
  const all = (await session.history()).flatMap(({ code, ...entry }) => {
    const line = cellToLine(code);
    return line === undefined ? [] : [{ ...entry, line }];
  });
  const count = argument === '' ? MOST_HISTORY : Number(argument);
  const entries = count === 0 ? [] : all.slice(-count);
  const reply = { command: 'history', entries };
  if (entries.length === 0) {
    await output.note(reply, 'Nothing has run yet.');
    return 'done';
  }
  const width = String(entries.at(-1)?.execution ?? 0).length;
  const lines = entries.map(({ execution, status, line }) => {
    const [first = '', ...others] = line.trimEnd().split('\n').map(escapeControls);
    const mark = status === 'ok' ? ' ' : '!';
    const indent = ' '.repeat(width + 3);
    return [`${String(execution).padStart(width)} ${mark} ${first}`, ...others.map((other) => indent + other)].join(
      '\n',
    );
  });
  const more =
    all.length > entries.length ? `(${all.length - entries.length} before these: /history ${all.length})\n` : '';
  await output.result(reply, more + lines.join('\n'));
  return 'done';
}

/** Goes back to before the last cell that changed something. */
export async function undo(state: ChatState): Promise<ChatOutcome> {
  const { session, output, undoStack: past } = state;
  const before = await readVariables(state);
  let line: string | undefined;
  for (let isReadOnly = true; isReadOnly; ) {
    await session.undo().catch((error) => explainNothingToUndo(error, past));
    const cell = past.pop();
    line = cell?.line;
    isReadOnly = cell?.readOnly ?? false;
  }
  const changes = changesBetween(before, await readVariables(state));
  const what = line === undefined ? 'the last cell' : cutToWidth(escapeControls(line), LONGEST_LINE);
  await output.note({ command: 'undo', line, changes }, `Undone: ${what}\n${changesToText(changes)} Files stay.`);
  return 'done';
}

function explainNothingToUndo(error: unknown, past: UndoEntry[]): never {
  if (!(error instanceof CellaError) || error.code !== 'NOTHING_TO_UNDO') throw error;
  // Undo points end with their sandbox, whatever was to be undone.
  past.length = 0;
  const text = `There is nothing left to undo: a chat can undo its last ${MAX_UNDO} cells.`;
  throw new CellaError('NOTHING_TO_UNDO', text, { cause: error });
}

export async function checkpoint(
  { session, output, persistent: kept }: ChatState,
  argument: string,
): Promise<ChatOutcome> {
  const [, flag, name = ''] = /^(--durable(?=\s|$))?\s*([\s\S]*)$/.exec(argument) ?? [];
  if (name === '') throw new UsageError('A checkpoint needs a name.', 'Type /checkpoint NAME.');
  const durable = flag !== undefined;
  const made = await session.checkpoint({ name, durable });
  const { saved = [], moreSaved = 0, bytes = 0 } = made;
  const warnings = formatLost(made, 'was not saved');
  const facts = durable ? ` (${formatCount(saved.length + moreSaved, 'variable')}, ${formatSize(bytes)})` : '';
  const how = !durable ? 'as long as this kernel lives' : kept ? 'in any process' : 'until this chat ends';
  const text = `Checkpoint ${JSON.stringify(name)}${facts}: /restore ${name} goes back, ${how}.`;
  await output.note({ command: 'checkpoint', checkpoint: made }, text, warnings);
  return 'done';
}

export async function checkpoints({ session, output }: ChatState): Promise<ChatOutcome> {
  const all = (await session.checkpoints()).filter(({ automatic }) => !automatic);
  const reply = { command: 'checkpoints', checkpoints: all };
  if (all.length === 0) {
    await output.note(reply, 'There are no checkpoints. Create one with /checkpoint NAME.');
    return 'done';
  }
  const columns = [{ title: 'NAME' }, { title: 'KIND' }, { title: 'CREATED' }, { title: 'NOTE' }];
  await output.table(reply, columns, all.map(toRow));
  return 'done';
}

function toRow({ id, name, kind, createdAt, gone }: Checkpoint): string[] {
  return [name ?? id, kind, formatAgo(createdAt), gone === undefined ? '' : `gone: ${gone}`];
}

export async function restore(state: ChatState, argument: string): Promise<ChatOutcome> {
  const { session, output } = state;
  if (argument === '') {
    throw new UsageError('A checkpoint is missing.', 'Type /restore NAME; /checkpoints lists them.');
  }
  const before = await readVariables(state);
  const { checkpoint: point, lost = [], moreLost } = await session.restore(argument);
  const changes = changesBetween(before, await readVariables(state));
  const warnings = formatLost({ lost, moreLost }, 'could not be restored');
  const text = `Back at ${JSON.stringify(argument)}, ${formatAgo(point.createdAt)}. ${changesToText(changes)} Files stay.`;
  await output.note({ command: 'restore', checkpoint: point, changes, lost, moreLost }, text, warnings);
  return 'done';
}

export async function fork(state: ChatState, argument: string): Promise<ChatOutcome> {
  const { session, output, backend, storage, targetFlags } = state;
  if (argument === '') throw new UsageError('A fork needs another agent key.', 'Type /fork KEY.');
  if (argument === session.agentKey || (await hasKernel({ agentKey: argument, target: storage }, backend))) {
    throw new UsageError(
      `There is already a kernel ${JSON.stringify(argument)}, and the fork would replace its variables.`,
      'Choose another key.',
    );
  }
  const save = await forkKernelInto(session, argument);
  const stays = state.persistent
    ? ''
    : `\n${JSON.stringify(session.agentKey)} is kept too when this chat ends, because the fork works in its folder.`;
  state.persistent = true;
  const text = `${forkedToText(session.agentKey, argument)}\nContinue with it: ${chatCommand(argument, targetFlags)}${stays}`;
  await output.note(
    { command: 'fork', agentKey: session.agentKey, fork: argument, save },
    text,
    [lostToText(save)].filter(Boolean),
  );
  return 'done';
}

/** The code's own objects may fail to be inspected; then nothing is known about the variables. */
async function readVariables({ session }: ChatState): Promise<readonly Variable[]> {
  return await session.variables().catch(() => []);
}

const LONGEST_VALUE = 24;
const MOST = 8;

interface Change {
  readonly name: string;
  readonly before?: string;
  readonly after?: string;
}

export function changesBetween(before: readonly Variable[], after: readonly Variable[]): Change[] {
  const then = new Map(before.map((variable) => [variable.name, variable]));
  const now = new Map(after.map((variable) => [variable.name, variable]));
  const names = new Set([...then.keys(), ...now.keys()]);
  return [...names].flatMap((name) => {
    const [old, fresh] = [then.get(name), now.get(name)];
    if (old && fresh && comparable(old) === comparable(fresh)) return [];
    return [{ name, before: old?.preview, after: fresh?.preview }];
  });
}

function comparable({ type, preview, length, size }: Variable): string {
  return JSON.stringify([type, preview, length, size]);
}

export function changesToText(changes: readonly Change[]): string {
  if (changes.length === 0) return 'No variable changed.';
  const shown = changes.slice(0, MOST).map(changeToText).join(', ');
  return changes.length > MOST ? `${shown}, and ${changes.length - MOST} more.` : `${shown}.`;
}

function changeToText({ name, before, after }: Change): string {
  const [from = '', to = ''] = [before, after].map((value) => cutToWidth(escapeControls(value ?? ''), LONGEST_VALUE));
  if (after === undefined) return `${escapeControls(name)} is gone`;
  return before === undefined ? `${escapeControls(name)} is ${to} again` : `${escapeControls(name)}: ${from} → ${to}`;
}
