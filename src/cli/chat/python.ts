/** `/py`: one line, several lines, or a fresh start. */

import { finishCell, readPythonBlock } from '../cells/cell-reader.ts';
import { type Desk, type Outcome, remember } from './desk.ts';

export async function py(desk: Desk, argument: string): Promise<Outcome> {
  const { session, lines, interactive: prompts } = desk;
  if (argument === 'reset') return await reset(desk);
  const code =
    argument === ''
      ? await readPythonBlock(session, lines, { prompts })
      : await finishCell(session, lines, argument, { prompts });
  // Whoever interrupts a block, or types none, has seen that nothing runs.
  return code === undefined ? 'done' : await runPython(desk, code);
}

export async function runPython(desk: Desk, code: string): Promise<Outcome> {
  const result = await desk.cells.run(code);
  if (!result) return 'failed';
  remember(desk, { line: code, looked: false });
  const { exitCode } = result.error ?? {};
  if (exitCode !== undefined) {
    const text = `The code asked to exit with ${exitCode}. The chat goes on; /quit leaves it.`;
    await desk.voice.note({ command: 'py', exitCode }, text);
  }
  return result.status === 'ok' || exitCode === 0 ? 'done' : 'failed';
}

async function reset({ session, voice }: Desk): Promise<Outcome> {
  await session.reset();
  await voice.note({ command: 'py', reset: true }, 'Every name is gone. Files and checkpoints stay.');
  return 'done';
}
