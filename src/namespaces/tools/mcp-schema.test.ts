import { describe, expect, it } from 'vitest';
import { schemaProblem } from './mcp-schema.ts';

type Schema = Parameters<typeof schemaProblem>[0];

/** Each level asks twice for the next one. */
function doubling(levels: number): Schema {
  const names = Array.from({ length: levels }, (_, level) => level);
  const next = (level: number) => ({ $ref: `#/$defs/d${level + 1}` });
  const defs = Object.fromEntries(names.map((level) => [`d${level}`, { allOf: [next(level), next(level)] }]));
  return {
    type: 'object',
    properties: { a: { $ref: '#/$defs/d0' } },
    $defs: { ...defs, [`d${levels}`]: { type: 'string' } },
  };
}

describe('a schema of an MCP server', () => {
  const matching = (): Schema => ({ type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } });

  it.each<[string, Schema, string]>([
    ['a pattern that tries everything', matching(), `${'a'.repeat(27)}!`],
    ['references that double', doubling(19), 'x'],
  ])('with %s does not hold up the server', (_name, schema, a) => {
    expect(schemaProblem(schema, {})).toBeUndefined();
    expect(schemaProblem(schema, { a })).toMatch(/takes too long/);
    // From now on it is not even tried: this value took no time before.
    expect(schemaProblem(schema, {})).toMatch(/takes too long/);
  });

  it('is checked down to the last level', () => {
    expect(schemaProblem(matching(), { a: 'aaa' })).toBeUndefined();
    expect(schemaProblem(matching(), { a: 'b' })).toMatch(/pattern/);
    expect(schemaProblem(doubling(3), { a: 'x' })).toBeUndefined();
    expect(schemaProblem(doubling(3), { a: 1 })).toMatch(/type/i);
  });
});
