/**
 * `npm run record:turns`: prompts the real Claude with a stand-in model behind it, and writes what it said, live and in its
 * transcript, to this folder, with ids, times and paths made the same each time. The tests replay it.
 */

import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentSetup, AgentTurn } from '../../src/agents/agent-adapter.ts';
import { claude, runClaudeTurn } from '../../src/agents/claude/adapter.ts';
import { readConversation } from '../../src/agents/claude/conversation-files.ts';
import { claudeProgram } from '../../src/agents/claude/program.ts';
import { loadSdk, type Sdk } from '../../src/agents/claude/sdk-options.ts';
import type { AgentEvent } from '../../src/protocol/agent-events.ts';
import type { PermissionMode } from '../../src/protocol/turn.ts';
import { runAgentTurn } from '../../src/runner/agent-turn.ts';
import { bringAgent } from '../support/agents/agents-setup.ts';
import { Model } from '../support/agents/model.ts';
import { type RecordedTurn, recordings } from '../support/agents/recording.ts';

interface Wanted {
  readonly prompt: (cwd: string) => string;
  readonly mode?: PermissionMode;
  /** Denied with this reason where it fits; all else is allowed. */
  readonly deny?: { readonly tool: string; readonly reason: string };
  /** Stopped when this many pieces have come, or when a permission is asked for. */
  readonly stopAfter?: number | 'permission';
}

const conversations: Record<string, readonly Wanted[]> = {
  plain: [{ prompt: () => '#plain' }, { prompt: () => '#think' }, { prompt: () => '#remember' }],
  tools: [
    { prompt: (cwd) => `#both ${cwd}/made`, deny: { tool: 'Bash', reason: 'not on a Monday' } },
    { prompt: (cwd) => `#write ${cwd}/auto.txt good day`, mode: 'auto-edit' },
    { prompt: (cwd) => `#both ${cwd}/plan.txt`, mode: 'plan' },
    { prompt: () => '#run exit 3' },
  ],
  plan: [{ prompt: () => '#todo' }, { prompt: () => '#ask' }],
  subagent: [{ prompt: (cwd) => `#delegate ${cwd}` }, { prompt: () => '#plain' }],
  cancelled: [
    { prompt: () => '#slow', stopAfter: 3 },
    { prompt: (cwd) => `#write ${cwd}/no`, stopAfter: 'permission' },
  ],
  'cancelled-subagent': [{ prompt: () => '#delegate $(never)', stopAfter: 'permission' }],
  failed: [{ prompt: () => '#err401' }, { prompt: () => '#err429' }, { prompt: () => '#plain' }],
};

/** Of all, or of those that are named. */
async function recordAll(names: readonly string[]): Promise<string[]> {
  const sdk = await loadSdk(await bringAgent('claude'));
  await using model = await Model.start();
  const written: string[] = [];
  for (const [name, wanted] of Object.entries(conversations)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const file = `${recordings}claude-${name}.json`;
    await writeFile(file, `${JSON.stringify(await record(sdk, model.url, wanted), undefined, 1)}\n`);
    written.push(file);
  }
  return written;
}

async function record(sdk: Sdk, baseUrl: string, wanted: readonly Wanted[]): Promise<unknown> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'cella-record-')));
  const [cwd, homeDir] = [join(folder, 'workspace'), join(folder, 'home')];
  await Promise.all([mkdir(cwd), mkdir(homeDir), mkdir(recordings, { recursive: true })]);
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin' };
  const setup = { cwd, homeDir, programDir: '', env, model: { baseUrl, key: 'stand-in-key' }, profile: {} };
  try {
    const turns: RecordedTurn[] = [];
    let conversation: string | undefined;
    for (const [at, one] of wanted.entries()) {
      const turn = await recordTurn(sdk, setup, one, { id: `trn_${String(at).padStart(16, '0')}`, conversation });
      turns.push(turn);
      conversation = turn.outcome.conversation;
    }
    const text = (await readConversation(setup, conversation ?? '')) ?? '';
    const transcript = text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
    const kept = transcript.filter(({ type }) => ['user', 'assistant', 'system', 'cost-state'].includes(type));
    return cleaned({ agent: 'claude', version: claudeProgram.version, cwd, turns, transcript: kept }, [
      [cwd, '/workspace'],
      [homeDir, '/home'],
      [cwd.replace(/[^a-zA-Z0-9]/g, '-'), '-workspace'],
    ]);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function recordTurn(
  sdk: Sdk,
  setup: AgentSetup,
  { prompt, mode = 'ask', deny, stopAfter }: Wanted,
  { id, conversation }: { readonly id: string; readonly conversation: string | undefined },
): Promise<RecordedTurn> {
  const native: unknown[] = [];
  const stop = new AbortController();
  let pieces = 0;
  const text = prompt(setup.cwd);
  const emit = async ({ type }: AgentEvent) => {
    if (type === 'item_delta' && ++pieces === stopAfter) stop.abort();
  };
  const open = async () =>
    Object.assign(await claude.open(setup), {
      prompt: (turn: AgentTurn) => runClaudeTurn(teed(sdk, native), setup, turn),
    });
  const outcome = await runAgentTurn({
    load: async () => ({ ...claude, open }),
    setup: async () => setup,
    turn: { id, prompt: text, mode, model: 'claude-sonnet-5', conversation, emit },
    permit: async ({ tool, question }) => {
      if (stopAfter === 'permission') stop.abort();
      if (tool === deny?.tool) return { allowed: false, reason: deny.reason };
      return { allowed: true, ...(question ? { text: 'green, please' } : {}) };
    },
    stop: stop.signal,
  });
  return { turn: id, prompt: text, mode, outcome, native };
}

/** Keeps what it says on its way. */
function teed(sdk: Sdk, native: unknown[]): Sdk {
  return {
    query(call) {
      const query = sdk.query(call);
      return {
        setMcpServers: (servers) => query.setMcpServers(servers),
        interrupt: () => query.interrupt(),
        close: () => query.close(),
        async *[Symbol.asyncIterator]() {
          for await (const message of query) {
            native.push(message);
            yield message;
          }
        },
      };
    },
  };
}

/** Long lists of what the program could do, and times, which differ with every run. */
const DROPPED = new Set([
  'timestamp',
  'slash_commands',
  'terminal_slash_commands',
  'skills',
  'plugins',
  'capabilities',
  'agents',
  'messaging_socket_path',
  'requestRef',
  'gitBranch',
  'subagent_stats',
  'promptId',
  'request_id',
  'output_file',
  // Pieces of paths, which cannot be told from others.
  'partial_json',
]);
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g;
const OTHER_IDS = /\bmsg_[A-Za-z0-9_-]{6,}|\b(?:a[0-9a-f]{16})\b/g;

function cleaned(value: unknown, paths: readonly (readonly [from: string, to: string])[]): unknown {
  const names = new Map<string, string>();
  const rename = (id: string, as: (at: number) => string) => {
    const name = names.get(id) ?? as(names.size + 1);
    names.set(id, name);
    return name;
  };
  const uuid = (id: string) => rename(id, (at) => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`);
  const other = (id: string) =>
    rename(id, (at) => (id.startsWith('msg_') ? `msg_${at}` : `a${String(at).padStart(16, '0')}`));
  const text = (given: string) =>
    paths
      .reduce((all, [from, to]) => all.replaceAll(from, to), given)
      .replace(UUID, uuid)
      .replace(OTHER_IDS, other)
      .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:1');
  const walk = (given: unknown): unknown => {
    if (typeof given === 'string') return text(given);
    if (Array.isArray(given)) return given.map(walk);
    if (typeof given !== 'object' || given === null) return given;
    const kept = Object.entries(given).filter(
      ([key]) => !DROPPED.has(key) && !/_ms$|Ms$|Duration|_time$|Time$/.test(key),
    );
    return Object.fromEntries(kept.map(([key, one]) => [key, walk(one)]));
  };
  return walk(value);
}

for (const file of await recordAll(process.argv.slice(2))) console.log(file);
