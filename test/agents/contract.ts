/** What every agent does, in every place: a new adapter or place is done when this passes on it. */

import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { PermissionAnswer, PermissionAsk } from '../../src/agents/contract.ts';
import { loadAdapter } from '../../src/agents/registry.ts';
import type { AgentEvent } from '../../src/protocol/agent/events.ts';
import { Model } from '../support/model.ts';
import type { OpenPlace, Place, PlaceOutcome } from './place.ts';

/** How an agent calls what all of them have. */
export interface AgentWords {
  readonly name: string;
  /** A model that it may be told to use. */
  readonly model: string;
}

const allow = async (): Promise<PermissionAnswer> => ({ allowed: true });
const PROBE = fileURLToPath(new URL('../support/mcp-probe.mjs', import.meta.url));

export function agentContract(words: AgentWords, openPlace: OpenPlace): void {
  let model: Model;
  let place: Place;
  /** One that others go on with: each start of a program takes its time. */
  let first: PlaceOutcome;

  beforeAll(async () => {
    model = await Model.start();
    place = await openPlace({
      modelUrl: model.url,
      profile: ({ workspace, node }) => ({
        systemPrompt: 'You are a teapot of the suite.',
        rules: { tone: 'Always be short and stout.' },
        subagents: { scout: { description: 'Looks around for the suite', prompt: 'You look around.' } },
        mcpServers: {
          probe: { type: 'stdio', argv: [node, join(workspace, '.probe', 'server.mjs')], env: { PROBE_WORD: 'pong' } },
        },
      }),
    });
    await mkdir(join(place.workspace, '.probe'));
    await copyFile(PROBE, join(place.workspace, '.probe', 'server.mjs'));
    first = await place.prompt('#plain', { model: words.model });
  });
  afterAll(async () => {
    await place?.[Symbol.asyncDispose]();
    await model?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    for (const name of await readdir(place.workspace)) {
      if (!name.startsWith('.')) await rm(join(place.workspace, name), { recursive: true });
    }
    model.seen.length = 0;
  });

  const inside = (name: string) => join(place.inside, name);
  const outside = (name: string) => join(place.workspace, name);

  describe('a turn', () => {
    test('answers in pieces that add up, and tells tokens and cost', () => {
      const outcome = first;
      expect(outcome).toMatchObject({ status: 'completed', conversation: expect.any(String) });
      const deltas = outcome.events.filter((event) => event.type === 'item_delta');
      expect(deltas.length).toBeGreaterThan(1);
      expect(deltas.map(({ text }) => text).join('')).toBe('Hello from the stand-in model.');
      expect(textsOf(outcome)).toEqual(['Hello from the stand-in model.']);
      expect(outcome.usage).toMatchObject({ input: 11, output: 7, model: words.model, costUsd: expect.any(Number) });
      expect(outcome.usage?.costUsd).toBeGreaterThan(0);
      expect(outcome.events).toContainEqual({ type: 'usage', turn: outcome.turn, usage: outcome.usage });
      expect(outcome.events).toContainEqual(
        expect.objectContaining({ type: 'agent_session', agent: words.name, conversation: outcome.conversation }),
      );
    });

    test('goes on with a conversation after every process has ended, and counts only itself', async () => {
      await place.restart();
      const second = await place.prompt('#remember', { conversation: first.conversation, model: words.model });
      expect(second).toMatchObject({ status: 'completed', conversation: first.conversation });
      expect(textsOf(second)).toEqual(['You said: #plain #remember']);
      expect(second.usage).toEqual(first.usage);
      const adapter = await loadAdapter(words.name);
      const transcript = (await place.transcript(first.conversation ?? '')) ?? '';
      const turns = adapter.eventsOf(transcript).filter(({ type }) => type === 'turn_ended');
      expect(turns.map((event) => 'turn' in event && event.turn)).toEqual([first.turn, second.turn]);
    });

    test('does not go on with a conversation that is not there, whatever it is called', async () => {
      for (const conversation of ['00000000-0000-4000-8000-000000000000', '../../../etc/passwd', `$(touch x)'"\n`]) {
        const outcome = await place.prompt('#plain', { conversation });
        expect(outcome).toMatchObject({ status: 'failed', error: { code: 'CONVERSATION_NOT_FOUND' } });
      }
      expect(model.seen).toEqual([]);
    });

    test('takes a prompt of 1 MB whole', async () => {
      const outcome = await place.prompt(`${'long words '.repeat(95_400)}the very end\n#plain`);
      expect(outcome.status).toBe('completed');
      const asked = model.seen.find(({ text }) => text.includes('the very end'));
      expect(asked?.text.length).toBeGreaterThan(1_000_000);
    });

    test('has model, system prompt, rules, subagents and MCP servers passed on, and uses a tool of one', async () => {
      const asks: PermissionAsk[] = [];
      const permit = async (ask: PermissionAsk) => {
        asks.push(ask);
        return { allowed: true };
      };
      const outcome = await place.prompt('#mcp', { permit, model: words.model });
      const asked = model.seen.find(({ text }) => text.includes('#mcp'));
      expect(asked?.model).toBe(words.model);
      for (const part of ['a teapot of the suite', 'short and stout', 'Looks around for the suite', 'probe__echo']) {
        expect(asked?.text).toContain(part);
      }
      expect(textsOf(outcome).at(-1)).toContain('echo: ping pong');
      expect(asks.map(({ tool }) => tool)).toEqual([expect.stringContaining('echo')]);
    });
  });

  describe('permissions', () => {
    test('a tool that is approved runs, and the file that it wrote is told', async () => {
      const asks: PermissionAsk[] = [];
      const outcome = await place.prompt(`#write ${inside('out.txt')} good day`, {
        permit: async (ask) => {
          expect(existsSync(outside('out.txt'))).toBe(false);
          asks.push(ask);
          return { allowed: true };
        },
      });
      expect(outcome.status).toBe('completed');
      expect(await readFile(outside('out.txt'), 'utf8')).toBe('good day\n');
      expect(asks).toMatchObject([{ summary: expect.stringContaining('out.txt'), pattern: 'out.txt' }]);
      const item = asks[0]?.item ?? '';
      const { turn } = outcome;
      expect(outcome.events).toContainEqual({ type: 'file_changed', turn, item, path: 'out.txt', change: 'created' });
      expect(endOf(outcome, item)).toMatchObject({ kind: 'tool', status: 'completed' });
    });

    test('a tool that is denied does not run, the agent reads the reason, and the turn goes on', async () => {
      const permit = async ({ summary }: PermissionAsk) =>
        summary.includes('touch') ? { allowed: false, reason: 'not on a Monday' } : { allowed: true };
      const outcome = await place.prompt(`#both ${inside('one')}`, { permit });
      expect(outcome.status).toBe('completed');
      expect(textsOf(outcome).at(-1)).toContain('not on a Monday');
      expect([existsSync(outside('one')), existsSync(outside('one.too'))]).toEqual([true, false]);
      const ends = outcome.events.filter((event) => event.type === 'item_completed' && event.kind === 'tool');
      expect(ends).toMatchObject([{ status: 'completed' }, { status: 'denied', output: 'not on a Monday' }]);
    });

    test('a question gets the answer of the person', async () => {
      const asks: PermissionAsk[] = [];
      const outcome = await place.prompt('#ask', {
        permit: async (ask) => {
          asks.push(ask);
          return { allowed: true, text: 'green, please' };
        },
      });
      expect(asks).toMatchObject([
        { question: { text: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] } },
      ]);
      expect(textsOf(outcome).at(-1)).toContain('green, please');
    });

    test('in plan no file appears, even where a person allows it', async () => {
      const outcome = await place.prompt(`#both ${inside('plan.txt')}`, { mode: 'plan', permit: allow });
      expect(outcome.status).toBe('completed');
      expect(await filesIn(place)).toEqual([]);
    });

    test('in auto-edit files of the workspace are written without asking; other things are asked for', async () => {
      const outcome = await place.prompt(`#write ${inside('auto.txt')}`, { mode: 'auto-edit' });
      expect(outcome.status).toBe('completed');
      expect(await filesIn(place)).toEqual(['auto.txt']);
      const asks: PermissionAsk[] = [];
      await place.prompt('#run node -e "1"', {
        mode: 'auto-edit',
        permit: async (ask) => {
          asks.push(ask);
          return { allowed: false };
        },
      });
      expect(asks.map(({ summary }) => summary)).toEqual(['node -e "1"']);
    });
  });

  describe('a stop', () => {
    test('in mid-stream ends the turn as cancelled, and what was said is kept', async () => {
      const stop = new AbortController();
      let pieces = 0;
      const onEvent = ({ type }: AgentEvent) => {
        if (type === 'item_delta' && ++pieces === 3) stop.abort();
      };
      const outcome = await place.prompt('#slow', { signal: stop.signal, onEvent });
      expect(outcome.status).toBe('cancelled');
      expect(outcome.error).toBeUndefined();
      const said = outcome.events.flatMap((event) => (event.type === 'item_completed' ? [event] : []));
      expect(said).toMatchObject([{ status: 'cancelled', text: expect.stringMatching(/^word word/) }]);
      expect(said[0]?.text?.length).toBeLessThan(9000);
      const next = await place.prompt('#remember', { conversation: outcome.conversation });
      expect(textsOf(next)).toEqual(['You said: #slow #remember']);
    });

    test('while a permission waits ends the turn at once, and nothing is done', async () => {
      const stop = new AbortController();
      const outcome = await place.prompt(`#write ${inside('late.txt')}`, {
        signal: stop.signal,
        permit: () => {
          stop.abort();
          return new Promise(() => {});
        },
      });
      expect(outcome.status).toBe('cancelled');
      expect(await filesIn(place)).toEqual([]);
    });

    test('before the turn has begun starts nothing', async () => {
      expect(await place.prompt('#plain', { signal: AbortSignal.abort() })).toMatchObject({ status: 'cancelled' });
      expect(model.seen).toEqual([]);
    });
  });

  describe('faults', () => {
    test.each([
      [401, 'PROVIDER_REFUSED'],
      [429, 'PROVIDER_LIMITED'],
      [500, 'PROVIDER_FAILED'],
    ])('a provider that answers %i fails the turn as %s', async (status, code) => {
      const outcome = await place.prompt(`#err${status}`);
      expect(outcome).toMatchObject({
        status: 'failed',
        error: { code, message: expect.stringContaining(`${status}`) },
      });
      expect(outcome.events).toContainEqual({ type: 'agent_error', turn: outcome.turn, error: outcome.error });
      expect(outcome.error?.message).not.toContain('stand-in-key');
    });

    test('a provider that hangs ends with the time of the turn', async () => {
      const outcome = await place.prompt('#hang', { timeoutMs: 1500 });
      expect(outcome.status).toBe('timed_out');
    });

    test('a provider that streams garbage fails the turn', async () => {
      const outcome = await place.prompt('#garbage');
      expect(outcome).toMatchObject({ status: 'failed', error: { code: 'PROVIDER_FAILED' } });
    });

    test('an agent that is killed in mid-turn fails the turn, and its conversation goes on', async () => {
      const hangs = model.hangs();
      const dying = place.prompt('#hang', { conversation: first.conversation });
      await hangs;
      await place.killAgent();
      expect(await dying).toMatchObject({ status: 'failed', error: { code: 'AGENT_DIED' } });
      const next = await place.prompt('#remember', { conversation: first.conversation });
      expect(textsOf(next).at(-1)).toContain('#plain');
    });
  });

  test('bypass asks for nothing, where it is taken', async () => {
    const outcome = await place.prompt(`#both ${inside('free')}`, { mode: 'bypass' });
    expect(outcome.status).toBe(place.takesBypass ? 'completed' : 'failed');
    expect(await filesIn(place)).toEqual(place.takesBypass ? ['free', 'free.too'] : []);
  });
}

/** What the agent said, subagents left out. */
function textsOf({ events }: PlaceOutcome): string[] {
  return events.flatMap((event) =>
    event.type === 'item_completed' && event.kind === 'message' && event.parent === undefined ? [event.text ?? ''] : [],
  );
}

function endOf({ events }: PlaceOutcome, item: string): AgentEvent | undefined {
  return events.find((event) => event.type === 'item_completed' && event.item === item);
}

async function filesIn({ workspace }: Place): Promise<string[]> {
  return (await readdir(workspace)).filter((name) => !name.startsWith('.')).sort();
}
