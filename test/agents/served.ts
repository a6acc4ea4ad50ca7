/** A place behind a server: prompted by the client, with leave asked for and given there, and the model behind the gateway. */

import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Client } from '../../src/client/client.ts';
import type { ClientSession } from '../../src/client/client-session.ts';
import { connect } from '../../src/client/index.ts';
import type { SessionRequest } from '../../src/client/resources.ts';
import { omitUndefined } from '../../src/lib/values.ts';
import { AgentLogEvent } from '../../src/protocol/agent-events.ts';
import type { PermissionDecision, PermissionRequest } from '../../src/protocol/permission.ts';
import { AGENT_PATHS } from '../../src/sandbox/mount-points.ts';
import type { ServerParts } from '../../src/server/run-server.ts';
import { folderName } from '../../src/storage/validation.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { processes } from '../support/processes/processes.ts';
import { shareCache } from '../support/run/shared-cache.ts';
import { agentServer, bundledRunner, setKey } from '../support/servers/agent-server.ts';
import type { TestServer } from '../support/servers/server.ts';
import type { AgentEnvironment, EnvironmentTurn, OpenAgentEnvironment, TurnOutcome } from './agent-environment.ts';

const AGENT_KEY = 'contract';
const PROFILE = 'suite';
const INSIDE = '/agent/workspace';

export interface Served {
  readonly executor: 'subprocess' | 'container';
  /** The folder of the agent's program, and how its process can be known. */
  readonly program: string;
  readonly process: string;
  /** The folder of the runner, in place of one that is bundled from the source. */
  readonly runner?: string;
  readonly session?: ServerParts['session'];
  /** How its agent gets to the model; by the gateway where nothing is said. */
  readonly keys?: 'gateway' | 'just-in-time';
  readonly sandbox?: SessionRequest['sandbox'];
}

/** All turns are in one session, and so in one conversation. */
export function servedEnvironment({
  executor,
  program,
  session,
  keys,
  sandbox,
  ...given
}: Served): OpenAgentEnvironment {
  return async ({ modelUrl, profile }) => {
    const dataDir = shareCache(await scratchFolder());
    const runner = given.runner ?? (await bundledRunner());
    const programs = dirname(dirname(program));
    const gateway = { providers: [`anthropic=${modelUrl}`], ...omitUndefined({ keys }) };
    const start = () => agentServer({ modelUrl, runner, programs, dataDir, session, gateway });
    const place = await ServedEnvironment.start({ executor, dataDir, process: given.process, start, sandbox });
    const node = sandbox === 'off' ? process.execPath : join(AGENT_PATHS.node, 'node');
    await place.setUp(profile({ workspace: place.inside, node }));
    return place;
  };
}

interface Parts {
  readonly executor: Served['executor'];
  readonly sandbox: Served['sandbox'];
  readonly dataDir: string;
  readonly process: string;
  readonly start: () => Promise<TestServer>;
}

interface Opened {
  readonly server: TestServer;
  readonly client: Client;
  readonly session: ClientSession;
}

class ServedEnvironment implements AgentEnvironment {
  readonly workspace: string;
  readonly inside: string;
  readonly takesBypass: boolean;
  readonly #parts: Parts;
  #opened: Opened;

  private constructor(parts: Parts, opened: Opened) {
    this.#parts = parts;
    this.#opened = opened;
    this.workspace = join(parts.dataDir, 'agents', folderName(AGENT_KEY), 'workspace');
    this.inside = parts.sandbox === 'off' ? this.workspace : INSIDE;
    this.takesBypass = parts.sandbox !== 'off';
  }

  static async start(parts: Parts): Promise<ServedEnvironment> {
    const opened = await open(parts);
    await setKey(opened.server);
    // The kernel is there from the beginning, and with it the folders of the session.
    await opened.server.run(opened.session.id, 'pass');
    return new ServedEnvironment(parts, opened);
  }

  async setUp(profile: object): Promise<void> {
    const { status, text } = await this.#opened.server.call(`PUT /v1/profiles/${PROFILE}`, { body: profile });
    if (status >= 300) throw new Error(`no profile: ${text}`);
  }

  async prompt(prompt: string, turn: EnvironmentTurn = {}): Promise<TurnOutcome> {
    const { session } = this.#opened;
    const { conversation, permit: _, onEvent, profiled = false, ...options } = turn;
    const events: AgentLogEvent[] = [];
    const problems: unknown[] = [];
    const prompted = session.prompt(prompt, { ...options, ...(profiled ? { profile: PROFILE } : {}) });
    for await (const told of prompted) {
      const event = AgentLogEvent.parse(told);
      events.push(event);
      onEvent?.(event);
      // What is being decided must not keep the events from coming: the turn may be stopped meanwhile.
      if (event.type === 'permission_requested' || event.type === 'question') {
        void this.#answer(event, turn).catch((problem) => problems.push(problem));
      }
    }
    if (problems.length > 0) throw problems[0];
    const { id, status, usage, error, ...info } = await prompted.turn;
    if (conversation !== undefined && info.conversation !== conversation) {
      throw new Error(`the session went on with ${info.conversation}, and not with ${conversation}`);
    }
    return { turn: id, status, events, ...omitUndefined({ conversation: info.conversation, usage, error }) };
  }

  async run(code: string): Promise<unknown> {
    const { server, session } = this.#opened;
    return (await server.run(session.id, code)).value;
  }

  async transcript(conversation: string): Promise<string | undefined> {
    return (await this.#opened.session.transcript({ conversation })).text;
  }

  async restart(): Promise<void> {
    await close(this.#opened);
    this.#opened = await open(this.#parts);
  }

  /** Whose a process is, its mounts tell: in a sandbox as in a container. */
  async killAgent(): Promise<void> {
    const { dataDir, process: name } = this.#parts;
    const found = processes().filter(
      ({ pid, command }) => command.includes(name) && mountsOf(pid).includes(basename(dataDir)),
    );
    if (found.length === 0) throw new Error(`no ${name} runs in ${dataDir}`);
    for (const { pid } of found) process.kill(pid, 'SIGKILL');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await close(this.#opened);
  }

  async #answer(asked: Asked, { permit }: EnvironmentTurn): Promise<void> {
    const { session } = this.#opened;
    const decide = (decision: PermissionDecision) => session.decidePermission(asked.id, decision);
    try {
      if (!permit) throw new Error(`nobody expects to be asked: ${JSON.stringify(asked)}`);
      const { allowed, reason, text } = await permit(askOf(asked));
      await decide(
        allowed
          ? { decision: 'allow', ...omitUndefined({ text }) }
          : { decision: 'deny', ...omitUndefined({ reason }) },
      );
    } catch (error) {
      await decide({ decision: 'deny' }).catch(() => {}); // the first problem is the one to tell
      throw error;
    }
  }
}

type Asked = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;

function askOf(asked: Asked): PermissionRequest {
  if (asked.type === 'question') {
    const { text, options = [] } = asked;
    return { tool: 'question', summary: text, question: { text, options: options.map(optionOf) } };
  }
  const { tool, summary, item, pattern, input } = asked;
  return { tool, summary, ...omitUndefined({ item, pattern, input }) };
}

function optionOf({ label, description }: { label: string; description?: string | undefined }) {
  return { label, ...omitUndefined({ description }) };
}

async function open({ executor, sandbox, start }: Parts): Promise<Opened> {
  const server = await start();
  const client = await connect({ url: server.url, token: server.token });
  return {
    server,
    client,
    session: await client.open({ agentKey: AGENT_KEY, executor, ...omitUndefined({ sandbox }) }),
  };
}

async function close({ server, client, session }: Opened): Promise<void> {
  await session.close();
  await client.close();
  await server[Symbol.asyncDispose]();
}

function mountsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, 'utf8');
  } catch {
    return ''; // it has ended
  }
}
