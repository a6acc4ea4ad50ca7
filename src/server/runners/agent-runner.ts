/** The runner of one session: starts the process in its environment, runs one turn at a time, checks that it is alive, and stops it. */

import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as delay } from 'node:timers/promises';
import type { Execution } from '../../environments/environment.ts';
import { checkMode } from '../../environments/execution-environment.ts';
import { onAbort } from '../../lib/abort.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import type { AuditLog, SessionTokens } from '../access/access-control.ts';
import { type RunnerTurn, type TurnResult, toAgentFailure } from '../turns/session-turn.ts';
import type { ConversationSync } from './conversation-sync.ts';
import { DISCONNECT_CODES, RunnerConnection, type RunnerConnectionParts } from './runner-connection.ts';
import { hasNetwork, type OpenRunnerEnvironment, type RunnerEnvironment } from './runner-environment.ts';
import { RunnerSocket, type RunnerSocketParts } from './runner-socket.ts';
import type { RunnerSettings, RunnerSpec } from './runner-spec.ts';

type RunnerState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'busy'; readonly turn: string; readonly token?: string }
  | { readonly kind: 'dead'; readonly reason: CellaError };

export class AgentRunner {
  readonly id: string;
  readonly spec: RunnerSpec;
  readonly #parts: AgentRunnerParts;
  readonly #started: StartedRunner;
  readonly #died = Promise.withResolvers<CellaError>();
  #state: RunnerState = { kind: 'idle' };
  #ping: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  private constructor(id: string, spec: RunnerSpec, parts: AgentRunnerParts, started: StartedRunner) {
    this.id = id;
    this.spec = spec;
    this.#parts = parts;
    this.#started = started;
    const { execution, connection } = started;
    void connection.closed.then((reason) => this.#hungUp(reason));
    void execution.exited.then(
      (exit) => this.#die(runnerExited(exit, started.stderr.last)),
      (cause) => this.#die(new CellaError('WORKER_FAILED', `The executor never began: ${String(cause)}.`, { cause })),
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

  get socket(): Pick<RunnerSocket, 'restart'> {
    return this.#started.socket;
  }

  /** Rejects if the runner fails; the turn has then ended. */
  async run(task: RunnerTurn): Promise<TurnResult> {
    if (this.#state.kind !== 'idle') throw new CellaError('WORKER_FAILED', `The executor ${this.id} is ${this.state}.`);
    this.#state = { kind: 'busy', turn: task.id };
    using waiting = stopDeadline(task.signal, this.#parts.settings.stopMs, (late) => this.#die(late));
    const performed = this.#perform(task);
    performed.catch(() => {}); // handled below, unless the stop deadline came first
    try {
      return await Promise.race([performed, waiting.over]);
    } catch (error) {
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

  async #perform(task: RunnerTurn): Promise<TurnResult> {
    const { sync, settings } = this.#parts;
    const { environment, connection } = this.#started;
    checkMode(task.mode, environment.environment);
    await environment.programDir(task.agent);
    let conversation = await sync.prepare(environment, task);
    const emit: RunnerTurn['emit'] = (event) => {
      if (event.type === 'agent_session') conversation = event.conversation;
      return task.emit(event);
    };
    const told = await this.#execute({ ...task, conversation, emit });
    if (conversation !== undefined && this.#reason === undefined) {
      const named = conversation;
      const read = () => connection.readTranscript(task, named, settings.pingMs);
      await sync.save(environment, task, named, read).catch((error) => this.#note(error));
    }
    return told;
  }

  /** Each turn has its own token. When it ends, the token is revoked and the connections that used it are closed. */
  async #execute(task: RunnerTurn): Promise<TurnResult> {
    const { tokens, settings } = this.#parts;
    const { connection, socket } = this.#started;
    const binding = { session: task.session.id, task: task.id, executor: this.id };
    const limits = { ttlMs: settings.tokenMs, mostUses: settings.tokenUses };
    const token = await tokens.issue({ userId: task.userId }, binding, limits);
    if (this.state === 'busy') this.#state = { kind: 'busy', turn: task.id, token };
    // If it does not react, the stop deadline ends it.
    const stop = () => void connection.stopTurn(task.id, settings.stopMs).catch(() => {});
    try {
      const running = connection.execute(task, token);
      using _ = onAbort(task.signal, stop);
      const { status, conversation, token_usage: usage, error } = await running;
      // The gateway's error is more useful to the user than the provider's words.
      const refused = this.#parts.refusalOf(task.id);
      const told = status === 'failed' && refused ? toAgentFailure(refused) : error;
      return { status, conversation, usage, error: told };
    } catch (error) {
      // The exit says more than the lost connection.
      if (error instanceof CellaError && error.code === 'RUNNER_GONE') throw await this.died;
      throw error;
    } finally {
      // Cleared before it is revoked, so that the token check does not end the runner.
      if (this.state === 'busy') this.#state = { kind: 'busy', turn: task.id };
      await tokens.revoke(task.id);
      socket.closeConnections();
    }
  }

  #note(error: unknown): void {
    this.#parts.log(this.id, `its transcript could not be kept: ${error instanceof Error ? error.message : error}`);
  }

  #pingLater(): void {
    const { pingEveryMs, pingMs } = this.#parts.settings;
    this.#ping = setTimeout(async () => {
      try {
        await this.#started.connection.ping(pingMs);
        await this.#checkToken();
        if (this.#state.kind !== 'dead') this.#pingLater();
      } catch (cause) {
        this.#die(new CellaError('WORKER_FAILED', 'The executor does not answer any more.', { cause }));
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
      else log(this.id, `its token could not be looked at: ${String(error)}`);
    });
  }

  /** A process closes its connection before it exits, so waits briefly for the exit status. */
  async #hungUp(reason: CellaError): Promise<void> {
    if (reason.code === 'RUNNER_GONE') {
      await Promise.race([this.#started.execution.exited.catch(() => {}), delay(EXIT_MS, undefined, { ref: false })]);
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
  readonly sync: ConversationSync;
  readonly sockets: Pick<RunnerSocketParts, 'folder' | 'models'>;
  readonly mcp: (spec: RunnerSpec) => RunnerSocketParts['mcp'];
  readonly keyFor?: RunnerConnectionParts['keyFor'];
  /** Why the gateway refused the last call of a turn. */
  readonly refusalOf: (turn: string) => CellaError | undefined;
  /** Called when a runner breaks the protocol. */
  readonly refused: AuditLog['refused'];
  readonly log: (runner: string, line: string) => void;
}

interface StartedRunner {
  readonly environment: RunnerEnvironment;
  readonly socket: RunnerSocket;
  readonly execution: Execution;
  readonly connection: RunnerConnection;
  readonly stderr: StderrLog;
  readonly stack: AsyncDisposableStack;
}

interface StartOptions {
  readonly id: string;
  readonly spec: RunnerSpec;
  /** Loaded ahead of the first prompt. */
  readonly agent: string;
  readonly parts: AgentRunnerParts;
  /** The id of the running turn, for denied network access. */
  readonly turn: () => string | undefined;
}

async function startRunner({ id, spec, agent, parts, turn }: StartOptions): Promise<StartedRunner> {
  await using stack = new AsyncDisposableStack();
  const { settings, tokens, sockets, mcp, keyFor, log } = parts;
  const session = spec.info.id;
  const onError = (error: unknown) => log(id, `unexpected: ${String(error)}`);
  stack.defer(() => tokens.revokeExecutor(id));
  const binding = { session, executor: id };
  const socket = stack.use(
    await RunnerSocket.open({
      ...{ ...sockets, binding, hasNetwork: hasNetwork(spec), tokens, mcp: mcp(spec), onError },
      refused: ({ code, message }) =>
        parts.refused({ kind: 'session_token', userId: spec.info.ownerId, session, detail: message, code }),
    }),
  );
  const environment = await parts.open(spec, socket.folder, (attempt) => spec.tellDenied(attempt, turn()));
  stack.use(environment.environment);
  const execution = await environment.environment.exec([...environment.runner, 'serve'], {
    stdin: 'pipe',
    cwd: environment.cwd,
  });
  const stderr = new StderrLog(execution.stderr, (line) => log(id, line));
  const { stdin, stdout } = execution;
  if (!stdin) throw new CellaError('WORKER_FAILED', 'The executor has no input.');
  const connection = new RunnerConnection(
    { stdin, stdout },
    { runnerId: id, sessionId: session, environment, tokens, keyFor, onUnforeseen: onError },
  );
  void connection.closed.then(({ code, message }) => {
    const refusal = { userId: spec.info.ownerId, session, detail: message, code };
    if (DISCONNECT_CODES.has(code)) parts.refused({ kind: 'runner_protocol', ...refusal });
  });
  stack.defer(() => connection.disconnect(runnerClosed('it was not needed')));
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
      await Promise.race([never, delay(EXIT_MS, undefined, { ref: false })]);
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
      const late = new CellaError('WORKER_FAILED', `The turn did not end within ${stopMs} ms after it was stopped.`);
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
  return new CellaError('WORKER_FAILED', `The executor was ended: ${why}.`);
}

function runnerExited({ code, signal, outOfMemory }: ProcessExit, stderr: string): CellaError {
  if (outOfMemory) {
    const message = `The executor was ended by ${signal}: the memory that its session may have was used up.`;
    return new CellaError('WORKER_OUT_OF_MEMORY', message, { details: { signal } });
  }
  const how = signal === undefined ? `with exit code ${code}` : `by ${signal}`;
  const said = stderr === '' ? '' : ` Its last words: ${stderr}`;
  return new CellaError('WORKER_FAILED', `The executor has ended ${how}.${said}`, {
    details: signal === undefined ? { code } : { signal },
  });
}

const MOST_LINE = 2000;
const MOST_LINES = 10_000;
/** Session tokens never appear in the log. */
const TOKEN = /cst_[0-9A-Za-z_-]+/g;
const CONTROLS = /[^\P{Cc}\t]/gu;

class StderrLog {
  #last = '';
  #rest = '';
  #count = 0;

  constructor(stream: Readable, told: (line: string) => void) {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (chunk: Buffer) => {
      const parts = (this.#rest + decoder.write(chunk)).split('\n');
      this.#rest = (parts.pop() ?? '').slice(0, MOST_LINE);
      for (const part of parts) this.#take(part, told);
    });
    stream.on('end', () => this.#take(this.#rest, told));
    stream.on('error', () => {}); // its exit is reported elsewhere
  }

  get last(): string {
    return this.#last;
  }

  #take(raw: string, told: (line: string) => void): void {
    const line = raw.slice(0, MOST_LINE).replace(TOKEN, 'cst_…').replace(CONTROLS, '?').trim();
    if (line === '') return;
    this.#last = line.slice(0, 500);
    if (++this.#count <= MOST_LINES) told(line);
  }
}
