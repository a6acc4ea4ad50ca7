import { PassThrough, Writable } from 'node:stream';
import { setImmediate as immediately } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PermissionDecision } from '../../protocol/permission.ts';
import type { TurnInfo } from '../../protocol/turn.ts';
import type { InputLine, LineRequest, LineSource } from '../terminal/line-input.ts';
import { CliTerminal } from '../terminal/terminal.ts';
import { ShownTurn } from './shown-turn.ts';

const turn = 'trn_0000000000000001';
const id = 'prm_0000000000000001';
const asks: AgentLogEvent = {
  ...{ type: 'permission_requested', id, turn, tool: 'Bash', summary: 'git status', exactly: 'git status' },
};
const ended = (status: 'completed' | 'cancelled' | 'failed' | 'timed_out'): AgentLogEvent => ({
  type: 'turn_ended',
  turn,
  status,
});

/** A person who types these lines, each when it is asked for; the prompts are kept. */
class Person implements LineSource {
  readonly prompts: string[] = [];
  readonly #lines: (string | InputLine)[];

  constructor(...lines: (string | InputLine)[]) {
    this.#lines = lines;
  }

  async read({ prompt, signal }: LineRequest): Promise<InputLine> {
    this.prompts.push(prompt);
    const line = this.#lines.shift();
    if (typeof line === 'string') return { kind: 'line', text: line };
    if (line) return line;
    // Nobody answers: somebody else does.
    if (signal?.aborted) return { kind: 'aborted' };
    return await new Promise((resolve) => signal?.addEventListener('abort', () => resolve({ kind: 'aborted' })));
  }

  close(): void {}
}

interface Scene {
  readonly person?: Person;
  readonly interactive?: boolean;
  readonly json?: boolean;
  /** What happens, given what was decided so far. */
  readonly events: (decided: Promise<PermissionDecision>, stopped: Promise<void>) => AsyncGenerator<AgentLogEvent>;
  readonly onDecide?: () => void;
}

function play({ person = new Person(), interactive = true, json = false, events, onDecide }: Scene) {
  const texts = { out: '', err: '' };
  const sink = (name: 'out' | 'err') =>
    new Writable({
      write: (chunk, _encoding, next) => {
        texts[name] += String(chunk);
        next();
      },
    });
  const stdin = Object.assign(new PassThrough(), { isTTY: interactive });
  const terminal = new CliTerminal({ stdin, stdout: sink('out'), stderr: sink('err'), noColor: true });
  const decided = Promise.withResolvers<PermissionDecision>();
  const stopped = Promise.withResolvers<void>();
  const stops: unknown[] = [];
  let status: TurnInfo['status'] = 'completed';
  const info = Promise.withResolvers<TurnInfo>();
  const session: ConstructorParameters<typeof ShownTurn>[0]['session'] = {
    id: 'ses_0000000000000001',
    prompt: () => ({
      turn: info.promise,
      async *[Symbol.asyncIterator]() {
        for await (const event of events(decided.promise, stopped.promise)) {
          if (event.type === 'turn_ended') status = event.status;
          yield { ...event, seq: 1, at: 0 };
        }
        info.resolve({ id: turn, agent: 'claude', mode: 'ask', prompt: '', by: 'local', status, queuedAt: 0 });
      },
    }),
    stop: async (options) => {
      stops.push(options);
      stopped.resolve();
      return [turn];
    },
    decidePermission: async (permission, decision) => {
      onDecide?.();
      decided.resolve(decision);
      return {
        id: permission,
        session: 'ses_0000000000000001',
        tool: '',
        summary: '',
        state: 'resolved',
        requestedAt: 0,
      };
    },
  };
  const leaving = new AbortController();
  const one = new ShownTurn({ session, terminal, lines: person, json, leaving: leaving.signal });
  return { one, exit: one.run('do it', {}), texts, stops, person };
}

/** A turn that asks, and tells what was decided. */
async function* asking(decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
  yield asks;
  const decision = await decided;
  yield { type: 'agent_notice', turn, text: JSON.stringify(decision) };
  yield ended('completed');
}

describe('an agent that asks at the terminal', () => {
  it.each<[string, string[], PermissionDecision]>([
    ['once', ['y'], { decision: 'allow', scope: 'once' }],
    ['for the session', ['s', ''], { decision: 'allow', scope: 'session', pattern: 'git status' }],
    ['always, with a pattern', ['a', 'git *'], { decision: 'allow', scope: 'always', pattern: 'git *' }],
    ['no, with a reason', ['n', 'not today'], { decision: 'deny', reason: 'not today' }],
    ['no, with a reason at once', ['n not today'], { decision: 'deny', reason: 'not today' }],
    ['only by a clear word', ['maybe', '', 'yes'], { decision: 'allow', scope: 'once' }],
  ])('is allowed %s', async (_how, lines, decision) => {
    const { exit, texts } = play({ person: new Person(...lines), events: asking });
    expect(await exit).toBe(0);
    expect(texts.err).toContain('The agent wants to use Bash:\n  git status\n');
    expect(texts.err).toContain(JSON.stringify(decision));
  });

  it('shows code as code, and says what its rule would allow', async () => {
    const input = { code: 'for n in (1, 2):\n\tprint(n * 3)\n', timeout: 60 };
    const exactly = JSON.stringify(input).replaceAll(/[\\*?]/g, (sign) => `\\${sign}`);
    const tool = 'mcp__cella__run_code';
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield { type: 'permission_requested', id, turn, tool, summary: input.code, input, exactly };
      expect(await decided).toEqual({ decision: 'allow', scope: 'always', pattern: exactly });
      yield ended('completed');
    };
    const person = new Person('a', '');
    const { exit, texts } = play({ person, events });
    expect(await exit).toBe(0);
    expect(texts.err).toBe(
      [
        'The agent wants to run this code in the session’s kernel:',
        '  for n in (1, 2):',
        '  \tprint(n * 3)',
        '  timeout: 60',
        'The rule applies in every session where you prompt. Enter allows exactly this code again and nothing else; ** allows any code.',
        '',
      ].join('\n'),
    );
    expect(person.prompts[1]).toBe('Pattern [exactly this code]: ');
  });

  it('shows the complete input of another tool, and no control characters', async () => {
    const input = { text: 'a\n\u001b[2Jb', list: [1, 'x*'] };
    const exactly = JSON.stringify(input).replaceAll(/[\\*?]/g, (sign) => `\\${sign}`);
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield { type: 'permission_requested', id, turn, tool: 'mcp__x__send', summary: 'send it', input, exactly };
      expect(await decided).toMatchObject({ scope: 'session', pattern: '**' });
      yield ended('completed');
    };
    const { exit, texts } = play({ person: new Person('s', '**'), events });
    expect(await exit).toBe(0);
    expect(texts.err).toContain('mcp__x__send:\n  send it\n  text: a\n    \\u{1b}[2Jb\n  list: [1,"x*"]\n');
    expect(texts.err).toContain(
      'The rule applies in this session, whoever prompts. Enter allows exactly this input again and nothing else; ** allows every use of mcp__x__send.',
    );
  });

  it('asks again if a pattern does not match', async () => {
    const person = new Person('a', 'git log', 's', '');
    let tries = 0;
    const onDecide = () => {
      if (++tries === 1) throw new CellaError('INVALID_REQUEST', 'The pattern "git log" does not allow it.');
    };
    const { exit, texts } = play({ person, events: asking, onDecide });
    expect(await exit).toBe(0);
    expect(texts.err).toContain('The pattern "git log" does not allow it.');
    expect(texts.err).toContain('"scope":"session"');
  });

  it('creates no rule if there can be none', async () => {
    const person = new Person('a', 's', 'y');
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield { type: 'permission_requested', id, turn, tool: 'Bash', summary: 'a\nb' };
      await decided;
      yield ended('completed');
    };
    expect(await play({ person, events }).exit).toBe(0);
    expect(person.prompts).toEqual(Array(3).fill('Allow it? (y) once, (n) no: '));
  });

  it('stops asking if somebody else has decided', async () => {
    const events = async function* (): AsyncGenerator<AgentLogEvent> {
      yield asks;
      yield { type: 'permission_resolved', id, turn, outcome: 'allowed', by: 'ann~000000000000' };
      yield ended('completed');
    };
    const { exit, texts } = play({ events });
    expect(await exit).toBe(0);
    expect(texts.err).toContain('(allowed by ann)');
  });

  it('stops asking if the turn has ended, even without an end event', async () => {
    const events = async function* (): AsyncGenerator<AgentLogEvent> {
      yield asks;
    };
    expect(await play({ events }).exit).toBe(0);
  });

  it('prints nothing more if somebody else was faster', async () => {
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield asks;
      await Promise.race([decided, tried.promise]);
      yield ended('completed');
    };
    const tried = Promise.withResolvers<void>();
    const onDecide = () => {
      tried.resolve();
      throw new CellaError('ALREADY_RESOLVED', 'It was resolved before.');
    };
    const { exit, texts } = play({ person: new Person('y'), events, onDecide });
    expect(await exit).toBe(0);
    expect(texts.err).not.toContain('resolved before');
  });

  it('waits for others if nobody can be asked here, and says how to decide', async () => {
    const events = async function* (): AsyncGenerator<AgentLogEvent> {
      yield asks;
      yield ended('completed');
    };
    const { exit, texts } = play({ interactive: false, events });
    expect(await exit).toBe(0);
    expect(texts.err).toContain(`cella permissions allow ses_0000000000000001 ${id}`);
  });

  it.each([
    ['shown', false],
    ['told as JSON', true],
  ])('reads no more than fits while nobody answers, and then has everything %s in order', async (_how, json) => {
    const texts = Array.from({ length: 3000 }, (_, at) => `note ${at} ${'x'.repeat(1000)}`);
    let given = 0;
    let givenWhileAway = 0;
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield asks;
      for (const text of texts) {
        given++;
        yield { type: 'agent_notice', turn, text };
      }
      await decided;
      yield ended('completed');
    };
    class Away extends Person {
      override async read(request: LineRequest): Promise<InputLine> {
        // Whoever reads without waiting for the screen has read everything by then: nothing else is waited for.
        await immediately();
        givenWhileAway = given;
        return await super.read(request);
      }
    }
    const { exit, texts: seen } = play({ person: new Away('y'), events, json });
    expect(await exit).toBe(0);
    expect(givenWhileAway).toBeGreaterThan(100);
    expect(givenWhileAway).toBeLessThan(2000);
    const notes = (json ? seen.out : seen.err).match(/note \d+ x+/g);
    expect(notes).toEqual(texts);
  });

  it('asks a question with its choices, and accepts a number or a text', async () => {
    const events = async function* (decided: Promise<PermissionDecision>): AsyncGenerator<AgentLogEvent> {
      yield {
        type: 'question',
        id,
        turn,
        text: 'Which?',
        options: [{ label: 'red' }, { label: 'blue', description: 'b' }],
      };
      yield { type: 'agent_notice', turn, text: JSON.stringify(await decided) };
      yield ended('completed');
    };
    const { exit, texts } = play({ person: new Person('2'), events });
    await exit;
    expect(texts.err).toContain('Which?\n  1. red\n  2. blue: b\n');
    expect(texts.err).toContain('"text":"blue"');
  });
});

describe('Ctrl-C', () => {
  it('stops the turn, even while a permission is pending, and a second one exits', async () => {
    const events = async function* (_: unknown, stopped: Promise<void>): AsyncGenerator<AgentLogEvent> {
      yield asks;
      await stopped;
      yield ended('cancelled');
    };
    const asked = play({ person: new Person({ kind: 'interrupt' }), events });
    expect(await asked.exit).toBe(130);
    expect(asked.stops).toEqual([{ turn }]);
    expect(asked.one.stop()).toBe(false);
  });
});

describe('the exit code', () => {
  it.each([
    ['completed', 0],
    ['failed', 1],
    ['timed_out', 124],
    ['cancelled', 130],
  ] as const)('of a turn that is %s is %i', async (status, code) => {
    const events = async function* (): AsyncGenerator<AgentLogEvent> {
      yield ended(status);
    };
    expect(await play({ events }).exit).toBe(code);
  });

  it('is the same with JSON events, one per line, for programs', async () => {
    const events = async function* (): AsyncGenerator<AgentLogEvent> {
      yield ended('completed');
    };
    const { exit, texts } = play({ events, json: true });
    await exit;
    expect(JSON.parse(texts.out)).toMatchObject({ type: 'turn_ended', status: 'completed' });
  });
});
