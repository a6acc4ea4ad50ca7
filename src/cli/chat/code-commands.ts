/** /py, /sh, /cwd and /agent: the code that a line runs, and the tag that records which line a cell came from. */

import { signalName } from '../../lib/process-end.ts';
import { CellaError } from '../../protocol/errors.ts';
import { PermissionMode } from '../../protocol/turn.ts';
import { findAgent, requireAgentApi, ShownTurn } from '../agent/shown-turn.ts';
import { finishCell, readBlock, readPythonBlock } from '../cells/cell-reader.ts';
import { UsageError } from '../command-errors.ts';
import { Exit } from '../exit-codes.ts';
import { isYes } from '../terminal/prompts.ts';
import { type ChatOutcome, type ChatState, pushUndo } from './chat-state.ts';

/**
 * Runs inside the kernel, in its own namespace, and so in the kernel's sandbox. The shell reports its last working directory,
 * and the kernel changes to it. An interrupt goes to the command, which has a second to end before it is killed; that is
 * shorter than the kernel's own grace period.
 */
const RUN = `
import fcntl, os, signal, time

def start():
    pipe, tell = os.pipe()
    high = fcntl.fcntl(tell, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(tell)
    try:
        pid = os.posix_spawn(
            "/bin/sh", ["sh", "-c", "trap 'command pwd -P >&3' EXIT; " + command], os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, high, 3)],
            setpgroup=0, setsigmask=[], setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        os.write(2, b"The shell could not be started: %s.\\n" % os.strerror(error.errno).encode())
        raise SystemExit(126) from None
    finally:
        os.close(high)
    return pid, pipe

def end(pid):
    try:
        return os.waitpid(pid, 0)[1]
    except KeyboardInterrupt:
        os.killpg(pid, signal.SIGINT)
    try:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.005)
    except KeyboardInterrupt:
        pass
    os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def follow(pipe):
    os.set_blocking(pipe, False)
    try:
        folder = os.read(pipe, 65536)
        if folder.endswith(b"\\n"):
            os.chdir(folder[:-1])
    except OSError:
        pass

def main():
    try:
        pid, pipe = start()
        try:
            code = os.waitstatus_to_exitcode(end(pid))
            follow(pipe)
        finally:
            os.close(pipe)
    except KeyboardInterrupt:
        code = -signal.SIGINT
    except ChildProcessError:
        code = 0  # the code has taken its end for that of another child
    if code:
        raise SystemExit(int(code))

main()
`;

/** The command is data: it is quoted once, here, and never becomes Python source. */
export function shellCell(command: string): string {
  const quoted = JSON.stringify(command.toWellFormed());
  return tagCell('sh', command, `__import__("builtins").exec(${JSON.stringify(RUN)}, {"command": ${quoted}})`);
}

/** Prints the working directory as raw bytes. */
export const cwdCell = '# /cwd\n(lambda os: os.write(1, os.fsencode(os.getcwd()) + b"\\n"))(__import__("os"));';

/** The line that a person typed for this cell; undefined if it was not typed. */
export function cellToLine(code: string): string | undefined {
  if (code === cwdCell) return undefined;
  return taggedLine(code) ?? code;
}

/** `line` is the command without its slash and name. It is data that is put in a comment. */
export function tagCell(command: string, line: string, code: string): string {
  return `# /${command} ${JSON.stringify(line.toWellFormed())}\n${code}`;
}

const MARK = /^# \/(sh|deps|skills) ("[^\n]*")\n/;

/** The typed line; undefined if the code has no tag. */
function taggedLine(code: string): string | undefined {
  const [, command, quoted] = MARK.exec(code) ?? [];
  if (command === undefined || quoted === undefined) return undefined;
  try {
    return `/${command} ${JSON.parse(quoted)}`;
  } catch {
    return undefined; // a comment of the user
  }
}

export async function py(state: ChatState, argument: string): Promise<ChatOutcome> {
  const { session, lines, interactive: prompts } = state;
  if (argument === 'reset') return await reset(state);
  const code =
    argument === ''
      ? await readPythonBlock(session, lines, { prompts })
      : await finishCell(session, lines, argument, { prompts });
  // An interrupted or empty block runs nothing.
  return code === undefined ? 'done' : await runPython(state, code);
}

export async function runPython(state: ChatState, code: string): Promise<ChatOutcome> {
  const result = await state.cells.run(code);
  if (!result) return 'failed';
  pushUndo(state, { line: code, readOnly: false });
  const { exitCode } = result.error ?? {};
  if (exitCode !== undefined) {
    const text = `The code called sys.exit(${exitCode}). The chat continues; /quit leaves it.`;
    await state.output.note({ command: 'py', exitCode }, text);
  }
  return result.status === 'ok' || exitCode === 0 ? 'done' : 'failed';
}

async function reset({ session, output }: ChatState): Promise<ChatOutcome> {
  await session.reset();
  await output.note({ command: 'py', reset: true }, 'All variables are gone. Files and checkpoints stay.');
  return 'done';
}

/** Linux accepts no longer argument. */
const LONGEST_BYTES = 128 * 1024 - 256;

export async function sh(state: ChatState, argument: string): Promise<ChatOutcome> {
  const { executor, capabilities } = state.session;
  if (!capabilities.subprocesses) {
    throw new CellaError('CAPABILITY_MISSING', `The executor ${executor} has no processes, so there is no shell.`);
  }
  const command = argument === '' ? await readCommand(state) : argument;
  if (command === undefined) return 'done';
  check(command);
  if (!(await isConfirmed(state, command))) return 'done';
  const result = await state.cells.run(shellCell(command));
  if (!result) return 'failed';
  pushUndo(state, { line: `/sh ${command}`, readOnly: false });
  const { exitCode = 0 } = result.error ?? {};
  if (exitCode === 0) return result.status === 'ok' ? 'done' : 'failed';
  const text = exitCode > 0 ? `exit code ${exitCode}` : `ended by ${signalName(-exitCode)}`;
  await state.output.note({ command: 'sh', exitCode }, `[${text}]`);
  return 'failed';
}

export async function cwd(state: ChatState): Promise<ChatOutcome> {
  const result = await state.cells.run(cwdCell);
  if (result) pushUndo(state, { line: '/cwd', readOnly: true });
  return result?.status === 'ok' ? 'done' : 'failed';
}

async function readCommand({ lines, interactive: prompts }: ChatState): Promise<string | undefined> {
  return await readBlock(lines, { prompts, isWhole: async () => true, complete: async (_, line) => [[], line] });
}

function check(command: string): void {
  if (command.includes('\0')) throw new UsageError('A command cannot contain a null byte.', 'Leave it out.');
  const bytes = Buffer.byteLength(command);
  if (bytes <= LONGEST_BYTES) return;
  throw new UsageError(
    `This command has ${bytes} bytes; a shell accepts at most ${LONGEST_BYTES}.`,
    'Write it to a file with /py, and run that.',
  );
}

/** Shows the whole command to the person once more. */
async function isConfirmed(state: ChatState, command: string): Promise<boolean> {
  if (state.autoSh) return true;
  if (!state.interactive) {
    throw new UsageError(
      'A shell command must be confirmed, and there is no terminal to ask at.',
      'Start the chat with --auto-sh, or set CELLA_AUTO_SH=1, to run shell commands without asking.',
    );
  }
  await state.output.command(command);
  const line = await state.lines.read({ prompt: `Run this ${state.where}? [y/N] `, ignoreTypeahead: true });
  if (isYes(line)) return true;
  await state.output.note({ command: 'sh', confirmed: false }, 'Not run.');
  return false;
}

/** `/agent` shows the agent, `/agent NAME [MODE]` chooses one, `/agent off` chooses none. */
export async function agent(state: ChatState, argument: string): Promise<ChatOutcome> {
  const [name, mode, ...more] = argument.split(/\s+/).filter((word) => word !== '');
  if (more.length > 0) throw new UsageError('/agent takes a name and a mode.', 'Type /agent claude auto-edit.');
  if (name === 'off') state.agent = undefined;
  else if (name !== undefined) {
    const wanted = modeOf(mode);
    const session = requireAgentApi(state.session);
    state.agent = { name: await findAgent(session, name), mode: wanted };
    // Starts the agent early. If that fails, the first prompt reports why.
    void session.warmAgent(state.agent.name).catch(() => {});
  }
  const { agent: chosen } = state;
  const mood = chosen?.mode === undefined ? '' : ` in the mode ${chosen.mode}`;
  const nobody = state.autoPy ? 'Plain lines are Python.' : 'No coding agent is chosen. Choose one with /agent claude.';
  const text = chosen ? `Plain lines go to ${chosen.name}${mood}.` : nobody;
  await state.output.note({ command: 'agent', agent: chosen?.name ?? null, mode: chosen?.mode ?? null }, text);
  return 'done';
}

export async function promptAgent(state: ChatState, prompt: string): Promise<ChatOutcome> {
  const { terminal, lines, json, leaving, agent: chosen } = state;
  const turn = new ShownTurn({ session: requireAgentApi(state.session), terminal, lines, json, leaving });
  state.turn = turn;
  try {
    const options = { agent: chosen?.name, mode: chosen?.mode, profile: state.profile };
    const exitCode = await turn.run(prompt, options);
    // The agent's own cells are now the last ones, so /undo would not match the lines of this chat.
    state.undoStack.length = 0;
    return exitCode === Exit.ok ? 'done' : 'failed';
  } finally {
    state.turn = undefined;
  }
}

function modeOf(word: string | undefined): PermissionMode | undefined {
  if (word === undefined) return undefined;
  const mode = PermissionMode.safeParse(word);
  if (mode.success) return mode.data;
  throw new UsageError(`${JSON.stringify(word)} is not a mode.`, `The modes are ${PermissionMode.options.join(', ')}.`);
}
