/** Notes that storage did not take are written by the next one that it takes: none is lost with another's failure. */

import { expect, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import type { EventLog } from '../../storage/contract.ts';
import { LoggedAudit } from './audit.ts';

/** Of the log only what is added to it. */
function failingLog() {
  const log = { full: true, kept: [] as unknown[] };
  const events: Pick<EventLog, 'append'> = {
    append: async (_key, added) => {
      if (log.full) throw new CellaError('STORAGE_FAILED', 'the disk is full');
      return log.kept.push(...added);
    },
  };
  return { log, audit: new LoggedAudit(events as EventLog) };
}

const entryOf = (action: string) => ({ action, from: '127.0.0.1', outcome: 'ok' }) as const;

test('a note that could not be written is written when there is room, before what came later', async () => {
  const { log, audit } = failingLog();
  await expect(audit.note(entryOf('one'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await audit.append(entryOf('two'));
  expect(log.kept).toMatchObject([{ action: 'one' }, { action: 'two' }]);
});

test('a note is not lost with somebody else’s entry that fails', async () => {
  const { log, audit } = failingLog();
  const noted = audit.note(entryOf('noted'));
  await expect(audit.append(entryOf('refused'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await noted;
  expect(log.kept).toMatchObject([{ action: 'noted' }]);
});

test('of more than can wait the latest are kept', async () => {
  const { log, audit } = failingLog();
  const notes = Array.from({ length: 1200 }, (_, n) => audit.note(entryOf(`n${n}`)));
  await Promise.allSettled(notes);
  log.full = false;
  await audit.flush();
  expect(log.kept).toHaveLength(1000);
  expect(log.kept.at(-1)).toMatchObject({ action: 'n1199' });
});
