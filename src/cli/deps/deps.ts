/** What can be done with the packages of a storage, from a command line and in a chat. */

import type { DepsApi, DepsResult } from '../../session/api.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { toPlain } from '../texts.ts';

export async function list(deps: DepsApi, report: Report): Promise<number> {
  const requirements = await deps.list();
  const facts = { deps: requirements };
  if (requirements.length === 0) {
    await report.nothing(facts, 'No packages are configured. `cella deps add NAME` adds one.');
    return Exit.ok;
  }
  await report.answer(facts, requirements.map(toPlain).join('\n'));
  return Exit.ok;
}

export type Change = (options: { signal: AbortSignal; onProgress: (text: string) => void }) => Promise<DepsResult>;

/** Adds, removes or installs, and tells what came of it. What failed makes the command fail. */
export async function change(work: Change, report: Report, signal: AbortSignal): Promise<number> {
  const { terminal, json } = report;
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
    if (!json) void terminal.status(text).catch(() => {});
  };
  const { installed, failed, removed, note } = await work({ signal, onProgress });
  const exitCode = failed.length === 0 && (removed === undefined || removed.length > 0) ? Exit.ok : Exit.failed;
  const facts = { installed, failed, ...(removed ? { removed } : {}), ...(note === undefined ? {} : { note }) };
  if (await report.tellProgram(facts)) return exitCode;
  const lines = [
    ...(installed.length > 0 ? [`Installed ${installed.map(toPlain).join(', ')}.`] : []),
    ...(removed && removed.length > 0 ? [`Removed ${removed.map(toPlain).join(', ')}.`] : []),
  ];
  if (lines.length > 0) await report.done({}, lines.join('\n'));
  else if (failed.length === 0 && note === undefined) await report.nothing({}, 'No packages are configured.');
  if (note !== undefined) await tellNote(report, note, removed?.length === 0);
  for (const { requirement, reason } of failed) {
    await terminal.errLines(`cella: ${toPlain(requirement)} could not be installed: ${toPlain(reason)}`, 'red');
  }
  return exitCode;
}

async function tellNote({ terminal }: Report, note: string, isProblem: boolean): Promise<void> {
  if (!isProblem) return await terminal.errLines(toPlain(note), 'dim');
  await terminal.errLines(`cella: ${toPlain(note)}\n\`cella deps list\` shows them.`, 'red');
}
