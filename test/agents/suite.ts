/** What the tests of the contract share: one place, one stand-in model, and a first turn that others go on with. */

import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AgentLogEvent } from '../../src/protocol/agent-events.ts';
import type { PermissionAnswer } from '../../src/protocol/permission.ts';
import { Model } from '../support/agents/model.ts';
import type { AgentEnvironment, OpenAgentEnvironment, TurnOutcome } from './agent-environment.ts';

/** How an agent calls what all of them have. */
export interface AgentWords {
  readonly name: string;
  /** A model that it may be told to use. */
  readonly model: string;
}

export const allow = async (): Promise<PermissionAnswer> => ({ allowed: true });
const PROBE = fileURLToPath(new URL('../support/agents/mcp-probe.mjs', import.meta.url));

export class Suite implements AsyncDisposable {
  readonly model: Model;
  readonly place: AgentEnvironment;
  /** Each start of a program takes its time: this one is for all that need one. */
  readonly first: TurnOutcome;

  private constructor(model: Model, place: AgentEnvironment, first: TurnOutcome) {
    this.model = model;
    this.place = place;
    this.first = first;
  }

  static async open(words: AgentWords, openEnvironment: OpenAgentEnvironment): Promise<Suite> {
    await using stack = new AsyncDisposableStack();
    const model = stack.use(await Model.start());
    const place = stack.use(
      await openEnvironment({
        modelUrl: model.url,
        profile: ({ workspace, node }) => ({
          systemPrompt: 'You are a teapot of the suite.',
          rules: { tone: 'Always be short and stout.' },
          subagents: { scout: { description: 'Looks around for the suite', prompt: 'You look for a kettle.' } },
          skills: { brewing: '---\nname: brewing\ndescription: How the suite brews\n---\nThe pot is warmed first.\n' },
          commands: { serve: 'Serve with great care.\n#profile $ARGUMENTS\n' },
          files: { 'cups/first.txt': 'of the profile', 'cups/own.txt': 'of the profile' },
          mcpServers: {
            probe: {
              type: 'stdio',
              argv: [node, join(workspace, '.probe', 'server.mjs')],
              env: { PROBE_WORD: 'pong' },
            },
          },
        }),
      }),
    );
    await put(join(place.workspace, '.probe', 'server.mjs'), await readFile(PROBE, 'utf8'));
    const first = await place.prompt('#plain', { model: words.model });
    stack.move();
    return new Suite(model, place, first);
  }

  /** A path of the workspace, as the agent sees it. */
  inside(name: string): string {
    return join(this.place.inside, name);
  }

  /** The same, as the host does. */
  outside(name: string): string {
    return join(this.place.workspace, name);
  }

  /** A file of the person's in the workspace, in a folder of its own where it is named so. */
  async put(name: string, text: string): Promise<void> {
    await put(this.outside(name), text);
  }

  async files(): Promise<string[]> {
    return (await readdir(this.place.workspace)).filter((name) => !name.startsWith('.')).sort();
  }

  /** As it was before any turn, but for what the agent remembers. */
  async clear(): Promise<void> {
    for (const name of await this.files()) await rm(this.outside(name), { recursive: true });
    this.model.seen.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place[Symbol.asyncDispose]();
    await this.model[Symbol.asyncDispose]();
  }
}

/** For whoever the agent runs as, who also writes beside it, whatever the umask is here. */
async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(dirname(path), 0o777);
  await chmod(path, 0o644);
}

/** What the agent said, subagents left out. */
export function textsOf({ events }: TurnOutcome): string[] {
  return events.flatMap((event) =>
    event.type === 'item_completed' && event.kind === 'message' && event.parent === undefined ? [event.text ?? ''] : [],
  );
}

export function endOf({ events }: TurnOutcome, item: string): AgentLogEvent | undefined {
  return events.find((event) => event.type === 'item_completed' && event.item === item);
}
