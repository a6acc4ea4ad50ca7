import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseIndexPage } from './package-index.ts';

const base = new URL('https://index.example/simple/tiny/');

describe('the page of a package', () => {
  it('in HTML is parsed completely', async () => {
    const html = `<!DOCTYPE html><html><head><base href="https://files.example/a/"></head><body>
      <a HREF='../tiny-1.0-py3-none-any.whl#sha256=ABC1' data-requires-python="&gt;=3.9" data-core-metadata="sha256=ff">tiny-1.0-py3-none-any.whl</a><br>
      <a data-requires-python=">=3.9,<4" data-yanked="broken &amp; worse" href=tiny-2.0.tar.gz> tiny-2.0.tar.gz </a>
      <a name="top">nothing</a></body></html>`;
    expect(await parseIndexPage(html, 'text/html; charset=utf-8', base)).toEqual([
      {
        filename: 'tiny-1.0-py3-none-any.whl',
        url: new URL('https://files.example/tiny-1.0-py3-none-any.whl'),
        sha256: 'abc1',
        requiresPython: '>=3.9',
        yanked: false,
        metadata: { sha256: 'ff' },
      },
      {
        filename: 'tiny-2.0.tar.gz',
        url: new URL('https://files.example/a/tiny-2.0.tar.gz'),
        sha256: undefined,
        requiresPython: '>=3.9,<4',
        yanked: true,
        metadata: undefined,
      },
    ]);
  });

  it('in JSON is parsed completely', async () => {
    const files = [
      {
        filename: 'a.whl',
        url: '/f/a.whl',
        hashes: { sha256: 'AA' },
        'core-metadata': { sha256: 'bb' },
        yanked: 'why',
      },
      { filename: 'b.whl', url: 'b.whl', hashes: {}, 'requires-python': null, 'dist-info-metadata': true },
    ];
    expect(await parseIndexPage(JSON.stringify({ files }), 'application/vnd.pypi.simple.v1+json', base)).toMatchObject([
      { url: new URL('https://index.example/f/a.whl'), sha256: 'aa', yanked: true, metadata: { sha256: 'bb' } },
      {
        url: new URL('https://index.example/simple/tiny/b.whl'),
        requiresPython: undefined,
        metadata: { sha256: undefined },
      },
    ]);
  });

  it.each(['', '{}', '[]', '{"files": [{"filename": 1}]}', 'null'])('%j is not such a page', async (text) => {
    expect(await parseIndexPage(text, 'application/json', base)).toBeUndefined();
  });

  it('parsing ends for any input', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), async (text) => {
        await parseIndexPage(`<a href="${text}">${text}</a><a ${text}>`, 'text/html', base);
        await parseIndexPage(text, 'application/json', base);
      }),
    );
    expect(await parseIndexPage(`<a ${'href="'.repeat(50_000)}`, 'text/html', base)).toEqual([]);
    expect(await parseIndexPage('<a '.repeat(50_000), 'text/html', base)).toEqual([]);
  });
});
