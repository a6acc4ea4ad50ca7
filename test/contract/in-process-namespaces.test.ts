import { FileStorage } from '../../src/index.ts';
import { everything } from '../support/depth.ts';
import { openInProcess } from '../support/in-process.ts';
import { scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

namespacesContract('in-process with file storage', {
  open: openInProcess,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
  short: !everything,
});
