import { describe, expect, it } from 'vitest';
import { testTools } from '../../../test/support/namespaces/tools.ts';
import type { Approval, ApprovalRequest } from '../../protocol/permission.ts';

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
