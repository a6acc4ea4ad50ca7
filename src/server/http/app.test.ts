import { describe, expect, it } from 'vitest';
import { hostProblem, originProblem } from './app.ts';

const local = { loopback: true, names: [] };
const open = { loopback: false, names: ['cella.example'] };

describe('the Host header', () => {
  it.each(['localhost', 'localhost:7710', 'LOCALHOST', '127.0.0.1:1', '[::1]:7710'])(
    'can be %s on loopback',
    (host) => {
      expect(hostProblem(host, local)).toBeUndefined();
    },
  );

  it.each([undefined, '', 'evil.example', '127.0.0.1.evil.example', '10.0.0.1', 'localhost:x', 'a b', '[::1', 'x@y'])(
    'cannot be %s on loopback',
    (host) => {
      expect(hostProblem(host, local)).toBeDefined();
    },
  );

  it('can be an address or a configured name on another address', () => {
    expect(hostProblem('10.0.0.1:7710', open)).toBeUndefined();
    expect(hostProblem('[fe80::1]:7710', open)).toBeUndefined();
    expect(hostProblem('cella.example', open)).toBeUndefined();
    expect(hostProblem('other.example', open)).toContain('other.example');
  });
});

describe('the Origin header', () => {
  it('can be missing, or the server itself', () => {
    expect(originProblem(undefined, 'localhost:7710')).toBeUndefined();
    expect(originProblem('http://localhost:7710', 'localhost:7710')).toBeUndefined();
    expect(originProblem('https://cella.example', 'cella.example')).toBeUndefined();
    expect(originProblem('https://cella.example', 'cella.example:443')).toBeUndefined();
  });

  it.each(['null', '', 'http://localhost:1', 'http://evil.example', 'file://localhost:7710', 'http://localhost'])(
    'cannot be %j',
    (origin) => {
      expect(originProblem(origin, 'localhost:7710')).toBeDefined();
    },
  );
});
