/** `cella chat`: a conversation with an agent's place of work, at a terminal or from a pipe. */

import { randomBytes } from 'node:crypto';
import { CellaError } from '../../protocol/errors.ts';
import { agentIn } from '../agent/agent-in.ts';
import { agentAt } from '../agent/agent-named.ts';
import { finishCell } from '../cells/cell-reader.ts';
import { CellRunner } from '../cells/cell-runner.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext, OpenOptions, StorageAccess } from '../context.ts';
import { chatCommand, describeExecutor } from '../format.ts';
import { LEAVE } from '../repl.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { promptHooks } from '../terminal/prompts.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { promptAgent } from './agent.ts';
import { findCommand } from './commands.ts';
import { complete } from './completion.ts';
import { type Desk, type Outcome, UNDO } from './desk.ts';
import { parseLine } from './parse.ts';
import { runPython } from './python.ts';
import { Voice } from './voice.ts';

export interface ChatRequest {
  /** Without an agent key, the chat has an agent of its own, which ends with it. */
  readonly session: OpenOptions;
  /** The flags that say where things are kept, to be typed again. */
  readonly placeFlags: string;
  readonly version: string;
  readonly autoSh: boolean;
  readonly autoPy: boolean;
  /** The coding agent that takes plain lines. */
  readonly agent: string | undefined;
  /** A profile of whoever chats, for every prompt. */
  readonly profile: string | undefined;
  readonly json: boolean;
}

export async function chat(request: ChatRequest, context: CommandContext & StorageAccess): Promise<number> {
  const { terminal } = context;
  const { agentKey = `chat-${randomBytes(4).toString('hex')}`, ...options } = request.session;
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  const leaving = new AbortController();
  void signals.ended.then(() => leaving.abort());
  const lines = openLineInput(terminal, signals.interrupt);
  const hooks = promptHooks({ terminal, json: request.json, lines: () => lines });
  const session = await context.openSession({ ...options, ...hooks, agentKey, undo: UNDO });
  const cells = new CellRunner({ session, terminal, signals, lines, json: request.json });
  const desk: Desk = {
    ...{ session, cells, lines, stores: context, storage: options, placeFlags: request.placeFlags },
    voice: new Voice(terminal, request),
    interactive: terminal.interactive,
    place: describeExecutor(session),
    autoSh: request.autoSh,
    autoPy: request.autoPy,
    agent: undefined,
    profile: request.profile,
    turn: undefined,
    terminal,
    json: request.json,
    leaving: leaving.signal,
    past: [],
    working: undefined,
    kept: request.session.agentKey !== undefined,
  };
  interruptCode = () => {
    if (desk.turn) return desk.turn.stop();
    desk.working?.abort();
    return desk.working !== undefined || cells.interrupt();
  };
  try {
    if (signals.exitCode !== undefined) return signals.exitCode;
    if (request.agent !== undefined) desk.agent = { name: await agentAt(agentIn(session), request.agent) };
    await greet(desk, request, terminal);
    return await Promise.race([converse(desk, terminal), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
    await (desk.kept ? session.close() : session.destroy());
    if (desk.kept && terminal.interactive && signals.exitCode === undefined) {
      await terminal.errLines(`Names are kept: ${chatCommand(session.agentKey, request.placeFlags)} goes on.`, 'dim');
    }
  }
}

async function greet(desk: Desk, { version, json }: ChatRequest, terminal: Terminal): Promise<void> {
  const { agentKey, executor, capabilities } = desk.session;
  if (json) {
    const reply = { command: 'chat', agent: agentKey, kept: desk.kept, executor, capabilities };
    return await desk.voice.note(reply, '');
  }
  if (!desk.interactive) return;
  await terminal.err(`Cella ${version}`, 'bold');
  const end = desk.kept ? '' : ', which ends with this chat';
  await terminal.err(`, a chat with the agent ${JSON.stringify(agentKey)}${end}\n`);
  const shell = capabilities.subprocesses ? ', /sh COMMAND a shell,' : '';
  await terminal.err(`/py CODE runs Python${shell} ${desk.place}. /help lists the rest.\n`);
  await terminal.err('Tab completes, Ctrl-C interrupts, Ctrl-D leaves.\n\n');
}

/** Line by line, until there is none or one asks to leave. */
async function converse(desk: Desk, terminal: Terminal): Promise<number> {
  // What cannot be shown here fails again, and is told, at the next prompt or result.
  desk.cells.showBackground().catch(() => {});
  const prompt = desk.interactive ? terminal.styled('chat> ', 'bold') : '';
  for (let last: Outcome = 'done'; ; ) {
    const line = await desk.lines.read({ prompt, complete: (text) => complete(desk, text) });
    if (line.kind === 'interrupt' || (line.kind === 'line' && line.text.trim() === '')) continue;
    if (line.kind !== 'line') return desk.interactive || last !== 'failed' ? Exit.ok : Exit.failed;
    last = await take(desk, line.text);
    if (last === 'leave') return Exit.ok;
  }
}

async function take(desk: Desk, text: string): Promise<Outcome> {
  try {
    const line = parseLine(text);
    if (line.kind === 'command') return await findCommand(line.name).run(desk, line.argument);
    return await takeText(desk, line.text);
  } catch (error) {
    const told = error instanceof UsageError || (error instanceof CellaError && error.code !== 'SESSION_CLOSED');
    if (!told) throw error;
    await desk.voice.fail(error);
    return 'failed';
  }
}

/** A line that is no command is for the agent of the session, where one works there. */
async function takeText(desk: Desk, text: string): Promise<Outcome> {
  const { session, lines, interactive: prompts } = desk;
  if (desk.agent) return await promptAgent(desk, text);
  if (!desk.autoPy) {
    throw new UsageError(
      'No coding agent takes part in this chat yet.',
      'Choose one with /agent claude. /py CODE runs Python, and so does --auto-py.',
    );
  }
  if (LEAVE.test(text)) return 'leave';
  const code = await finishCell(session, lines, text, { prompts });
  return code === undefined ? 'done' : await runPython(desk, code);
}
