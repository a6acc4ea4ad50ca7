/** Recovery from saves that are damaged: what is whole comes back, and the rest is told. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';
import { checkpointFolder, locate, reasons, storedCheckpoints } from '../../support/kernels/state.ts';

/** Nothing is saved but what the test saves. */
const NEVER = 3_600_000;

export function damagedSaveContract(open: Open): void {
  it('restores an older save if the last one is damaged', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    for (const n of [1, 2]) {
      await session.run(`x = [${n}]`);
      await session.save();
    }
    const newest = (await session.checkpoints()).at(-1);
    spoilAll(join(checkpointFolder(dataDir), newest?.id ?? ''));
    await session.run('import os; os._exit(1)');
    expect(await session.run('x')).toMatchObject({ value: [1], recovered: { restored: ['x'] } });
  });

  it('restores the intact parts of a damaged save', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    await session.run('import os\none = os.urandom(3000); two = os.urandom(3000)');
    await session.save();
    const [path = ''] = storedCheckpoints(dataDir);
    const { chunk, offset } = locate(path, 'one');
    flip(chunk, offset + 100);
    await session.run('os._exit(1)');
    const { value, recovered } = await session.run('["one" in dir(), "os" in dir()]');
    expect(value).toEqual([false, true]);
    expect(reasons(recovered?.lost).one).toContain('damaged');
    expect(recovered?.restored).toContain('os');
  });

  it('continues without variables if every save is damaged, and says so', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    await session.run('x = [1]');
    await session.save();
    for (const path of storedCheckpoints(dataDir)) spoilAll(path);
    await session.run('import os; os._exit(1)');
    const result = await session.run('"x" in dir()');
    expect(result).toMatchObject({ status: 'ok', value: false, recovered: { restored: [] } });
    expect(reasons(result.recovered?.lost).x).toContain('damaged');
  });

  it('opens a session even if every save is damaged, and says so', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run('x = [1]');
    await first.close();
    for (const path of storedCheckpoints(dataDir)) spoilAll(path);
    await using second = await open({ dataDir });
    const result = await second.run('"x" in dir()');
    expect(result).toMatchObject({ status: 'ok', value: false, resumed: { restored: [] } });
    expect(reasons(result.resumed?.lost).x).toContain('damaged');
  });
}

/** Changes one byte of a file. */
function flip(path: string, at: number): void {
  const data = readFileSync(path);
  data[at] = (data[at] ?? 0) ^ 1;
  writeFileSync(path, data);
}

/** Leaves no segment of a checkpoint whole. */
function spoilAll(checkpoint: string): void {
  const chunk = join(checkpoint, '0000.chunk');
  writeFileSync(
    chunk,
    readFileSync(chunk).map((byte) => byte ^ 255),
  );
}
