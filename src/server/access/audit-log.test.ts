/** Notes that storage did not take are written by the next one that it takes: none is lost with another's failure. */

import { expect, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import type { EventLog } from '../../storage/contract.ts';
import { AuditLog } from './audit-log.ts';

/** Of the log only what is added to it. */
function failingLog() {
  const log = { full: true, kept: [] as unknown[] };
  const events: Pick<EventLog, 'append'> = {
    append: async (_key, added) => {
      if (log.full) throw new CellaError('STORAGE_FAILED', 'the disk is full');
      return log.kept.push(...added);
    },
  };
  return { log, audit: new AuditLog(events as EventLog) };
}

const entryOf = (action: string) => ({ action, from: '127.0.0.1', outcome: 'ok' }) as const;

test('an entry that could not be written is written when there is room, before later ones', async () => {
  const { log, audit } = failingLog();
  await expect(audit.appendSoon(entryOf('one'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await audit.append(entryOf('two'));
  expect(log.kept).toMatchObject([{ action: 'one' }, { action: 'two' }]);
});

test('an entry is not lost if another user’s entry fails', async () => {
  const { log, audit } = failingLog();
  const noted = audit.appendSoon(entryOf('noted'));
  await expect(audit.append(entryOf('refused'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await noted;
  expect(log.kept).toMatchObject([{ action: 'noted' }]);
});

test('of too many waiting ones, the latest are kept', async () => {
  const { log, audit } = failingLog();
  const notes = Array.from({ length: 1200 }, (_, n) => audit.appendSoon(entryOf(`n${n}`)));
  await Promise.allSettled(notes);
  log.full = false;
  await audit.flush();
  expect(log.kept).toHaveLength(1000);
  expect(log.kept.at(-1)).toMatchObject({ action: 'n1199' });
});
