/**
 * The runner of one session: starts the process in its environment, runs one turn at a time, checks that it is alive, and
 * stops it.
 */

import type { Readable } from 'node:stream';
import { checkMode, type Process } from '../../environments/environment.ts';
import { onAbort } from '../../lib/abort.ts';
import { settlesWithin, withTimeout } from '../../lib/deadline.ts';
import { type Line, LineSplitter } from '../../lib/line-splitter.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { type TurnResult, toAgentFailure } from '../../protocol/turn.ts';
import type { AuditLog } from '../access/audit-log.ts';
import type { SessionTokens } from '../access/session-tokens.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import { DISCONNECT_CODES, RunnerConnection, type RunnerConnectionParts } from './runner-connection.ts';
import {
  ConversationSync,
  hasNetwork,
  type OpenRunnerEnvironment,
  type RunnerEnvironment,
  type RunnerSettings,
  type RunnerSpec,
} from './runner-environment.ts';
import { RunnerListener, type RunnerListenerParts } from './runner-listener.ts';

type RunnerState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'busy'; readonly turn: string; readonly token?: string }
  | { readonly kind: 'dead'; readonly reason: CellaError };

export class AgentRunner {
  readonly id: string;
  readonly spec: RunnerSpec;
  readonly #parts: AgentRunnerParts;
  readonly #started: StartedRunner;
  readonly #sync: ConversationSync;
  readonly #died = Promise.withResolvers<CellaError>();
  #state: RunnerState = { kind: 'idle' };
  #ping: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  private constructor(id: string, spec: RunnerSpec, parts: AgentRunnerParts, started: StartedRunner) {
    this.id = id;
    this.spec = spec;
    this.#parts = parts;
    this.#started = started;
    const { execution, connection, environment } = started;
    this.#sync = new ConversationSync(environment, connection, parts.settings);
    void connection.closed.then((reason) => this.#connectionClosed(reason));
    void execution.exited.then(
      (exit) => this.#die(runnerExited(exit, started.stderr.last)),
      (cause) => this.#die(new CellaError('RUNNER_FAILED', `The runner did not start: ${String(cause)}.`, { cause })),
    );
    this.#pingLater();
  }

  /** `agent` is loaded ahead of the first prompt. */
  static async start(id: string, spec: RunnerSpec, agent: string, parts: AgentRunnerParts): Promise<AgentRunner> {
    let runner: AgentRunner | undefined;
    const started = await startRunner({ id, spec, agent, parts, turn: () => runner?.turn });
    runner = new AgentRunner(id, spec, parts, started);
    return runner;
  }

  get state(): RunnerState['kind'] {
    return this.#state.kind;
  }

  /** The id of the running turn. */
  get turn(): string | undefined {
    return this.#state.kind === 'busy' ? this.#state.turn : undefined;
  }

  /** Resolves with the reason when the runner has ended. */
  get died(): Promise<CellaError> {
    return this.#died.promise;
  }

  /** The token of the running turn while it is valid. */
  get #token(): string | undefined {
    return this.#state.kind === 'busy' ? this.#state.token : undefined;
  }

  get #reason(): CellaError | undefined {
    return this.#state.kind === 'dead' ? this.#state.reason : undefined;
  }

  get socket(): Pick<RunnerListener, 'restart'> {
    return this.#started.socket;
  }

  /** Rejects if the runner fails; the turn has then ended. */
  async run(turn: RunnerTurn): Promise<TurnResult> {
    if (this.#state.kind !== 'idle') throw new CellaError('RUNNER_FAILED', `The runner ${this.id} is ${this.state}.`);
    this.#state = { kind: 'busy', turn: turn.id };
    using waiting = stopDeadline(turn.signal, this.#parts.settings.stopMs, (late) => this.#die(late));
    const performed = this.#perform(turn);
    performed.catch(() => {}); // handled below, unless the stop deadline came first
    try {
      return await Promise.race([performed, waiting.over]);
    } catch (error) {
      // The exit says more than the lost connection.
      if (error instanceof CellaError && error.code === 'RUNNER_GONE') throw await this.died;
      throw this.#reason ?? error;
    } finally {
      if (this.state === 'busy') this.#state = { kind: 'idle' };
    }
  }

  /** Sends TERM, then KILL to everything it started. Idempotent. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(runnerClosed(reason));
    return this.#closing;
  }

  async #perform(turn: RunnerTurn): Promise<TurnResult> {
    const { environment } = this.#started;
    checkMode(turn.mode, environment.environment);
    await environment.programDir(turn.agent);
    let conversation = await this.#prepare(turn);
    const emit: RunnerTurn['emit'] = (event) => {
      if (event.type === 'agent_session') conversation = event.conversation;
      return turn.emit(event);
    };
    const result = await this.#execute({ ...turn, conversation, emit });
    if (conversation !== undefined && this.#reason === undefined) {
      await this.#sync.save(turn, conversation).catch((error) => this.#note(error));
    }
    return result;
  }

  /** Ends a runner that does not answer in time: it may wait forever. */
  async #prepare(turn: RunnerTurn): Promise<string | undefined> {
    try {
      return await this.#sync.prepare(turn);
    } catch (error) {
      if (error instanceof CellaError && error.code === 'DEADLINE_EXCEEDED') {
        this.#die(new CellaError('RUNNER_FAILED', `The session was not set up in time: ${error.message}`));
      }
      throw error;
    }
  }

  /** Each turn has its own token. When it ends, the token is revoked and the connections that used it are closed. */
  async #execute(turn: RunnerTurn): Promise<TurnResult> {
    const { tokens, settings } = this.#parts;
    const { connection, socket } = this.#started;
    const binding = { session: turn.session.id, turn: turn.id, runner: this.id };
    const limits = { ttlMs: settings.tokenMs, mostUses: settings.tokenUses };
    const token = await tokens.issue({ userId: turn.userId }, binding, limits);
    if (this.state === 'busy') this.#state = { kind: 'busy', turn: turn.id, token };
    // If it does not react, the stop deadline ends it.
    const stop = () => void connection.stopTurn(turn.id, settings.stopMs).catch(() => {});
    try {
      const running = connection.execute(turn, token);
      using _ = onAbort(turn.signal, stop);
      const result = await running;
      // The gateway's error is more useful to the user than the provider's words.
      const refused = this.#parts.refusalOf(turn.id);
      return result.status === 'failed' && refused ? { ...result, error: toAgentFailure(refused) } : result;
    } finally {
      // Cleared before it is revoked, so that the token check does not end the runner.
      if (this.state === 'busy') this.#state = { kind: 'busy', turn: turn.id };
      await tokens.revoke(turn.id);
      socket.closeConnections();
    }
  }

  #note(error: unknown): void {
    this.#parts.log(this.id, `its transcript could not be saved: ${messageOf(error)}`);
  }

  #pingLater(): void {
    const { pingEveryMs, pingMs } = this.#parts.settings;
    this.#ping = setTimeout(async () => {
      try {
        await this.#started.connection.ping(pingMs);
        await this.#checkToken();
        if (this.#state.kind !== 'dead') this.#pingLater();
      } catch (cause) {
        this.#die(new CellaError('RUNNER_FAILED', 'The runner no longer answers.', { cause }));
      }
    }, pingEveryMs).unref();
  }

  /** Ends a silent turn whose user was disabled or whose token has expired. */
  async #checkToken(): Promise<void> {
    const token = this.#token;
    if (token === undefined) return;
    const { tokens, log } = this.#parts;
    await tokens.peek(token).catch((error: unknown) => {
      if (this.#token !== token) return; // its turn has ended meanwhile
      if (error instanceof CellaError && error.code === 'UNAUTHENTICATED') this.#die(error);
      else log(this.id, `its token could not be checked: ${String(error)}`);
    });
  }

  /** A process closes its connection before it exits, so waits briefly for the exit status. */
  async #connectionClosed(reason: CellaError): Promise<void> {
    if (reason.code === 'RUNNER_GONE') {
      await settlesWithin(this.#started.execution.exited, EXIT_MS);
    }
    this.#die(reason);
  }

  /** The first reason counts. */
  #die(reason: CellaError): void {
    if (this.#state.kind === 'dead') return;
    this.#state = { kind: 'dead', reason };
    clearTimeout(this.#ping);
    this.#started.connection.disconnect(reason);
    this.#died.resolve(reason);
    this.#closing ??= this.#end();
    void this.#closing.catch((error) => this.#parts.log(this.id, `could not be ended: ${String(error)}`));
  }

  async #close(reason: CellaError): Promise<void> {
    const { graceMs } = this.#parts.settings;
    const { connection } = this.#started;
    clearTimeout(this.#ping);
    if (this.#state.kind !== 'dead') await connection.shutdown(reason.message, graceMs).catch(() => {}); // it is killed anyway
    this.#die(reason);
    await this.#end();
  }

  async #end(): Promise<void> {
    const { execution, stack } = this.#started;
    execution.kill({ graceMs: this.#parts.settings.graceMs });
    await execution.exited.catch(() => {}); // it never started
    await stack.disposeAsync();
  }
}

export interface AgentRunnerParts {
  readonly settings: RunnerSettings;
  readonly tokens: SessionTokens;
  readonly open: OpenRunnerEnvironment;
  readonly sockets: Pick<RunnerListenerParts, 'folder' | 'models' | 'unread'>;
  readonly mcp: (spec: RunnerSpec) => RunnerListenerParts['mcp'];
  readonly keyFor?: RunnerConnectionParts['keyFor'];
  /** Why the gateway refused the last call of a turn. */
  readonly refusalOf: (turn: string) => CellaError | undefined;
  /** Called when a runner breaks the protocol, or a session token is refused. */
  readonly refused: AuditLog['refused'];
  readonly log: (runner: string, line: string) => void;
}

interface StartedRunner {
  readonly environment: RunnerEnvironment;
  readonly socket: RunnerListener;
  readonly execution: Process;
  readonly connection: RunnerConnection;
  readonly stderr: StderrLog;
  readonly stack: AsyncDisposableStack;
}

interface RunnerStartOptions {
  readonly id: string;
  readonly spec: RunnerSpec;
  /** Loaded ahead of the first prompt. */
  readonly agent: string;
  readonly parts: AgentRunnerParts;
  /** The id of the running turn, for denied network access. */
  readonly turn: () => string | undefined;
}

async function startRunner({ id, spec, agent, parts, turn }: RunnerStartOptions): Promise<StartedRunner> {
  await using stack = new AsyncDisposableStack();
  const { settings, tokens, sockets, mcp, keyFor, log } = parts;
  const session = spec.info.id;
  const onError = (error: unknown) => log(id, `unexpected: ${String(error)}`);
  stack.defer(() => tokens.revokeRunner(id));
  const binding = { session, runner: id };
  const socket = stack.use(
    await RunnerListener.open({
      ...sockets,
      binding,
      hasNetwork: hasNetwork(spec),
      tokens,
      mcp: mcp(spec),
      onError,
      refused: ({ code, message }) =>
        parts.refused({ kind: 'session_token', userId: spec.info.ownerId, session, detail: message, code }),
    }),
  );
  const environment = await parts.open(spec, socket.folder, (attempt) => spec.onNetworkDenied(attempt, turn()));
  stack.use(environment.environment);
  const execution = await environment.environment.exec([...environment.runner, 'serve'], {
    stdin: 'pipe',
    cwd: environment.cwd,
  });
  const stderr = new StderrLog(execution.stderr, (line) => log(id, line));
  const { stdin, stdout } = execution;
  if (!stdin) throw new CellaError('RUNNER_FAILED', 'The runner has no input.');
  const connection = new RunnerConnection(
    { stdin, stdout },
    { runnerId: id, sessionId: session, environment, tokens, keyFor, onUnforeseen: onError },
  );
  void connection.closed.then(({ code, message }) => {
    const refusal = { userId: spec.info.ownerId, session, detail: message, code };
    if (DISCONNECT_CODES.has(code)) parts.refused({ kind: 'runner_protocol', ...refusal });
  });
  stack.defer(() => connection.disconnect(runnerClosed('it did not start')));
  const never = execution.exited.then((exit) => Promise.reject(runnerExited(exit, stderr.last)));
  never.catch(() => {}); // handled in the races below
  await Promise.race([waitForHello(connection.hello(agent, settings.startMs), never), never]);
  return { environment, socket, execution, connection, stderr, stack: stack.move() };
}

/** Prefers the exit status, which comes shortly after the lost connection. */
async function waitForHello(hello: Promise<void>, never: Promise<never>): Promise<void> {
  try {
    await hello;
  } catch (error) {
    if (error instanceof CellaError && error.code === 'RUNNER_GONE') {
      await withTimeout(never, EXIT_MS, () => error);
    }
    throw error;
  }
}

interface StopDeadline extends Disposable {
  /** Rejects at the deadline; never resolves. */
  readonly over: Promise<never>;
}

/** Starts when `signal` aborts. */
function stopDeadline(signal: AbortSignal, stopMs: number, onOver: (late: CellaError) => void): StopDeadline {
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => {}); // the turn may end first
  let timer: NodeJS.Timeout | undefined;
  const begin = () => {
    timer = setTimeout(() => {
      const late = new CellaError('RUNNER_FAILED', `The turn did not end within ${stopMs} ms after it was stopped.`);
      over.reject(late);
      onOver(late);
    }, stopMs);
  };
  const aborting = onAbort(signal, begin);
  return {
    over: over.promise,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      aborting[Symbol.dispose]();
    },
  };
}

/** How long the exit status may follow the lost connection on a busy machine. */
const EXIT_MS = 10_000;

function runnerClosed(why: string): CellaError {
  return new CellaError('RUNNER_FAILED', `The runner was stopped: ${why}.`);
}

function runnerExited({ code, signal, outOfMemory }: ProcessExit, stderr: string): CellaError {
  if (outOfMemory) {
    const message = `The runner was killed by ${signal}: the memory limit of its session was reached.`;
    return new CellaError('RUNNER_OUT_OF_MEMORY', message, { details: { signal } });
  }
  const how = signal === undefined ? `with exit code ${code}` : `by ${signal}`;
  const said = stderr === '' ? '' : ` Its last line on stderr: ${stderr}`;
  return new CellaError('RUNNER_FAILED', `The runner has ended ${how}.${said}`, {
    details: signal === undefined ? { code } : { signal },
  });
}

const MOST_LINE_BYTES = 2000;
const MOST_LINES = 10_000;
/** Session tokens never appear in the log. */
const TOKEN = /cst_[0-9A-Za-z_-]+/g;
const CONTROLS = /[^\P{Cc}\t]/gu;

class StderrLog {
  #last = '';
  #count = 0;

  constructor(stream: Readable, onLine: (line: string) => void) {
    const splitter = new LineSplitter(MOST_LINE_BYTES);
    const take = ({ bytes }: Line) => this.#take(Buffer.from(bytes).toString(), onLine);
    stream.on('data', (chunk: Buffer) => splitter.push(chunk).forEach(take));
    stream.on('end', () => {
      const last = splitter.end();
      if (last) take(last);
    });
    stream.on('error', () => {}); // its exit is reported elsewhere
  }

  get last(): string {
    return this.#last;
  }

  #take(raw: string, onLine: (line: string) => void): void {
    const line = raw.replace(TOKEN, 'cst_…').replace(CONTROLS, '?').trim();
    if (line === '') return;
    this.#last = line.slice(0, 500);
    if (++this.#count <= MOST_LINES) onLine(line);
  }
}
