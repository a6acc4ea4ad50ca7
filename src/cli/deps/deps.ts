/** What can be done with the packages of a storage, from a command line and in a chat. */

import type { DepsApi, DepsResult } from '../../session/api.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { escapeControls } from '../format.ts';

export async function list(deps: DepsApi, report: CommandOutput): Promise<number> {
  const requirements = await deps.list();
  const facts = { deps: requirements };
  if (requirements.length === 0) {
    await report.empty(facts, 'No packages are configured. `cella deps add NAME` adds one.');
    return Exit.ok;
  }
  await report.result(facts, requirements.map(escapeControls).join('\n'));
  return Exit.ok;
}

export type Change = (options: { signal: AbortSignal; onProgress: (text: string) => void }) => Promise<DepsResult>;

/** Adds, removes or installs, and tells what came of it. What failed makes the command fail. */
export async function change(work: Change, report: CommandOutput, signal: AbortSignal): Promise<number> {
  const { terminal, json } = report;
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
    if (!json) void terminal.status(text).catch(() => {});
  };
  const { installed, failed, removed, note } = await work({ signal, onProgress });
  const exitCode = failed.length === 0 && (removed === undefined || removed.length > 0) ? Exit.ok : Exit.failed;
  const facts = { installed, failed, ...(removed ? { removed } : {}), ...(note === undefined ? {} : { note }) };
  if (await report.printJson(facts)) return exitCode;
  const lines = [
    ...(installed.length > 0 ? [`Installed ${installed.map(escapeControls).join(', ')}.`] : []),
    ...(removed && removed.length > 0 ? [`Removed ${removed.map(escapeControls).join(', ')}.`] : []),
  ];
  if (lines.length > 0) await report.success({}, lines.join('\n'));
  else if (failed.length === 0 && note === undefined) await report.empty({}, 'No packages are configured.');
  if (note !== undefined) await tellNote(report, note, removed?.length === 0);
  for (const { requirement, reason } of failed) {
    await terminal.errLines(
      `cella: ${escapeControls(requirement)} could not be installed: ${escapeControls(reason)}`,
      'red',
    );
  }
  return exitCode;
}

async function tellNote({ terminal }: CommandOutput, note: string, isProblem: boolean): Promise<void> {
  if (!isProblem) return await terminal.errLines(escapeControls(note), 'dim');
  await terminal.errLines(`cella: ${escapeControls(note)}\n\`cella deps list\` shows them.`, 'red');
}
