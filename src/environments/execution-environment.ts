/** The environment of one session's agent and its runner: prepares it, sends prompts, reads and watches its files. */

import { setTimeout as delay } from 'node:timers/promises';
import type { z } from 'zod';
import { SerialQueue } from '../lib/queues.ts';
import { type AgentProfile, parseProfile } from '../protocol/agent-profile.ts';
import { CellaError } from '../protocol/errors.ts';
import {
  type QueryInput,
  QueryLine,
  type QueryRequest,
  SetupLine,
  TranscriptLine,
  transcriptPieces,
} from '../protocol/runner-commands.ts';
import { AgentName, checkTranscriptLength } from '../protocol/turn.ts';
import {
  type BasePaths,
  checkMode,
  type Environment,
  type EnvironmentFileChange,
  type FileEntry,
  type FileWrite,
  type FileWritten,
  writeMissingFiles,
} from './environment.ts';
import { type RunnerCommandLine, runRunnerCommand } from './run-runner-command.ts';

export interface ExecutionEnvironmentOptions {
  readonly sessionId: string;
  /** The agent that runs here. */
  readonly agent: AgentName;
  readonly agentProfile: AgentProfile;
  readonly environmentOptions: {
    /** Creates the environment or attaches to it: `LocalEnvironment.create`, `SandboxEnvironment.attach` … */
    readonly open: () => Promise<Environment>;
    readonly runner: RunnerCommandLine;
  };
}

interface WatchedTranscript {
  /** The agent's own id of the conversation. */
  readonly conversation: string;
  readonly text: string;
}

export interface Preparation {
  readonly workspaceFiles?: readonly FileWrite[];
  /** The transcript to continue. */
  readonly transcript?: WatchedTranscript;
}

export interface Prepared {
  /** The profile's files and the workspace files that were requested, with the outcome of each. */
  readonly files: readonly FileWritten[];
  /** `kept`: the existing transcript is as new or newer, and stays. */
  readonly transcript: 'none' | 'written' | 'kept';
}

type PermissionLine = Extract<QueryLine, { type: 'permission' }>;
/** An event of a query. The last one tells how the query ended. */
export type QueryEvent = Exclude<QueryLine, PermissionLine>;
export type QueryAnswer = Omit<Extract<QueryInput, { type: 'permission' }>, 'type' | 'id'>;

/** The parts of a prompt that the environment does not know itself. */
export interface Query extends Omit<QueryRequest, 'agent' | 'cwd' | 'homeDir' | 'programDir' | 'env' | 'profile'> {
  /** Called if the agent needs a permission or an answer. Without it, everything is denied. */
  readonly permit?: (ask: PermissionLine) => Promise<QueryAnswer>;
  /** Cancels the query, which reports that as its last event. */
  readonly signal?: AbortSignal;
}

/** How long a cancelled query may take to stop by itself. */
const STOP_TIMEOUT_MS = 5000;
/** The pause between two reads of a transcript that keeps changing. */
const REST_MS = 500;
const HEALTH_TIMEOUT_MS = 10_000;
/**
 * Timeout for preparing and reading. Code of the session can write to the transcript's folder, so the transcript may be a pipe.
 */
const COMMAND_TIMEOUT_MS = 120_000;

export class ExecutionEnvironment implements AsyncDisposable {
  readonly sessionId: string;
  readonly agent: AgentName;
  /** For running anything else there. */
  readonly environment: Environment;
  readonly #profile: AgentProfile;
  readonly #runner: RunnerCommandLine;
  /** Runs one preparation at a time: otherwise the older of two transcripts could be written last. */
  readonly #preparations = new SerialQueue();

  private constructor(options: Omit<ExecutionEnvironmentOptions, 'environmentOptions'>, opened: OpenedEnvironment) {
    this.sessionId = options.sessionId;
    this.agent = options.agent;
    this.#profile = options.agentProfile;
    this.environment = opened.environment;
    this.#runner = opened.runner;
  }

  static async create(options: ExecutionEnvironmentOptions): Promise<ExecutionEnvironment> {
    const { sessionId, environmentOptions } = options;
    const agent = checkedName(options.agent);
    const agentProfile = parseProfile(options.agentProfile);
    const environment = await environmentOptions.open();
    const opened = { environment, runner: environmentOptions.runner };
    return new ExecutionEnvironment({ sessionId, agent, agentProfile }, opened);
  }

  getId(): string {
    return this.environment.getId();
  }

  getBasePaths(): BasePaths {
    return this.environment.getBasePaths();
  }

  /** Prepares the files that the agent starts with. Can be repeated before each prompt. */
  prepareSession(preparation: Preparation = {}): Promise<Prepared> {
    return this.#preparations.run(() => this.#prepare(preparation));
  }

  async *executeQuery({ permit, signal, ...query }: Query): AsyncGenerator<QueryEvent> {
    signal?.throwIfAborted();
    checkMode(query.mode, this.environment);
    const late = new AbortController();
    let say: (line: QueryInput) => void = () => {};
    const stop = () => {
      say({ type: 'stop' });
      setTimeout(() => late.abort(), STOP_TIMEOUT_MS).unref();
    };
    signal?.addEventListener('abort', stop, { once: true });
    const lines = runRunnerCommand(this.environment, this.#runner, {
      name: 'execute-query',
      lines: [{ ...this.#commandBase(), profile: this.#profileWithoutFiles(), ...query }],
      schema: QueryLine,
      reportsFailure: ({ type }) => type === 'ended',
      onInput: (write) => {
        // End the query if a line cannot be sent: it may wait for that line forever.
        say = (line) => void write(line).catch(() => late.abort());
        if (signal?.aborted) stop();
      },
      signal: late.signal,
    });
    try {
      for await (const line of lines) {
        if (line.type !== 'permission') yield line;
        else void answer(line, permit).then((decision) => say({ ...decision, type: 'permission', id: line.id }));
      }
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** The agent's own transcript of a conversation; undefined if there is none. */
  async readSessionTranscript(conversation: string): Promise<string | undefined> {
    const pieces: string[] = [];
    let found: boolean | undefined;
    let length = 0;
    const { transcriptCharacters: most } = this.#runner.limits ?? {};
    for await (const line of this.#run('read-transcript', [{ ...this.#commandBase(), conversation }], TranscriptLine)) {
      if (line.type === 'text') {
        length += line.text.length;
        checkTranscriptLength(conversation, length, most);
        pieces.push(line.text);
      }
      if (line.type === 'end') found = line.found;
    }
    // Do not return half a transcript as if it were complete.
    if (found === undefined) throw new CellaError('RUNNER_PROTOCOL', 'The runner sent an incomplete transcript.');
    return found ? pieces.join('') : undefined;
  }

  /** Yields the whole transcript each time it changes. Resolves once the watch is active. */
  async watchSessionTranscriptChanges(
    conversation: string,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<AsyncIterable<string>> {
    const over = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, over.signal]) : over.signal;
    const changes = await this.environment.watch(this.getBasePaths().HOME_DIR, { signal });
    const read = () => this.readSessionTranscript(conversation);
    const before = await read().catch((error: unknown) => {
      over.abort();
      throw error;
    });
    return (async function* () {
      let last = before;
      try {
        for await (const _burst of coalesce(changes, REST_MS)) {
          const text = await read();
          if (text === undefined || text === last) continue;
          last = text;
          yield text;
        }
      } finally {
        // Stop watching when the reader stops.
        over.abort();
      }
    })();
  }

  /** The workspace's files by path, without folders and links. */
  async getWorkspaceFiles(pattern?: string): Promise<readonly FileEntry[]> {
    const entries = await this.environment.listFiles(this.getBasePaths().WORKSPACE_DIR, pattern);
    return entries.filter(({ type }) => type === 'file');
  }

  watchWorkspaceFiles(options: { readonly signal?: AbortSignal } = {}): Promise<AsyncIterable<EnvironmentFileChange>> {
    return this.environment.watch(this.getBasePaths().WORKSPACE_DIR, options);
  }

  /** Whether a prompt could run: the environment runs and can start the runner's program. */
  async isHealthy(): Promise<boolean> {
    if (!(await this.environment.isRunning())) return false;
    const [program = ''] = this.#runner.argv;
    try {
      const asked = await this.environment.exec([program, '--version'], {
        signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS),
      });
      asked.stdout.resume();
      asked.stderr.resume();
      return (await asked.exited).code === 0;
    } catch {
      return false; // a prompt would fail for the same reason
    }
  }

  /** Ends all processes; workspace and home stay. */
  async cleanup(): Promise<void> {
    await this.environment.terminate();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cleanup();
  }

  async #prepare({ workspaceFiles = [], transcript }: Preparation): Promise<Prepared> {
    const first = await writeMissingFiles(this.environment, this.#profile);
    const files = [...first, ...(await this.environment.writeFiles(workspaceFiles))];
    const begin = { ...this.#commandBase(), profile: this.#profileWithoutFiles() };
    const lines: object[] = transcript
      ? [{ ...begin, conversation: transcript.conversation }, ...transcriptPieces(transcript.text)]
      : [begin];
    let written: Prepared['transcript'] | undefined;
    for await (const line of this.#run('setup-session', lines, SetupLine)) written = line.transcript;
    if (written === undefined) throw new CellaError('RUNNER_PROTOCOL', 'The runner did not report what it prepared.');
    return { files, transcript: written };
  }

  async *#run<S extends z.ZodType>(name: 'setup-session' | 'read-transcript', lines: Iterable<object>, schema: S) {
    const { commandMs = COMMAND_TIMEOUT_MS } = this.#runner.limits ?? {};
    const signal = AbortSignal.timeout(commandMs);
    try {
      yield* runRunnerCommand(this.environment, this.#runner, { name, lines, schema, signal });
    } catch (cause) {
      if (!signal.aborted) throw cause;
      throw new CellaError('DEADLINE_EXCEEDED', `The runner's ${name} took more than ${commandMs} ms.`, { cause });
    }
  }

  /** The arguments that all commands share. */
  #commandBase() {
    const { WORKSPACE_DIR, HOME_DIR } = this.getBasePaths();
    return { agent: this.agent, cwd: WORKSPACE_DIR, homeDir: HOME_DIR, programDir: this.#runner.programDir };
  }

  /** The host writes files to the workspace itself, in any number and size. The runner handles the rest of the profile. */
  #profileWithoutFiles(): AgentProfile {
    const { files: _files, ...rest } = this.#profile;
    return rest;
  }
}

interface OpenedEnvironment {
  readonly environment: Environment;
  readonly runner: RunnerCommandLine;
}

async function answer(ask: PermissionLine, permit: Query['permit']): Promise<QueryAnswer> {
  try {
    return permit ? await permit(ask) : { allowed: false, reason: 'Nobody can be asked.' };
  } catch {
    return { allowed: false, reason: 'The request for permission failed.' }; // `permit` reports its own errors
  }
}

function checkedName(name: string): AgentName {
  const parsed = AgentName.safeParse(name);
  if (parsed.success) return parsed.data;
  throw new CellaError('INVALID_NAME', `${JSON.stringify(name.slice(0, 80))} cannot be the name of an agent.`);
}

/** Yields once for all changes since the last time, with a pause of `restMs` in between. */
async function* coalesce(changes: AsyncIterable<unknown>, restMs: number): AsyncGenerator<void> {
  let news = Promise.withResolvers<void>();
  let over: { error?: unknown } | undefined;
  const pump = async () => {
    for await (const _change of changes) news.resolve();
  };
  pump().then(
    () => {
      over = {};
      news.resolve();
    },
    (error: unknown) => {
      over = { error };
      news.resolve();
    },
  );
  for (;;) {
    await news.promise;
    if (over) break;
    news = Promise.withResolvers();
    yield;
    await delay(restMs);
  }
  if ('error' in over) throw over.error;
}
