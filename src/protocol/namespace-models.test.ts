import { expect, test } from 'vitest';
import { isTextArtifact, type ToolParameter, writeParameters } from './namespace-models.ts';

test.each([
  ['text', 'application/octet-stream', true],
  ['json', 'application/octet-stream', true],
  ['file', 'text/csv', true],
  ['file', 'application/json', true],
  ['file', 'application/json; charset=utf-8', true],
  ['file', 'image/svg+xml', true],
  ['file', 'application/json-seq', false],
  ['bytes', 'application/octet-stream', false],
] as const)('an artifact of type %s and media type %s is text: %s', (type, mediaType, expected) => {
  expect(isTextArtifact({ type, mediaType })).toBe(expected);
});

test('parameters are written as code writes them', () => {
  const base = { type: 'string', description: '', required: false, positional: true, variadic: false } as const;
  const parameters: ToolParameter[] = [
    { ...base, name: 'path', required: true },
    { ...base, name: 'deep', type: 'boolean', default: true },
    { ...base, name: 'like' },
    { ...base, name: 'names', type: 'array', items: 'string', variadic: true },
    { ...base, name: 'word', default: 'it’s "x"' },
  ];
  expect(writeParameters(parameters)).toBe('path, deep=True, like=None, *names, word="it’s \\"x\\""');
  expect(writeParameters(parameters, { types: true })).toBe(
    'path: string, deep: boolean = True, like: string = None, *names: string, word: string = "it’s \\"x\\""',
  );
});
