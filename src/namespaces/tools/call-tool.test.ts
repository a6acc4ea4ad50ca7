import { describe, expect, it } from 'vitest';
import { testTools } from '../../../test/support/namespaces/tools.ts';
import type { Approval, ApprovalRequest } from '../../protocol/permission.ts';
import type { CommandRunner } from '../../protocol/process.ts';

const yaml = `
name: remove
command: echo
requires_approval: true
schema: {options: {force: {type: boolean, default: true}}, positional: [{name: path, required: true}]}
recipes: {gently: {preset: {force: false}}}
`;

describe('a tool that requires approval', () => {
  it('is refused if nobody can be asked', async () => {
    await using tools = await testTools([yaml]);
    await expect(tools.call('remove', { path: 'x' })).rejects.toMatchObject({
      code: 'APPROVAL_REFUSED',
      message: 'tools.remove requires approval and was not run: nobody can be asked.',
    });
    expect(tools.sandboxed.commands).toEqual([]);
  });

  it('shows what will run, waits for the answer with the timeout paused, and runs', async () => {
    const requests: ApprovalRequest[] = [];
    const order: string[] = [];
    const approve = async (request: ApprovalRequest) => {
      requests.push(request);
      order.push('asked');
      return true;
    };
    await using tools = await testTools([yaml], { approve });
    const whileAsking = async <T>(work: () => Promise<T>) => {
      order.push('clock stops');
      const answer = await work();
      order.push('clock goes on');
      return answer;
    };
    const context = { whileAsking };
    expect(await tools.call('remove.gently', { path: 'a b' }, { context })).toBe('a b\n');
    expect(order).toEqual(['clock stops', 'asked', 'clock goes on']);
    expect(requests).toMatchObject([
      { tool: 'remove', recipe: 'gently', arguments: { path: 'a b', force: false }, summary: 'echo "a b"' },
    ]);
  });

  it.each<[string, () => Promise<Approval>, string]>([
    ['is refused', async () => false, 'denied it'],
    ['is refused with a reason', async () => ({ allowed: false, reason: 'not on a Friday' }), 'not on a Friday'],
    ['cannot be asked about', () => Promise.reject(new Error('the server is away')), 'the server is away'],
  ])('does not run where it %s', async (_name, approve, message) => {
    await using tools = await testTools([yaml], { approve });
    const refused = { code: 'APPROVAL_REFUSED', message: expect.stringContaining(message) };
    await expect(tools.call('remove', { path: 'x' })).rejects.toMatchObject(refused);
    expect(tools.sandboxed.commands).toEqual([]);
  });

  it('asks nobody about wrong arguments', async () => {
    let asked = 0;
    const approve = async () => {
      asked++;
      return true;
    };
    await using tools = await testTools([yaml], { approve });
    await expect(tools.call('remove', { path: '-rf' })).rejects.toMatchObject({ code: 'TOOL_ARGUMENTS' });
    expect(asked).toBe(0);
  });

  it.each<[string, Promise<Approval>]>([
    ['and then allowed it', Promise.resolve(true)],
    ['and never answered', new Promise(() => undefined)],
  ])('does not run where the code has gone while the person thought %s', async (_name, answer) => {
    const stop = new AbortController();
    const approve = async () => {
      stop.abort();
      return await answer;
    };
    await using tools = await testTools([yaml], { approve });
    const call = tools.call('remove', { path: 'x' }, { context: { signal: stop.signal } });
    await expect(call).rejects.toMatchObject({ code: 'ABORTED' });
    expect(tools.sandboxed.commands).toEqual([]);
  });
});

/** Programs that write what they are called: `large` writes much JSON. */
class Programs implements CommandRunner {
  readonly started: string[] = [];

  async run({ argv: [name = ''] }: { argv: readonly string[] }) {
    this.started.push(name);
    const stdout = Buffer.from(name === 'large' ? `[${'0,'.repeat(20_000)}0]` : '[0]');
    return { stdout, stderr: Buffer.alloc(0), stdoutCut: 0, stderrCut: 0, exit: { code: 0 }, timedOut: false };
  }
}

/** Everything that can go on has gone on. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 50));

describe('results of one session', () => {
  const MIB = 1024 * 1024;
  const program = (name: string, fields: string) => `name: ${name}\ncommand: ${name}\n${fields}`;
  const open = async () => {
    const sandboxed = new Programs();
    const yamls = [
      program('half', `output_limit: ${32 * MIB}`),
      program('most', `output_limit: ${64 * MIB}`),
      program('plain', ''),
      program('large', 'result: json'),
      program('small', 'result: json'),
    ];
    return { sandboxed, tools: await testTools(yamls, { sandboxed }) };
  };

  it('have room for 128 MiB until they are delivered: stdout and stderr of each, with their limits', async () => {
    const { sandboxed, tools } = await open();
    const delivered = Promise.withResolvers<void>();
    const held = { context: { delivered: delivered.promise } };
    expect(await tools.call('half', {}, held)).toBe('[0]');
    expect(await tools.call('half')).toBe('[0]');
    const most = tools.call('most');
    // It does not overtake.
    const plain = tools.call('plain');
    await settled();
    expect(sandboxed.started).toEqual(['half', 'half']);
    delivered.resolve();
    await Promise.all([most, plain]);
    expect(sandboxed.started).toEqual(['half', 'half', 'most', 'plain']);
  });

  it('are 64 at a time with the default limit', async () => {
    const { sandboxed, tools } = await open();
    const delivered = Promise.withResolvers<void>();
    const held = { context: { delivered: delivered.promise } };
    await Promise.all(Array.from({ length: 64 }, () => tools.call('plain', {}, held)));
    const last = tools.call('plain');
    await settled();
    expect(sandboxed.started).toHaveLength(64);
    delivered.resolve();
    expect(await last).toBe('[0]');
  });

  it('are read one at a time if they are large', async () => {
    const { tools } = await open();
    const delivered = Promise.withResolvers<void>();
    expect(await tools.call('large', {}, { context: { delivered: delivered.promise } })).toHaveLength(20_001);
    let read = false;
    const second = tools.call('large').then(() => {
      read = true;
    });
    const stop = new AbortController();
    const third = tools.call('large', {}, { context: { signal: stop.signal } });
    expect(await tools.call('small')).toEqual([0]);
    await settled();
    expect(read).toBe(false);
    stop.abort();
    await expect(third).rejects.toMatchObject({ code: 'ABORTED' });
    expect(read).toBe(false);
    delivered.resolve();
    await second;
  });

  it('do not begin for code that no longer waits', async () => {
    const { sandboxed, tools } = await open();
    const delivered = Promise.withResolvers<void>();
    await tools.call('most', {}, { context: { delivered: delivered.promise } });
    const stop = new AbortController();
    const aborted = tools.call('most', {}, { context: { signal: stop.signal } });
    await settled();
    stop.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'ABORTED' });
    expect(sandboxed.started).toEqual(['most']);
    delivered.resolve();
    expect(await tools.call('most')).toBe('[0]');
  });
});
