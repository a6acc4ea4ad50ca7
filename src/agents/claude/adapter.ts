/** The adapter for Claude, with Anthropic's SDK and program. */

import { onAbort } from '../../lib/abort.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentFailure, TurnResult } from '../../protocol/turn.ts';
import type { Agent, AgentAdapter, AgentSetup, AgentTurn } from '../agent-adapter.ts';
import { EventSender } from '../event-sender.ts';
import { claudeFailure } from './block-events.ts';
import { findFile, readConversation, writeConversation } from './conversation-files.ts';
import { LiveTurn } from './live-turn.ts';
import { openProviderForwarder } from './provider-forwarder.ts';
import {
  loadSdk,
  makeTurnFolder,
  mcpServers,
  type PromptMessage,
  type Sdk,
  type SdkQuery,
  sdkOptions,
  toNativePrompt,
  writeProfile,
} from './sdk-options.ts';
import { canUseTool } from './tool-permission.ts';
import { eventsOf, uuidOfTurn } from './transcript-events.ts';

class Claude implements Agent {
  readonly name = 'claude';
  readonly #setup: AgentSetup;
  readonly #closing = new AbortController();
  #running: Promise<unknown> | undefined;

  constructor(setup: AgentSetup) {
    this.#setup = setup;
  }

  async prompt(turn: AgentTurn): Promise<TurnResult> {
    if (this.#running) throw new CellaError('AGENT_BUSY', 'Claude is already running a turn.');
    const signal = AbortSignal.any([turn.signal, this.#closing.signal]);
    const running = this.#prompt({
      ...turn,
      signal,
      emit: (event) => turn.emit(event),
      permit: (request, own) => turn.permit(request, own),
    });
    this.#running = running;
    try {
      return await running;
    } finally {
      this.#running = undefined;
    }
  }

  async #prompt(turn: AgentTurn): Promise<TurnResult> {
    const missing = await this.#findMissing(turn.conversation);
    if (!missing) return await runClaudeTurn(await loadSdk(this.#setup.programDir), this.#setup, turn);
    const error = claudeFailure(missing);
    await turn.emit({ type: 'agent_error', turn: turn.id, error });
    return { status: 'failed', error };
  }

  /** The error if the conversation to continue does not exist. */
  async #findMissing(conversation: string | undefined): Promise<CellaError | undefined> {
    if (conversation === undefined) return undefined;
    try {
      if ((await findFile(this.#setup, conversation)) !== undefined) return undefined;
    } catch (error) {
      if (error instanceof CellaError) return error;
      throw error;
    }
    return new CellaError('CONVERSATION_NOT_FOUND', `There is no conversation ${conversation} to continue.`);
  }

  async readTranscript(conversation: string): Promise<string | undefined> {
    return await readConversation(this.#setup, conversation);
  }

  async writeTranscript(conversation: string, text: string): Promise<boolean> {
    return await writeConversation(this.#setup, conversation, text);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running?.catch(() => {}); // the caller of the prompt got the error
  }
}

export const claude: AgentAdapter = {
  name: 'claude',
  provider: 'anthropic',
  // The SDK is loaded with the first prompt; reading a transcript does not need it.
  open: async (setup) => new Claude(setup),
  eventsOf,
};

/** How long the program may take to end before it is killed. */
const END_GRACE_MS = 3000;
const MOST_STDERR = 2000;

export async function runClaudeTurn(sdk: Sdk, setup: AgentSetup, turn: AgentTurn): Promise<TurnResult> {
  if (turn.signal.aborted) return { status: 'cancelled' };
  await using folder = await makeTurnFolder(setup);
  const pluginDir = await writeProfile(setup, folder.profileDir);
  const live = new LiveTurn(turn.id, setup.cwd);
  const sender = new EventSender((event) => turn.emit(event));
  const done = Promise.withResolvers<void>();
  let stderr = '';
  const onStderr = (text: string) => {
    stderr = `${stderr}${text}`.slice(-MOST_STDERR);
  };
  await using forwarder = await openProviderForwarder(setup);
  const model = { ...setup.model, ...(forwarder ? { baseUrl: forwarder.url } : {}) };
  const options = sdkOptions({ ...setup, model }, turn, {
    canUseTool: canUseTool(turn, setup),
    onStderr,
    folder,
    pluginDir,
  });
  const death: { error?: unknown } = {};
  const connected = Promise.withResolvers<void>();
  const query = sdk.query({
    prompt: promptMessages(turn, setup, { connected: connected.promise, done: done.promise }),
    options,
  });
  using ending = endWith(turn.signal, query);
  connectServers(query, setup).then(connected.resolve, (error: unknown) => {
    death.error = error;
    query.close();
  });
  try {
    for await (const message of messagesUntilDeath(query, death)) {
      await sender.send(live.toEvents(message));
      if (!live.result) continue;
      // The program waits for another prompt; the end of its input ends it.
      done.resolve();
      ending.start();
    }
    await sender.send(live.interrupted());
    await sender.flush();
  } finally {
    done.resolve();
    query.close();
  }
  const { conversation, usage } = live;
  const error = live.failure ?? failureOfEnd(live, death.error, stderr);
  if (!error) return { status: 'completed', conversation, usage };
  if (!live.failure && !turn.signal.aborted) await turn.emit({ type: 'agent_error', turn: turn.id, error });
  return { status: 'failed', conversation, usage, error };
}

/** The SDK throws after a failed result and when its process dies. Both just end the turn. */
async function* messagesUntilDeath(query: SdkQuery, death: { error?: unknown }): AsyncGenerator<unknown> {
  const messages = query[Symbol.asyncIterator]();
  for (;;) {
    const next = await messages.next().catch((error: unknown) => {
      death.error = error;
      return { done: true, value: undefined } as const;
    });
    if (next.done) return;
    yield next.value;
  }
}

/** MCP servers are connected before the prompt is sent. */
async function connectServers(query: SdkQuery, setup: AgentSetup): Promise<void> {
  const servers = mcpServers(setup);
  if (Object.keys(servers).length > 0) await query.setMcpServers(servers);
}

interface TurnSteps {
  /** The MCP servers are connected. */
  readonly connected: Promise<void>;
  /** The turn has ended. */
  readonly done: Promise<void>;
}

/** The input stays open until the turn has ended, so that it can be interrupted. */
async function* promptMessages(
  turn: AgentTurn,
  { profile }: AgentSetup,
  { connected, done }: TurnSteps,
): AsyncGenerator<PromptMessage> {
  await Promise.race([connected, done]);
  const message = { role: 'user', content: toNativePrompt(turn.prompt, profile) } as const;
  yield { type: 'user', uuid: uuidOfTurn(turn.id), message, parent_tool_use_id: null };
  await done;
}

interface EndTimer extends Disposable {
  /** Gives the program a grace period to end by itself. After that, it is killed. */
  start(): void;
}

function endWith(signal: AbortSignal, query: SdkQuery): EndTimer {
  let timer: NodeJS.Timeout | undefined;
  const start = () => {
    timer ??= setTimeout(() => query.close(), END_GRACE_MS);
  };
  const stop = () => {
    start();
    query.interrupt().catch(() => query.close()); // it is about to end, or has ended
  };
  // It may have been aborted during preparation.
  const aborting = onAbort(signal, stop);
  return {
    start,
    [Symbol.dispose]() {
      aborting[Symbol.dispose]();
      clearTimeout(timer);
    },
  };
}

const KILLED =
  'Its work so far is kept. If nobody has killed it, its session probably ran out of memory: ' +
  'create a session with more (`limits.memoryMb`), or ask for work that needs less.';

function failureOfEnd({ result }: Pick<LiveTurn, 'result'>, death: unknown, stderr: string): AgentFailure | undefined {
  if (result && !result.is_error) return undefined;
  if (result) {
    const message = result.result ?? result.errors?.join('\n') ?? `It ended with ${result.subtype}.`;
    if (result.api_error_status != null) return claudeFailure(new CellaError('PROVIDER_FAILED', message));
    return claudeFailure(new CellaError('AGENT_FAILED', message));
  }
  const why = death instanceof Error ? death.message : 'It ended without a result.';
  const message = [`Claude's program ended in the middle of the turn. ${why}`, stderr].join('\n');
  // Only the SDK's text says how it died; nothing here says that memory ran out.
  return claudeFailure(new CellaError('AGENT_DIED', message, /\bSIGKILL\b/.test(why) ? { advice: KILLED } : {}));
}
