import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CurrentProcessor } from './spare-pool.ts';

/** The processors that this process may use. The system lists them as `0-1,4`. */
function allowed(): number[] {
  const list = /^Cpus_allowed_list:\s*(.+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
  return list.split(',').flatMap((range) => {
    const [from = 0, to = from] = range.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, n) => from + n);
  });
}

test.each(allowed())('a process that can use only processor %i finds it', (processor) => {
  const code = `
    import { CurrentProcessor } from ${JSON.stringify(new URL('./spare-pool.ts', import.meta.url).href)};
    process.title = 'a name) with (parts';
    console.log(new CurrentProcessor().number);`;
  const argv = ['-c', `${processor}`, process.execPath, '--input-type=module', '-e', code];
  expect(execFileSync('taskset', argv, { encoding: 'utf8' })).toBe(`${processor}\n`);
});

test('it can be asked repeatedly, also after it was closed', () => {
  const processor = new CurrentProcessor();
  for (let round = 0; round < 3; round++) {
    expect(allowed()).toContain(processor.number);
    expect(allowed()).toContain(processor.number);
    processor.close();
  }
});
