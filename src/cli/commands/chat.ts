/** `cella chat`: reads lines, runs them as commands, Python, shell or prompts, and ends cleanly. */

import { randomBytes } from 'node:crypto';
import { CellaError } from '../../protocol/errors.ts';
import { resolveSetting } from '../../settings/setting.ts';
import { settings } from '../../settings/settings-table.ts';
import { findAgent, requireAgentApi } from '../agent/shown-turn.ts';
import type { OpenOptions } from '../backend/backend.ts';
import { finishCell } from '../cells/cell-reader.ts';
import { CellRunner } from '../cells/cell-runner.ts';
import { complete, findCommand, parseLine } from '../chat/chat-commands.ts';
import { ChatCommandOutput, type ChatOutcome, type ChatState, MAX_UNDO } from '../chat/chat-state.ts';
import { promptAgent, runPython } from '../chat/code-commands.ts';
import { UsageError } from '../command-errors.ts';
import { openWithStatus, Signals } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { chatCommand, describeExecutor } from '../format.ts';
import { addSetting, parseText } from '../options.ts';
import { addRuntimeFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { addTargetFlags, formatTargetFlags } from '../target-options.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { promptHooks } from '../terminal/prompts.ts';
import type { CliTerminal } from '../terminal/terminal.ts';
import { LEAVE } from './repl.ts';

interface ChatFlags extends SessionFlags {
  readonly autoSh?: boolean;
  readonly autoPy?: boolean;
  readonly with?: string;
  readonly profile?: string;
  readonly json?: boolean;
}

export function addChat(define: DefineCommand, context: CommandContext, done: Done): void {
  const whose = { about: 'agent key that owns the kernel', otherwise: 'a new one, deleted at the end' };
  const command = define(HELP);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose)));
  addSetting(command, settings.autoSh)
    .option('--auto-py', 'run lines without a command as Python')
    .option('--with <agent>', 'send lines without a command to this coding agent, such as claude', parseText)
    .option('--profile <name>', 'one of your profiles for the agent; see `cella profiles`', parseText)
    .option('--json', 'print events and replies as JSON, one per line')
    .action(async (flags: ChatFlags) => {
      const request = {
        session: sessionOptions(flags, context.defaults),
        targetFlags: formatTargetFlags(flags),
        version: context.version,
        autoSh: resolveSetting(settings.autoSh, flags.autoSh, context.defaults.variables),
        autoPy: flags.autoPy === true,
        agent: flags.with,
        profile: flags.profile,
        json: flags.json === true,
      };
      done(await chat(request, context));
    });
}

interface ChatRequest {
  /** Without an agent key, the chat uses its own key and deletes it at the end. */
  readonly session: OpenOptions;
  /** The target flags, for suggested commands. */
  readonly targetFlags: string;
  readonly version: string;
  readonly autoSh: boolean;
  readonly autoPy: boolean;
  /** The coding agent that takes plain lines. */
  readonly agent: string | undefined;
  /** The user's profile for every prompt. */
  readonly profile: string | undefined;
  readonly json: boolean;
}

export async function chat(request: ChatRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const { agentKey = `chat-${randomBytes(4).toString('hex')}`, ...options } = request.session;
  let interruptCode = (): boolean => false;
  using signals = new Signals(context.signals, () => interruptCode());
  const leaving = new AbortController();
  void signals.ended.then(() => leaving.abort());
  const lines = openLineInput(terminal, signals.interrupt);
  const hooks = promptHooks({ terminal, json: request.json, lines: () => lines });
  const session = await openWithStatus({ ...options, ...hooks, agentKey, undo: MAX_UNDO }, context);
  const cells = new CellRunner({ session, terminal, signals, lines, json: request.json });
  const state: ChatState = {
    ...{ session, cells, lines, backend: context.backend, storage: options, targetFlags: request.targetFlags },
    output: new ChatCommandOutput(terminal, request),
    interactive: terminal.interactive,
    where: describeExecutor(session),
    autoSh: request.autoSh,
    autoPy: request.autoPy,
    agent: undefined,
    profile: request.profile,
    turn: undefined,
    terminal,
    json: request.json,
    leaving: leaving.signal,
    undoStack: [],
    activeTask: undefined,
    persistent: request.session.agentKey !== undefined,
  };
  interruptCode = () => {
    if (state.turn) return state.turn.stop();
    state.activeTask?.abort();
    return state.activeTask !== undefined || cells.interrupt();
  };
  try {
    if (signals.exitCode !== undefined) return signals.exitCode;
    if (request.agent !== undefined) state.agent = { name: await findAgent(requireAgentApi(session), request.agent) };
    await greet(state, request, terminal);
    return await Promise.race([converse(state, terminal), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
    await (state.persistent ? session.close() : session.destroy());
    if (state.persistent && terminal.interactive && signals.exitCode === undefined) {
      await terminal.errLines(
        `Variables are kept. Continue with ${chatCommand(session.agentKey, request.targetFlags)}`,
        'dim',
      );
    }
  }
}

async function greet(state: ChatState, { version, json }: ChatRequest, terminal: CliTerminal): Promise<void> {
  const { agentKey, executor, capabilities } = state.session;
  if (json) {
    const reply = { command: 'chat', agentKey, kept: state.persistent, executor, capabilities };
    return await state.output.note(reply, '');
  }
  if (!state.interactive) return;
  await terminal.err(`Cella ${version}`, 'bold');
  const end = state.persistent ? '' : ', deleted at the end';
  await terminal.err(`, chat with ${JSON.stringify(agentKey)}${end}\n`);
  const shell = capabilities.subprocesses ? ', /sh COMMAND a shell,' : '';
  await terminal.err(`/py CODE runs Python${shell} ${state.where}. /help lists the rest.\n`);
  await terminal.err('Tab completes, Ctrl-C interrupts, Ctrl-D leaves.\n\n');
}

/** Handles lines until the input ends or a line leaves the chat. */
async function converse(state: ChatState, terminal: CliTerminal): Promise<number> {
  // A failed write fails again at the next prompt or result, and is reported there.
  state.cells.showBackground().catch(() => {});
  const prompt = state.interactive ? terminal.styled('chat> ', 'bold') : '';
  for (let last: ChatOutcome = 'done'; ; ) {
    const line = await state.lines.read({ prompt, complete: (text) => complete(state, text) });
    if (line.kind === 'interrupt' || (line.kind === 'line' && line.text.trim() === '')) continue;
    if (line.kind !== 'line') return state.interactive || last !== 'failed' ? Exit.ok : Exit.failed;
    last = await take(state, line.text);
    if (last === 'leave') return Exit.ok;
  }
}

async function take(state: ChatState, text: string): Promise<ChatOutcome> {
  try {
    const line = parseLine(text);
    if (line.kind === 'command') return await findCommand(line.name).run(state, line.argument);
    return await takeText(state, line.text);
  } catch (error) {
    if (!(error instanceof CellaError) || error.code === 'SESSION_CLOSED') throw error;
    await state.output.fail(error);
    return 'failed';
  }
}

/** A line without a command is a prompt, if a coding agent is chosen. */
async function takeText(state: ChatState, text: string): Promise<ChatOutcome> {
  const { session, lines, interactive: prompts } = state;
  if (state.agent) return await promptAgent(state, text);
  if (!state.autoPy) {
    throw new UsageError(
      'No coding agent is chosen.',
      'Choose one with /agent claude, or run Python with /py CODE or --auto-py.',
    );
  }
  if (LEAVE.test(text)) return 'leave';
  const code = await finishCell(session, lines, text, { prompts });
  return code === undefined ? 'done' : await runPython(state, code);
}

const HELP = `
Examples:
  $ cella chat                            a new agent key, deleted at the end
  $ cella chat --key ada                  continue with an agent key
  $ cella chat --auto-py                  every line is Python
  $ cella chat --with claude              lines without a command go to Claude; needs a server
  $ printf '/py x = 123\\n/py print(x)\\n' | cella chat

Commands of a chat:
  /py CODE           run Python; /py alone takes several lines, /py reset clears all variables
  /sh COMMAND        run a shell command in the same sandbox and folder; you confirm it first
  /agent [NAME]      choose the coding agent that plain lines go to, as --with does
  /cwd               show the working folder
  /vars              list variables
  /undo              go back to before the last cell, up to five times
  /checkpoint NAME   create a checkpoint; /checkpoints lists them, /restore NAME goes back
  /fork KEY          copy the kernel to another agent key
  /history [N]       show the last cells
  /deps, /skills, /tools, /artifacts   list them; /help NAME shows what else they do
  /help [COMMAND]    show all commands, or more about one
  /quit              leave, as Ctrl-D does

At a terminal, Tab completes, and Ctrl-C interrupts running code or clears the line. If stdin is not a
terminal, its lines are handled the same way, /sh needs --auto-sh, and the exit code is 1 if the last
line failed. docs/cli.md describes the commands and the JSON.`;
