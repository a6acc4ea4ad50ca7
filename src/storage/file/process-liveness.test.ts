import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProcessLiveness } from './process-liveness.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-liveness-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A owner whose pid says nothing here: only its file tells. */
const unseen = '7-1-abc-1-abcdef';

describe('the file of a process', () => {
  it('shows that its owner is alive, until it is closed', () => {
    const [one, other] = [new ProcessLiveness(folder), new ProcessLiveness(folder)];
    expect(other.isAlive(one.ownId)).toBe(true);
    expect(one.ownId).toBe(one.ownId);
    expect(one.ownId).not.toBe(other.ownId);
    one.close();
    one.close();
    expect(readdirSync(folder)).toEqual([other.ownId]);
    expect(() => one.ownId).toThrow('closed');
    other.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('decides if the pid is not conclusive', () => {
    const liveness = new ProcessLiveness(folder);
    expect(liveness.isAlive(unseen)).toBe(false);
    expect(existsSync(join(folder, unseen))).toBe(false);
    using owner = new DatabaseSync(join(folder, unseen));
    expect(liveness.isAlive(unseen)).toBe(false);
    owner.exec('BEGIN EXCLUSIVE');
    expect(liveness.isAlive(unseen)).toBe(true);
    owner.exec('COMMIT');
    expect(liveness.isAlive(unseen)).toBe(false);
  });

  it('of a dead owner stays unlocked, even while others check it', () => {
    using looking = new DatabaseSync(join(folder, unseen));
    looking.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
    expect(new ProcessLiveness(folder).isAlive(unseen)).toBe(false);
  });

  it('is removed once its owner is dead, and not before', () => {
    const liveness = new ProcessLiveness(folder);
    const { ownId: owner } = liveness;
    const held = '8-1-abc-1-abcdef';
    using other = new DatabaseSync(join(folder, held));
    other.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    writeFileSync(join(folder, unseen), '');
    new ProcessLiveness(folder).sweep();
    expect(readdirSync(folder).sort()).toEqual([held, owner].sort());
    liveness.close();
  });
});
