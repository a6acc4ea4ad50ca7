import { describe, expect, test, vi } from 'vitest';
import type { Agent, AgentAdapter, AgentSetup, AgentTurn } from '../agents/agent-adapter.ts';
import { CellaError } from '../protocol/errors.ts';
import type { TurnResult } from '../protocol/turn.ts';
import { type AgentTurnJob, runAgentTurn } from './agent-turn.ts';

const setup: AgentSetup = {
  cwd: '/tmp',
  homeDir: '/tmp',
  programDir: '/tmp',
  env: {},
  model: { baseUrl: 'http://127.0.0.1:9', key: 'the-key' },
  profile: {},
};

function adapter(prompt: (turn: AgentTurn) => Promise<TurnResult>, close = async () => {}): AgentAdapter {
  const agent: Agent = {
    name: 'stand-in',
    prompt,
    close,
    readTranscript: async () => undefined,
    writeTranscript: async () => false,
  };
  return { name: 'stand-in', provider: 'openai', open: async () => agent, eventsOf: () => [] };
}

function job(load: AgentAdapter | Promise<AgentAdapter>, more: Partial<AgentTurnJob> = {}): AgentTurnJob {
  const permit = async () => ({ allowed: true });
  return {
    load: async () => load,
    setup: async () => setup,
    turn: { id: 'trn_0000000000000000', prompt: '', mode: 'ask', emit: async () => {} },
    permit,
    stop: new AbortController().signal,
    onAbandoned: () => {},
    ...more,
  };
}

const until = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve));

describe('a turn', () => {
  test('is stopped while its agent is still loading, and then never opened', async () => {
    const stop = new AbortController();
    const loading = Promise.withResolvers<AgentAdapter>();
    const prompt = vi.fn(async (): Promise<TurnResult> => ({ status: 'completed' }));
    const turn = runAgentTurn(job(loading.promise, { stop: stop.signal }));
    stop.abort();
    loading.resolve(adapter(prompt));
    expect(await turn).toEqual({ status: 'cancelled' });
    expect(prompt).not.toHaveBeenCalled();
  });

  test('that was stopped before it began is cancelled', async () => {
    const never = adapter(() => Promise.reject(new Error('it was prompted')));
    expect(await runAgentTurn(job(never, { stop: AbortSignal.abort() }))).toEqual({ status: 'cancelled' });
  });

  test('of an agent that does not react is given up after the grace period, and its processes are killed', async () => {
    const onAbandoned = vi.fn();
    const deaf = adapter(() => new Promise(() => {}));
    const more = { timeoutMs: 1, graceMs: 1, onAbandoned };
    expect(await runAgentTurn(job(deaf, more))).toMatchObject({ status: 'timed_out' });
    expect(onAbandoned).toHaveBeenCalledOnce();
    const stopped = { stop: AbortSignal.abort(), graceMs: 1, onAbandoned };
    expect(await runAgentTurn(job(new Promise<AgentAdapter>(() => {}), stopped))).toEqual({ status: 'cancelled' });
  });

  test('that finished while it was being stopped is completed', async () => {
    const stop = new AbortController();
    const outcome: TurnResult = { status: 'completed', conversation: 'c' };
    const quick = adapter(async () => {
      stop.abort();
      return outcome;
    });
    expect(await runAgentTurn(job(quick, { stop: stop.signal }))).toEqual(outcome);
  });

  test('asks nothing more once it is being stopped', async () => {
    const stop = new AbortController();
    const permit = vi.fn(async () => ({ allowed: true }));
    const asking = adapter(async (turn) => {
      stop.abort();
      const { allowed } = await turn.permit({ tool: 'Bash', summary: 'rm' });
      return { status: allowed ? 'completed' : 'cancelled' };
    });
    expect((await runAgentTurn(job(asking, { stop: stop.signal, permit }))).status).toBe('cancelled');
    expect(permit).not.toHaveBeenCalled();
  });

  test('that waits for a person gets no permission when it is stopped, or no longer asks', async () => {
    const stop = new AbortController();
    const seen: AbortSignal[] = [];
    const permit = (_request: unknown, signal: AbortSignal) => {
      seen.push(signal);
      return new Promise<never>(() => {});
    };
    const answers: unknown[] = [];
    const asking = adapter(async (turn) => {
      const own = new AbortController();
      const first = turn.permit({ tool: 'Bash', summary: 'ls' }, own.signal);
      own.abort();
      answers.push((await first).allowed);
      const second = turn.permit({ tool: 'Bash', summary: 'rm' });
      stop.abort();
      answers.push((await second).allowed);
      return { status: 'failed', error: { code: 'AGENT_DIED', message: '', advice: '' } };
    });
    expect(await runAgentTurn(job(asking, { stop: stop.signal, permit }))).toEqual({ status: 'cancelled' });
    expect([answers, seen.map(({ aborted }) => aborted)]).toEqual([
      [false, false],
      [true, true],
    ]);
  });

  test('reveals its key in no error, of its result or of an event', async () => {
    const told: unknown[] = [];
    const error = { code: 'PROVIDER_FAILED', message: `the-key ${'x'.repeat(10_000)}`, advice: '' };
    const failing = adapter(async ({ id, emit }) => {
      await emit({ type: 'agent_error', turn: id, error });
      return { status: 'failed', error };
    });
    const base = job(failing);
    const emit = async (event: unknown) => void told.push(event);
    const end = await runAgentTurn({ ...base, turn: { ...base.turn, emit } });
    expect(JSON.stringify([end, told])).not.toContain('the-key');
    expect(end.error?.message).toHaveLength(2000);
  });

  test('keeps its known results when it times out', async () => {
    const slow = adapter(async ({ signal }) => {
      await until(signal);
      return { status: 'failed', conversation: 'c', error: { code: 'AGENT_DIED', message: '', advice: '' } };
    });
    const end = await runAgentTurn(job(slow, { timeoutMs: 1 }));
    expect(end).toMatchObject({ status: 'timed_out', conversation: 'c', error: { code: 'DEADLINE_EXCEEDED' } });
  });

  test.each([
    [new CellaError('AGENT_NOT_INSTALLED', 'it is not here'), 'AGENT_NOT_INSTALLED', 'it is not here'],
    [new Error('401 for the-key'), 'AGENT_FAILED', '401 for …'],
    ['just text', 'AGENT_FAILED', 'just text'],
  ])('whose agent throws %s is failed, and the key is not told', async (thrown, code, message) => {
    const end = await runAgentTurn(job(adapter(() => Promise.reject(thrown))));
    expect(end).toMatchObject({ status: 'failed', error: { code, message } });
  });

  test('keeps its outcome if its agent cannot be closed', async () => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => {});
    const broken = adapter(
      async () => ({ status: 'completed' }),
      () => Promise.reject(new Error('still busy')),
    );
    expect(await runAgentTurn(job(broken))).toEqual({ status: 'completed' });
    said.mockRestore();
  });
});
