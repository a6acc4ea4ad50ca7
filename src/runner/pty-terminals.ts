/** Terminals in the environment. The environment's Python opens the PTY. Part of the protocol; the server does not use it yet. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { RpcPeer } from '../protocol/rpc-peer.ts';
import { type SpawnTerminal, TerminalExited, TerminalPrinted } from '../protocol/runner-methods.ts';
import { killDescendants } from './own-process.ts';

const MAX_TERMINALS = 16;
/** In base64 it stays below the limit of one message. */
const PIECE_BYTES = 64 * 1024;

/** Runs `cols rows program…` on a PTY and copies its input and output. Kills the program when the input ends, that is, when the runner has died. */
const PTY = `
import fcntl, os, pty, signal, struct, sys, termios
cols, rows, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\\n".encode())
        os._exit(127)
def typed(fd):
    text = os.read(fd, 1024)
    if not text:
        os.killpg(pid, signal.SIGKILL)
    return text
pty._copy(master, stdin_read=typed)
os.close(master)
status = os.waitpid(pid, 0)[1]
code = os.waitstatus_to_exitcode(status)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
`;

type SpawnParams = z.output<typeof SpawnTerminal.params>;

export class PtyTerminals {
  readonly #peer: RpcPeer;
  readonly #env: Readonly<Record<string, string>>;
  readonly #open = new Map<string, ChildProcessWithoutNullStreams>();

  constructor(peer: RpcPeer, env: Readonly<Record<string, string>>) {
    this.#peer = peer;
    this.#env = env;
  }

  async spawn({ terminal_id, cwd, size, argv = ['/bin/sh', '-i'] }: SpawnParams): Promise<{ pid: number }> {
    if (this.#open.has(terminal_id)) throw new CellaError('NAME_TAKEN', 'A terminal with this id exists already.');
    if (this.#open.size >= MAX_TERMINALS)
      throw new CellaError('RATE_LIMITED', `There are already ${MAX_TERMINALS} terminals.`);
    const env = { ...this.#env, TERM: 'xterm-256color' };
    const child = spawn('python3', ['-c', PTY, String(size.cols), String(size.rows), ...argv], { cwd, env });
    this.#open.set(terminal_id, child);
    child.once('close', (code, signal) => {
      this.#open.delete(terminal_id);
      if (child.pid === undefined) return; // it never started; the caller gets the error
      const how = signal === null ? { code: code ?? 1 } : { signal };
      void this.#peer.notify(TerminalExited, { terminal_id, ...how });
    });
    child.stdin.on('error', () => {}); // input after its end
    this.#show(terminal_id, child).catch(() => {}); // its exit is reported elsewhere
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (cause) =>
        reject(new CellaError('CAPABILITY_MISSING', `A terminal cannot be opened here: ${cause.message}.`, { cause })),
      );
    });
    return { pid: child.pid ?? 0 };
  }

  /** The processes of open terminals. */
  get pids(): ReadonlySet<number> {
    return new Set([...this.#open.values()].flatMap(({ pid }) => pid ?? []));
  }

  type(id: string, data: string): void {
    this.#open.get(id)?.stdin.write(Buffer.from(data, 'base64'));
  }

  terminate(id: string): boolean {
    const child = this.#open.get(id);
    if (child?.pid === undefined) return false;
    // A program can ignore SIGHUP, but not SIGKILL.
    killDescendants(child.pid);
    return child.kill('SIGKILL');
  }

  close(): void {
    for (const id of this.#open.keys()) this.terminate(id);
  }

  /** Waits for the server to take each piece. */
  async #show(terminal_id: string, child: ChildProcessWithoutNullStreams): Promise<void> {
    child.stderr.pipe(process.stderr, { end: false });
    for await (const chunk of child.stdout) {
      for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
        const data = chunk.subarray(at, at + PIECE_BYTES).toString('base64');
        await this.#peer.notify(TerminalPrinted, { terminal_id, data });
      }
    }
  }
}
