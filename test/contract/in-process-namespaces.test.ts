import { expect, it } from 'vitest';
import { FileStorage } from '../../src/index.ts';
import { openInProcess } from '../support/in-process.ts';
import { openWith } from '../support/namespaces.ts';
import { scratchFolder } from '../support/session.ts';
import { namespacesContract, type Place } from './namespaces.ts';

const place: Place = {
  open: openInProcess,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
};

namespacesContract('in-process with file storage', place);

it('a tool that is a program is refused in-process, with the capability that is missing', async () => {
  const { session, storage } = await openWith(place);
  await storage.tools.put('say', 'name: say\ndescription: Says\ncommand: echo\n');
  const code = 'try:\n    tools.say()\nexcept RuntimeError as error:\n    print(error.code, error)';
  expect((await session.run(code)).stdout).toMatch(/^CAPABILITY_MISSING .*subprocesses/);
});
