import { describe, expect, it } from 'vitest';
import { workedMs } from '../../lib/event-loop.ts';
import { schemaProblem } from './mcp-calls.ts';

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

/** Few letters, and yet it takes a second to compile, which nothing ends. Each is another: compiled ones are kept. */
const costly = (which: number) => `${'\\P{L}{2}'.repeat(4)}${which}`;

const properties = (a: NonNullable<Schema['properties']>[string], more: object = {}): Schema => ({
  type: 'object',
  properties: { a },
  ...more,
});

describe('a schema of an MCP server', () => {
  it('with references that double does not block the server', () => {
    const schema = doubling(19);
    expect(schemaProblem(schema, {})).toBeUndefined();
    expect(schemaProblem(schema, { a: 'x' })).toMatch(/takes too long/);
    // From now on it is not even tried: this value took no time before.
    expect(schemaProblem(schema, {})).toMatch(/takes too long/);
  });

  it.each<[string, Schema, unknown]>([
    ['a pattern that tries everything', properties({ pattern: '^(a+)+$' }), `${'a'.repeat(27)}!`],
    ['a pattern that takes long to compile', properties({ type: 'string', pattern: costly(1) }), '漢1'],
    ['a long pattern', properties({ pattern: '[\\p{L}\\P{N}]?'.repeat(2000) }), 'x'],
    ['a pattern in a list', properties({ pattern: [costly(2)] }), '漢2'],
    ['a pattern for names', properties({ patternProperties: { [costly(3)]: {} } }), { 漢3: 1 }],
    ['a pattern as the value', properties({ format: 'regex' }), '[\\p{L}\\P{N}]?'.repeat(5000)],
    ['a format in a list', properties({ format: ['regex'] }), '[\\p{L}\\P{N}]?'.repeat(5001)],
    ['a reference to a pattern', properties({ $ref: '#/x' }, { x: { pattern: costly(4) } }), '漢4'],
    [
      'a schema where others have names',
      properties(
        { dependencies: { properties: { patternProperties: { [costly(5)]: {} } } } },
        { $schema: 'http://json-schema.org/draft-07/schema#' },
      ),
      { properties: 1, 漢5: 1 },
    ],
  ])('with %s does not hold up the server, which checks it itself', (_name, schema, a) => {
    const begun = workedMs();
    expect(schemaProblem(schema, { a })).toBeUndefined();
    expect(workedMs() - begun).toBeLessThan(60);
  });

  it.each<[string, Schema]>([
    ['a long reference', properties({ $ref: `#/${'é'.repeat(1e6)}` })],
    ['a long choice', properties({ enum: ['\u0001'.repeat(1e6)] })],
  ])('with %s is refused for its size, always', (_name, schema) => {
    expect(schemaProblem(schema, { a: 1 })).toMatch(/larger than 256 KB/);
    expect(schemaProblem(schema, {})).toMatch(/larger than 256 KB/);
  });

  it('is checked down to the last level', () => {
    expect(schemaProblem(doubling(3), { a: 'x' })).toBeUndefined();
    expect(schemaProblem(doubling(3), { a: 1 })).toMatch(/type/i);
    expect(schemaProblem(properties({ type: 'string', pattern: 'x', maxLength: 2 }), { a: 'abc' })).toMatch(/long/);
    expect(schemaProblem(properties({ format: 'date' }), { a: 'today' })).toMatch(/format/);
  });

  it('can have arguments named like pattern keywords', () => {
    const closed = { type: 'object' as const, additionalProperties: false };
    const named = { pattern: { type: 'string' }, patternProperties: { type: 'object' }, format: { type: 'string' } };
    const schema: Schema = { ...closed, properties: named };
    expect(schemaProblem(schema, { pattern: 'x', patternProperties: {}, format: 'x' })).toBeUndefined();
    expect(schemaProblem(schema, { pattern: 1 })).toMatch(/type/i);
    expect(schemaProblem(schema, { other: 1 })).toMatch(/other/);
    expect(schemaProblem({ ...closed, patternProperties: { '^x-': {} } }, { 'x-a': 1 })).toBeUndefined();
  });
});
