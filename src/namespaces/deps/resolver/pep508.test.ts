import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseMarker } from './pep508.ts';
import { markerEnvironment } from './python-target.ts';

const alpine = { tag: 'cp312-x86_64', version: [3, 12], patch: 4, platforms: ['musllinux_1_2_x86_64'] } as const;
const pyodide = { tag: 'cp314-wasm32', version: [3, 14], platforms: [] } as const;

const holds = (text: string, python: typeof alpine | typeof pyodide = alpine, extra = '') =>
  parseMarker(text)?.({ ...markerEnvironment(python), extra });

describe('markers', () => {
  it.each([
    'python_version >= "3.10"',
    "python_version<'3.13'",
    'python_full_version == "3.12.4"',
    'python_version == "3.*"',
    'python_version not in "2.7, 3.11"',
    'sys_platform == "linux" and platform_machine == "x86_64"',
    'sys_platform == "win32" or os_name == "posix"',
    '(sys_platform == "win32" or os_name == "posix") and (platform_system != "Darwin")',
    'platform_python_implementation == "CPython"',
    '"linux" in sys_platform',
    'os.name == "posix"',
    'implementation_name=="cpython"and python_version>"3"',
  ])('%s holds on a Linux with 3.12', (text) => {
    expect(holds(text)).toBe(true);
  });

  it.each([
    'python_version < "3.9"',
    'python_version < "3.12" and os_name == "posix" or sys_platform == "win32"',
    'extra == "test"',
    'sys_platform == "emscripten"',
    'python_full_version < "3.12.4"',
    'python_version in "2.7, 3.11"',
  ])('%s does not hold there', (text) => {
    expect(holds(text)).toBe(false);
  });

  it('in WebAssembly hold for WebAssembly', () => {
    expect(holds('sys_platform == "emscripten" and platform_machine == "wasm32"', pyodide)).toBe(true);
    expect(holds('python_full_version >= "3.14.2"', pyodide)).toBe(true);
  });

  it('find an extra however it is spelled', () => {
    expect(holds('extra == "Dev_Tools"', alpine, 'dev-tools')).toBe(true);
  });

  it.each([
    '',
    'python_version',
    'python_version >=',
    'python_version >= 3',
    'nonsense == "1"',
    '(os_name == "posix"',
    'os_name == "posix")',
    'os_name == "posix" and',
    'os_name "posix"',
    'os_name and "posix"',
    '__import__("os")',
  ])('%j is none', (text) => {
    expect(parseMarker(text)).toBeUndefined();
  });

  it('parsing ends without an exception for any text', () => {
    const word = fc.constantFrom(
      '(',
      ')',
      'and',
      'or',
      'not',
      'in',
      '==',
      '<',
      '"3"',
      "'",
      '"',
      'os_name',
      'extra',
      ' ',
      'ß',
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 40 }), (words) => {
        const marker = parseMarker(words.join(' '));
        expect(typeof marker?.({})).toBe(marker ? 'boolean' : 'undefined');
      }),
    );
    expect(parseMarker('('.repeat(3990))).toBeUndefined();
    expect(parseMarker(`${'('.repeat(40)}os_name == "posix"${')'.repeat(40)}`)).toBeDefined();
    expect(parseMarker(`os_name == "${'x'.repeat(4000)}"`)).toBeUndefined();
  });
});
