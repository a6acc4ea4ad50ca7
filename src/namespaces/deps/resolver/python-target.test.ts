import { describe, expect, it } from 'vitest';
import { parseFileName } from './package-index.ts';
import { checkInterpreter, wheelTags } from './python-target.ts';

const alpine = { tag: 'cp312-x86_64', version: [3, 12], platforms: ['musllinux_1_2_x86_64', 'linux_x86_64'] } as const;

describe('the wheels that a Python takes', () => {
  it('are its own first, then those for any Python, then pure ones', () => {
    const tags = wheelTags(alpine);
    const order = [
      ...['cp312-cp312-musllinux_1_2_x86_64', 'cp312-abi3-musllinux_1_2_x86_64', 'cp312-cp312-linux_x86_64'],
      ...['cp39-abi3-musllinux_1_2_x86_64', 'py3-none-musllinux_1_2_x86_64', 'cp312-none-any', 'py312-none-any'],
      ...['py3-none-any', 'py38-none-any'],
    ];
    expect(order.map((tag) => tags.indexOf(tag))).toEqual(
      order.map((tag) => tags.indexOf(tag)).toSorted((a, b) => a - b),
    );
    expect(order.filter((tag) => !tags.includes(tag))).toEqual([]);
    for (const other of [
      'cp313-cp313-musllinux_1_2_x86_64',
      'cp313-abi3-musllinux_1_2_x86_64',
      'py313-none-any',
      'py2-none-any',
    ]) {
      expect(tags).not.toContain(other);
    }
  });

  it('without the GIL are not those of the stable ABI', () => {
    const tags = wheelTags({ tag: 'cp313t-x86_64', version: [3, 13], platforms: ['linux_x86_64'] });
    expect(tags).toContain('cp313-cp313t-linux_x86_64');
    expect(tags.filter((tag) => tag.includes('abi3'))).toEqual([]);
  });

  it('in WebAssembly are only pure ones', () => {
    const tags = wheelTags({ tag: 'cp314-wasm32', version: [3, 14], platforms: [] });
    expect(tags.filter((tag) => !tag.endsWith('-none-any'))).toEqual([]);
  });
});

describe('the facts that an image reports', () => {
  it.each([
    ['a tag that is a path', { ...alpine, tag: 'cp312-x/../../etc' }],
    ['a tag that hides', { ...alpine, tag: '.building' }],
    ['a platform that is an option', { ...alpine, platforms: ['--index-url=http://x'] }],
    ['platforms without end', { ...alpine, platforms: Array.from({ length: 1000 }, (_, at) => `p${at}`) }],
  ])('is not taken where it is %s', (_what, interpreter) => {
    expect(() => checkInterpreter(interpreter)).toThrow(expect.objectContaining({ code: 'PYTHON_NOT_FOUND' }));
  });

  it('are used if they are valid', () => {
    expect(checkInterpreter(alpine)).toBe(alpine);
    const musl = { ...alpine, tag: 'cp312-x86_64-musl_1.2' };
    expect(checkInterpreter(musl)).toBe(musl);
  });
});

describe('names of files', () => {
  it.each([
    ['Tiny_A-1.0-py2.py3-none-any.whl', ['py2-none-any', 'py3-none-any']],
    ['tiny_a-1.0-2-cp312-abi3-linux_x86_64.whl', ['cp312-abi3-linux_x86_64']],
  ])('%s is a wheel', (text, tags) => {
    expect(parseFileName(text, 'tiny-a')).toMatchObject({ name: 'tiny-a', versionText: '1.0', wheel: { tags } });
  });

  it('a source must belong to the requested package', () => {
    expect(parseFileName('tiny-a-1.0.tar.gz', 'tiny-a')).toMatchObject({ versionText: '1.0', wheel: undefined });
    expect(parseFileName('tiny-a-1.0.tar.gz', 'tiny')).toBeUndefined();
  });

  it.each(['tiny_a-1.0.whl', 'tiny_a-x-py3-none-any.whl', '../a-1.0-py3-none-any.whl', 'tiny_a-1.0.exe', ''])(
    '%j is neither',
    (text) => {
      expect(parseFileName(text, 'tiny-a')).toBeUndefined();
    },
  );
});
