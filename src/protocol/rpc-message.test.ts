import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseMessage, RpcCode } from './rpc-message.ts';

const parse = (line: unknown) =>
  parseMessage(new TextEncoder().encode(typeof line === 'string' ? line : JSON.stringify(line)));

describe('a line of JSON-RPC', () => {
  test('is a request, a notification, a result or a failure', () => {
    expect(parse({ jsonrpc: '2.0', id: 1, method: 'a', params: {} })?.kind).toBe('request');
    expect(parse({ jsonrpc: '2.0', method: 'a' })?.kind).toBe('notification');
    expect(parse({ jsonrpc: '2.0', id: 'x', result: null })).toEqual({ kind: 'result', id: 'x', result: null });
    const error = { code: -32000, message: 'no' };
    expect(parse({ jsonrpc: '2.0', id: null, error })).toEqual({ kind: 'failure', id: null, error });
  });

  test('can be blank', () => {
    expect(parse('')).toBeUndefined();
    expect(parse(' \t\r')).toBeUndefined();
  });

  test.each([['{'], ['nonsense'], ['{"jsonrpc":"2.0",}'], ['\u0000']])('that is not JSON is -32700: %j', (line) => {
    expect(parse(line)).toMatchObject({ kind: 'fault', id: null, code: RpcCode.parse });
  });

  test('with invalid UTF-8 is -32700', () => {
    expect(parseMessage(new Uint8Array([0x22, 0xff, 0x22]))).toMatchObject({ kind: 'fault', code: RpcCode.parse });
  });

  test.each([
    ['no object', 1],
    ['a batch', []],
    ['another version', { jsonrpc: '1.0', id: 1, method: 'a' }],
    ['a method that is no text', { jsonrpc: '2.0', id: 1, method: 1 }],
    ['parameters that are a number', { jsonrpc: '2.0', id: 1, method: 'a', params: 1 }],
    ['a null id', { jsonrpc: '2.0', id: null, method: 'a' }],
    ['a broken id', { jsonrpc: '2.0', id: 1.5, method: 'a' }],
    ['a call and a reply at once', { jsonrpc: '2.0', id: 1, method: 'a', result: 1 }],
    ['result and error', { jsonrpc: '2.0', id: 1, result: 1, error: { code: 1, message: '' } }],
    ['neither', { jsonrpc: '2.0', id: 1 }],
    ['an id of 200 characters', { jsonrpc: '2.0', id: 'x'.repeat(200), method: 'a' }],
  ])('with %s is -32600', (_, line) => {
    expect(parse(line)).toMatchObject({ kind: 'fault', code: RpcCode.invalidRequest });
  });

  test('that is invalid returns the id of its call, and never that of a reply', () => {
    expect(parse({ jsonrpc: '2.0', id: 7, method: 1 })).toMatchObject({ id: 7 });
    expect(parse({ jsonrpc: '1.0', id: 7, result: 1 })).toMatchObject({ id: null });
  });

  test('of any JSON is parsed without throwing', () => {
    fc.assert(fc.property(fc.json(), (line) => void parse(line)));
  });
});
