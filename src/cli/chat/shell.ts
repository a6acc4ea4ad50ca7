/** `/sh` and `/cwd`: the kernel's own sandbox and folder, by way of a shell. */

import { CellaError } from '../../protocol/errors.ts';
import { readBlock } from '../cells/cell-reader.ts';
import { UsageError } from '../command-errors.ts';
import { signalName } from '../format.ts';
import { type Desk, type Outcome, remember } from './desk.ts';
import { cwdCell, shellCell } from './shell-cell.ts';

/** Linux takes no longer argument. */
const LONGEST_BYTES = 128 * 1024 - 256;

export async function sh(desk: Desk, argument: string): Promise<Outcome> {
  const { executor, capabilities } = desk.session;
  if (!capabilities.subprocesses) {
    throw new CellaError('CAPABILITY_MISSING', `The executor ${executor} has no processes, and with them no shell.`);
  }
  const command = argument === '' ? await readCommand(desk) : argument;
  if (command === undefined) return 'done';
  check(command);
  if (!(await isConfirmed(desk, command))) return 'done';
  const result = await desk.cells.run(shellCell(command));
  if (!result) return 'failed';
  remember(desk, { line: `/sh ${command}`, looked: false });
  const { exitCode = 0 } = result.error ?? {};
  if (exitCode === 0) return result.status === 'ok' ? 'done' : 'failed';
  const text = exitCode > 0 ? `exit code ${exitCode}` : `ended by ${signalName(-exitCode)}`;
  await desk.voice.note({ command: 'sh', exitCode }, `[${text}]`);
  return 'failed';
}

export async function cwd(desk: Desk): Promise<Outcome> {
  const result = await desk.cells.run(cwdCell);
  if (result) remember(desk, { line: '/cwd', looked: true });
  return result?.status === 'ok' ? 'done' : 'failed';
}

async function readCommand({ lines, interactive: prompts }: Desk): Promise<string | undefined> {
  return await readBlock(lines, { prompts, isWhole: async () => true, complete: async (_, line) => [[], line] });
}

function check(command: string): void {
  if (command.includes('\0')) throw new UsageError('A command cannot hold a null byte.', 'Leave it out.');
  const bytes = Buffer.byteLength(command);
  if (bytes <= LONGEST_BYTES) return;
  throw new UsageError(
    `This command has ${bytes} bytes, and a shell takes no more than ${LONGEST_BYTES}.`,
    'Write it to a file with /py, and run that.',
  );
}

/** A person sees the command once more, all of it. */
async function isConfirmed(desk: Desk, command: string): Promise<boolean> {
  if (desk.autoSh) return true;
  if (!desk.interactive) {
    throw new UsageError(
      'A shell command must be confirmed, and there is no terminal to ask at.',
      'Start the chat with --auto-sh, or set CELLA_AUTO_SH=1, to run shell commands without asking.',
    );
  }
  await desk.voice.command(command);
  const line = await desk.lines.read({ prompt: `Run this ${desk.place}? [y/N] `, ignoreTypeahead: true });
  if (line.kind === 'line' && /^\s*y(es)?\s*$/i.test(line.text)) return true;
  await desk.voice.note({ command: 'sh', confirmed: false }, 'Not run.');
  return false;
}
