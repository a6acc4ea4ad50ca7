import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadSqlite } from './database.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('loading SQLite', () => {
  it('holds back its own warning, lets others through, and leaves the process as it was', () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const before = process.emitWarning;
    const load = process.getBuiltinModule;
    vi.spyOn(process, 'getBuiltinModule').mockImplementation((name: string) => {
      process.emitWarning('SQLite is an experimental feature and might change at any time', 'ExperimentalWarning');
      process.emitWarning('something else', 'DeprecationWarning');
      return Reflect.apply(load, process, [name]);
    });
    expect(loadSqlite().DatabaseSync).toBeTypeOf('function');
    expect(warned.mock.calls).toEqual([['something else', 'DeprecationWarning']]);
    expect(process.emitWarning).toBe(before);
  });
});
