import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { buildArgv } from './cli-tool.ts';
import { bindArguments, callSignature } from './parameters.ts';
import { parseTool } from './parse-tool.ts';
import { fillUrl } from './placeholders.ts';

/** Text with more of what means something to shells, programs and URLs than chance would bring. */
const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(
      fc.constantFrom(
        '-',
        '--',
        '=',
        ' ',
        '\0',
        '\n',
        '$(id)',
        '`',
        ';',
        '|',
        '..',
        '/',
        '%2e',
        '?',
        '#',
        '@',
        '\\',
        'a',
      ),
    )
    .map((parts) => parts.join('')),
);

describe('any text of a caller', () => {
  it('is one argument of the program, unchanged, or is refused', () => {
    const tool = parseTool(
      'name: t\ncommand: prog\nschema: {options: {o: {flag: --o}, p: {flag: --p=}}, positional: [{name: a}, {name: rest, variadic: true}]}',
      'test',
    );
    if (tool.type !== 'cli') throw new Error('it is no program');
    const harmless = (text: string) => !text.startsWith('-') && !text.includes('\0') && text.isWellFormed();
    fc.assert(
      fc.property(hostile, hostile, hostile, fc.array(hostile, { minLength: 1 }), (o, p, a, rest) => {
        const build = () =>
          buildArgv('t', tool, bindArguments('t', callSignature(tool), { positional: [], named: { o, p, a, rest } }));
        if ([o, p, a, ...rest].every(harmless)) expect(build()).toEqual(['prog', '--o', o, `--p=${p}`, a, ...rest]);
        else expect(build).toThrow(CellaError);
      }),
    );
  });

  it('stays within its part of the URL, or is refused', () => {
    fc.assert(
      fc.property(hostile, hostile, (one, two) => {
        const filled = fillUrl(
          'https://example.org:8443/a/{one}/b-{two}.json?q={two}',
          new Map(Object.entries({ one, two })),
        );
        if ('problem' in filled) return;
        expect(filled.url.origin).toBe('https://example.org:8443');
        expect(filled.url.pathname.split('/').map(decodeURIComponent)).toEqual(['', 'a', one, `b-${two}.json`]);
        expect([...filled.url.searchParams]).toEqual([['q', two]]);
        expect(filled.url.hash).toBe('');
      }),
    );
  });
});
