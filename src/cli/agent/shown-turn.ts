/** Shows one turn of a coding agent at the terminal: prints events, asks questions, and stops the turn on Ctrl-C. */
import { messageOf } from '../../lib/values.ts';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PermissionDecision } from '../../protocol/permission.ts';
import { AgentName, type CodingAgent, ToolNames, type TurnInfo } from '../../protocol/turn.ts';
import type { AgentApi, PromptOptions } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControlsKeepLines } from '../format.ts';
import type { LineSource } from '../terminal/line-input.ts';
import type { CliTerminal } from '../terminal/terminal.ts';
import { describeQueued, LiveTurnPrinter } from './agent-printer.ts';
import { ask, type PersonRequest } from './permission-prompt.ts';

export interface AgentTurnContext {
  readonly session: Pick<AgentApi, 'prompt' | 'stop' | 'decidePermission'> & { readonly id?: string };
  readonly terminal: CliTerminal;
  readonly lines: LineSource;
  readonly json: boolean;
  /** Aborts when the command exits; the turn continues. */
  readonly leaving: AbortSignal;
}

/**
 * The most output that may wait for the screen, in characters of JSON. Beyond it, reading pauses until the screen has caught
 * up: a person may leave a question open for long, and a program may read slowly.
 */
const MAX_BUFFERED_CHARACTERS = 1_000_000;

/** Exit codes by the turn's status. */
const EXIT_OF_STATUS: Partial<Record<TurnInfo['status'], number>> = {
  completed: Exit.ok,
  cancelled: Exit.interrupted,
  timed_out: Exit.timeout,
};

export class ShownTurn {
  readonly #context: AgentTurnContext;
  readonly #rendering = new LiveTurnPrinter();
  readonly #asked = new Map<string, AbortController>();
  /** Serialises output and questions on the screen. */
  #screen: Promise<void> = Promise.resolve();
  #waiting = 0;
  #turn: string | undefined;
  readonly #stopping = new AbortController();

  constructor(context: AgentTurnContext) {
    this.#context = context;
  }

  /** Returns the exit code. */
  async run(prompt: string, options: PromptOptions): Promise<number> {
    const { session, leaving } = this.#context;
    const prompted = session.prompt(prompt, { ...options, signal: this.#stopping.signal });
    {
      using status = new IdleStatus(this.#context.terminal, () => this.#asked.size > 0);
      for await (const event of prompted) {
        if (leaving.aborted) break;
        status.update(event);
        this.#take(event);
        if (this.#waiting > MAX_BUFFERED_CHARACTERS) await this.#screen;
      }
    }
    // The end of the turn may be among the events that the server no longer has.
    this.#askNoLonger();
    await this.#screen;
    if (leaving.aborted) return Exit.interrupted;
    return EXIT_OF_STATUS[(await prompted.turn).status] ?? Exit.failed;
  }

  /** False if a stop was already requested: asking again means to leave. */
  stop(): boolean {
    if (this.#stopping.signal.aborted) return false;
    this.#stop();
    return true;
  }

  #stop(): void {
    this.#stopping.abort();
    if (this.#turn === undefined) return;
    this.#context.session.stop({ turn: this.#turn }).catch((error) => this.#tell(() => this.#fail(error)));
  }

  #take(event: AgentLogEvent): void {
    if ('turn' in event && event.turn !== undefined) this.#turn ??= event.turn;
    const text = JSON.stringify(event);
    if (this.#context.json) this.#tell(() => this.#context.terminal.outLines(text), text.length);
    if (event.type === 'permission_resolved') {
      this.#asked.get(event.id)?.abort();
      this.#asked.delete(event.id);
    }
    if (event.type === 'turn_ended') this.#askNoLonger();
    if (event.type === 'permission_requested' || event.type === 'question') this.#ask(event);
    else if (!this.#context.json) this.#tell(() => this.#show(event), text.length);
  }

  #tell(write: () => Promise<void>, size = 0): void {
    this.#waiting += size;
    this.#screen = this.#screen.then(write).finally(() => {
      this.#waiting -= size;
    });
    this.#screen.catch(() => {}); // reported by the code that awaits it
  }

  async #show(event: AgentLogEvent): Promise<void> {
    const { terminal } = this.#context;
    for (const { stream, text, style, whole } of this.#rendering.take(event)) {
      if (!whole) await terminal.out(text);
      else if (stream === 'out') await terminal.outLines(text);
      else await terminal.errLines(text, style);
    }
  }

  #ask(request: PersonRequest): void {
    const over = new AbortController();
    this.#asked.set(request.id, over);
    const signal = AbortSignal.any([over.signal, this.#context.leaving]);
    this.#tell(async () => {
      if (signal.aborted) return;
      const { terminal, lines } = this.#context;
      if (!terminal.interactive) return await this.#pointTo(request);
      for (let done = false; !done; ) {
        const answer = await terminal.exclusive((screen) => ask(request, { terminal: screen, lines, signal }));
        if (signal.aborted) return;
        if (answer === 'stop') return this.#stop();
        if (answer === 'leave') return await this.#pointTo(request);
        done = await this.#decide(request.id, answer);
      }
    });
  }

  #askNoLonger(): void {
    for (const over of this.#asked.values()) over.abort();
  }

  /** False if the server refuses the decision, such as a pattern that does not match the request. */
  async #decide(id: string, decision: PermissionDecision): Promise<boolean> {
    try {
      await this.#context.session.decidePermission(id, decision);
      return true;
    } catch (error) {
      await this.#fail(error);
      return !(error instanceof CellaError && error.code === 'INVALID_REQUEST');
    }
  }

  /** Another client can decide. */
  async #pointTo({ id }: PersonRequest): Promise<void> {
    const { id: session = 'SESSION' } = this.#context.session;
    await this.#context.terminal.errLines(
      `Waiting for a decision: \`cella permissions allow ${session} ${id}\`, or deny.`,
      'yellow',
    );
  }

  async #fail(error: unknown): Promise<void> {
    // The log says who decided.
    if (error instanceof CellaError && error.code === 'ALREADY_RESOLVED') return;
    await this.#context.terminal.errLines(escapeControlsKeepLines(messageOf(error)), 'red');
  }
}

const STATUS_DELAY_MS = 700;
const TICK_MS = 1000;

class IdleStatus implements Disposable {
  readonly #terminal: CliTerminal;
  readonly #isAsking: () => boolean;
  #doing = 'Waiting for the agent';
  #since = Date.now();
  #timer: NodeJS.Timeout | undefined;

  /** Shows no status while a question is open. */
  constructor(terminal: CliTerminal, isAsking: () => boolean) {
    this.#terminal = terminal;
    this.#isAsking = isAsking;
    this.#wait(STATUS_DELAY_MS);
  }

  update(event: AgentLogEvent): void {
    if (event.type === 'turn_queued') this.#doing = describeQueued(event).replace(/\.$/, '');
    else if (event.type === 'turn_started') this.#doing = 'Starting the agent';
    else this.#doing = 'The agent works';
    this.#since = Date.now();
    this.#wait(STATUS_DELAY_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#terminal.clearStatus();
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#terminal.stderrIsScreen) return;
    this.#timer = setTimeout(() => this.#tell(), ms);
    this.#timer.unref();
  }

  #tell(): void {
    // There is no room for the status on a line that the agent has begun.
    if (!this.#isAsking() && this.#terminal.unfinishedLine === '') {
      const seconds = Math.round((Date.now() - this.#since) / 1000);
      this.#terminal.progress(`${this.#doing} … ${seconds} s`);
    }
    this.#wait(TICK_MS);
  }
}

/** Throws if the session has no agent support. */
export function requireAgentApi<S extends object>(session: S): S & AgentApi {
  if (hasAgentApi(session)) return session;
  throw new CellaError('CAPABILITY_MISSING', 'Coding agents need a session of a server.', {
    advice: 'Start a server with `cella serve` first, or name one with --url or CELLA_URL.',
  });
}

function hasAgentApi<S extends object>(session: S): session is S & AgentApi {
  return 'prompt' in session && typeof session.prompt === 'function';
}

export function parseAgentName(name: string): string {
  if (AgentName.safeParse(name).success) return name;
  throw new UsageError(`${JSON.stringify(name)} is not the name of an agent.`, '`cella agents list` shows all agents.');
}

/** Throws before the first prompt if there is no such agent, or if it is not installed there. */
export async function findAgent(session: Pick<AgentApi, 'agents'>, name: string): Promise<string> {
  const wanted = parseAgentName(name);
  const all = await session.agents();
  const found = all.find(({ agent }) => agent === wanted);
  if (!found) {
    const advice = `Use one of these: ${all.map(inWords).join(', ')}.`;
    throw new CellaError('AGENT_UNKNOWN', `There is no coding agent ${JSON.stringify(wanted)}.`, { advice });
  }
  if (found.ready) return wanted;
  throw new CellaError('AGENT_NOT_INSTALLED', `${found.title} is not installed on the machine of this session.`, {
    advice: `Install it there: \`cella agents install ${wanted}\`.`,
  });
}

function inWords({ agent, ready, version }: CodingAgent): string {
  if (!ready) return `${agent} (not installed)`;
  return version === undefined ? agent : `${agent} (${version})`;
}

export function parseToolNames(text: string): readonly string[] {
  const names = ToolNames.safeParse(text.split(',').map((name) => name.trim()));
  if (names.success) return names.data;
  const message = `${JSON.stringify(text)} is not a list of tools: at most 100 names, separated by commas.`;
  throw new UsageError(message, 'Name tools of the agent, such as --tools Read,Bash.');
}
